"""Back-off by host for garbage collection: a failing host is skipped, each time for longer, so that others proceed.

Each host is seen by itself: what is called there is measured, what it does not answer or refuses for the moment puts it
back, later each time. What is known of it is this process's own, and a fresh process finds out anew.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any

from retrieval.errors import Retryable
from retrieval.maintenance.garbage_actions import Stores
from retrieval.ports import FileStore, Scope, VectorStore

SLOW_SECONDS = 15.0
"""A call that takes longer counts as a failure of its host, whatever comes of it."""
DELAY_SECONDS = 5.0
DELAY_MOST = 600.0
"""For so long a host that fails is left alone: at first, and in the end."""
GOOD_AT_ONCE = 2
"""Threads for one host that has answered before; any other has one."""


class Hosts:
    """State of hosts: threads at work, failures and delays. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._at_work: Counter[str] = Counter()
        self._failures: dict[str, int] = {}
        self._until: dict[str, float] = {}
        self._good: set[str] = set()

    def good(self) -> list[str]:
        """Those that answered the last time."""
        with self._lock:
            return list(self._good)

    def held(self) -> list[str]:
        """Those where nothing is to be begun now: they failed a moment ago, or have as many threads as they may."""
        with self._lock:
            return [name for name in {*self._until, *self._at_work} if self._is_held(name)]

    def is_held(self, names: Sequence[str]) -> bool:
        with self._lock:
            return any(self._is_held(name) for name in names)

    def wait(self, names: Sequence[str]) -> bool:
        """Tell whether one of the hosts is in its delay after a failure, which also stops the threads at work there."""
        with self._lock:
            return any(time.monotonic() < self._until.get(name, 0) for name in names)

    def begin(self, names: Sequence[str]) -> None:
        """Count one more thread at work on these hosts."""
        with self._lock:
            self._at_work.update(names)

    def end(self, names: Sequence[str]) -> None:
        with self._lock:
            self._at_work = +(self._at_work - Counter(names))

    def failed(self, name: str, *, after: float | None = None) -> None:
        """Record a failure and extend the host's delay. `after`: seconds from the host's own Retry-After."""
        with self._lock:
            failures = self._failures.get(name, 0)
            seconds = max(min(DELAY_SECONDS * 2 ** min(failures, 10), DELAY_MOST), min(after or 0, DELAY_MOST))
            self._failures[name] = failures + 1
            self._until[name] = time.monotonic() + seconds
            self._good.discard(name)

    def answered(self, name: str) -> None:
        with self._lock:
            self._failures.pop(name, None)
            self._until.pop(name, None)
            self._good.add(name)

    @contextmanager
    def asked(self, name: str) -> Iterator[None]:
        """Record the outcome of one call. Permanent refusals and local errors do not count against the host."""
        began = time.monotonic()
        try:
            yield
        except Retryable as error:
            self.failed(name, after=error.after)
            raise
        if time.monotonic() - began > SLOW_SECONDS:
            self.failed(name)
        else:
            self.answered(name)

    def watched(self, stores: Stores, vectors: str | None, files: str | None, others: str | None) -> Stores:
        """The stores, by the names of their hosts; None: of this installation."""
        return replace(
            stores,
            vectors=_vectors(stores.vectors, self, vectors),
            files=_Files(stores.files, self, files) if files else stores.files,
            others=tuple(_vectors(store, self, others) for store in stores.others),
        )

    def _is_held(self, name: str) -> bool:
        limit = GOOD_AT_ONCE if name in self._good else 1
        return self._at_work[name] >= limit or time.monotonic() < self._until.get(name, 0)


def _vectors(store: VectorStore, hosts: Hosts, name: str | None) -> VectorStore:
    watched: Any = _Vectors(store, hosts, name) if name else store
    return watched  # type: ignore[no-any-return]


class _Files:
    """File store whose calls are recorded by host."""

    def __init__(self, store: FileStore, hosts: Hosts, name: str) -> None:
        self._store, self._hosts, self._name = store, hosts, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def delete(self, keys: Sequence[str]) -> None:
        with self._hosts.asked(self._name):
            self._store.delete(keys)

    def keys(self, prefix: str) -> Iterator[str]:
        with self._hosts.asked(self._name):
            keys = list(self._store.keys(prefix))
        return iter(keys)


class _Vectors:
    """Vector store whose calls are recorded by host."""

    def __init__(self, store: VectorStore, hosts: Hosts, name: str) -> None:
        self._store, self._hosts, self._name = store, hosts, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def delete(self, scope: Scope, ids: Sequence[str]) -> None:
        with self._hosts.asked(self._name):
            self._store.delete(scope, ids)

    def ids(self, scope: Scope, prefix: str) -> Iterator[str]:
        with self._hosts.asked(self._name):
            vector_ids = list(self._store.ids(scope, prefix))
        return iter(vector_ids)

    def drop(self, scope: Scope) -> None:
        with self._hosts.asked(self._name):
            self._store.drop(scope)

    def relabel(self, scope: Scope, document_id: str, ids: Sequence[str], labels: Any) -> None:
        with self._hosts.asked(self._name):
            self._store.relabel(scope, document_id, ids, labels)
