"""Back-off by host for garbage collection, so that a failing host does not delay others."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any

from retrieval.errors import Retryable
from retrieval.maintenance.stores import Stores
from retrieval.ports import FileStore, Scope, VectorStore

# Slower calls count as failures of their host.
SLOW_CALL_SECONDS = 15.0
FIRST_DELAY_SECONDS = 5.0
MAX_DELAY_SECONDS = 600.0
# Other hosts have one thread.
HEALTHY_HOST_THREADS = 2


class HostBackoff:
    """Active threads, failures and delays by host, in this process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._at_work: Counter[str] = Counter()
        self._failures: dict[str, int] = {}
        self._until: dict[str, float] = {}
        self._healthy: set[str] = set()

    def list_healthy(self) -> list[str]:
        """Return the hosts with a successful last call."""
        with self._lock:
            return list(self._healthy)

    def list_blocked(self) -> list[str]:
        """Return the hosts in a delay or without a free thread."""
        with self._lock:
            return [name for name in {*self._until, *self._at_work} if self._is_blocked(name)]

    def is_any_blocked(self, names: Sequence[str]) -> bool:
        """Check for a host in a delay or without a free thread."""
        with self._lock:
            return any(self._is_blocked(name) for name in names)

    def is_any_delayed(self, names: Sequence[str]) -> bool:
        """Check for a host in a delay after a failure."""
        with self._lock:
            return any(time.monotonic() < self._until.get(name, 0) for name in names)

    def add_thread(self, names: Sequence[str]) -> None:
        with self._lock:
            self._at_work.update(names)

    def remove_thread(self, names: Sequence[str]) -> None:
        with self._lock:
            self._at_work = +(self._at_work - Counter(names))

    def record_failure(self, name: str, *, retry_after: float | None = None) -> None:
        """Record a failure and extend the host's delay. `retry_after`: seconds of Retry-After."""
        with self._lock:
            failures = self._failures.get(name, 0)
            seconds = max(
                min(FIRST_DELAY_SECONDS * 2 ** min(failures, 10), MAX_DELAY_SECONDS),
                min(retry_after or 0, MAX_DELAY_SECONDS),
            )
            self._failures[name] = failures + 1
            self._until[name] = time.monotonic() + seconds
            self._healthy.discard(name)

    def record_success(self, name: str) -> None:
        with self._lock:
            self._failures.pop(name, None)
            self._until.pop(name, None)
            self._healthy.add(name)

    @contextmanager
    def record_call(self, name: str) -> Iterator[None]:
        """Record the outcome of one call; permanent refusals and local errors are no failures."""
        started_at = time.monotonic()
        try:
            yield
        except Retryable as error:
            self.record_failure(name, retry_after=error.after)
            raise
        if time.monotonic() - started_at > SLOW_CALL_SECONDS:
            self.record_failure(name)
        else:
            self.record_success(name)

    def watch_stores(self, stores: Stores, vectors: str | None, files: str | None, others: str | None) -> Stores:
        """Return the stores with calls recorded by host; a host of None is this installation."""
        return replace(
            stores,
            vectors=_watch_vectors(stores.vectors, self, vectors),
            files=_WatchedFiles(stores.files, self, files) if files else stores.files,
            others=tuple(_watch_vectors(store, self, others) for store in stores.others),
        )

    def _is_blocked(self, name: str) -> bool:
        limit = HEALTHY_HOST_THREADS if name in self._healthy else 1
        return self._at_work[name] >= limit or time.monotonic() < self._until.get(name, 0)


def _watch_vectors(store: VectorStore, hosts: HostBackoff, name: str | None) -> VectorStore:
    watched: Any = _WatchedVectors(store, hosts, name) if name else store
    return watched  # type: ignore[no-any-return]


class _WatchedFiles:
    """File store whose calls are recorded by host."""

    def __init__(self, store: FileStore, hosts: HostBackoff, name: str) -> None:
        self._store, self._hosts, self._name = store, hosts, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def delete(self, keys: Sequence[str]) -> None:
        with self._hosts.record_call(self._name):
            self._store.delete(keys)

    def keys(self, prefix: str) -> Iterator[str]:
        with self._hosts.record_call(self._name):
            keys = list(self._store.keys(prefix))
        return iter(keys)


class _WatchedVectors:
    """Vector store whose calls are recorded by host."""

    def __init__(self, store: VectorStore, hosts: HostBackoff, name: str) -> None:
        self._store, self._hosts, self._name = store, hosts, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def delete(self, scope: Scope, ids: Sequence[str]) -> None:
        with self._hosts.record_call(self._name):
            self._store.delete(scope, ids)

    def ids(self, scope: Scope, prefix: str) -> Iterator[str]:
        with self._hosts.record_call(self._name):
            vector_ids = list(self._store.ids(scope, prefix))
        return iter(vector_ids)

    def drop(self, scope: Scope) -> None:
        with self._hosts.record_call(self._name):
            self._store.drop(scope)

    def relabel(self, scope: Scope, document_id: str, ids: Sequence[str], labels: Any) -> None:
        with self._hosts.record_call(self._name):
            self._store.relabel(scope, document_id, ids, labels)
