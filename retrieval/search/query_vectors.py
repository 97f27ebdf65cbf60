"""Embed queries: concurrent queries share a call to the model, and recent vectors are cached per scope."""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from retrieval.errors import NotEmbedded, Retryable
from retrieval.ports import Embedder, Scope

# 512 vectors of 3,072 dimensions take 12 MB.
MAX_CACHED_QUERIES = 512
MAX_BATCH_QUERIES = 16


@dataclass(eq=False, slots=True)
class _PendingQuery:
    """Query without a vector or error yet."""

    text: str
    # Embedded in a call of its own, after the refusal of a batch.
    is_single: bool = False
    values: array[float] | None = None
    error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self.values is not None or self.error is not None


@dataclass(eq=False, slots=True)
class _QueryQueue:
    """Queue of queries for one model."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    waiting: list[_PendingQuery] = field(default_factory=list)
    running_calls: int = 0

    def can_start_call(self, embedder: Embedder) -> bool:
        return self.running_calls < max(embedder.calls, 1)


class QueryVectors:
    """Thread-safe cache of query vectors."""

    def __init__(self, max_cached: int = MAX_CACHED_QUERIES) -> None:
        self._max_cached = max_cached
        # The scope is a part of the key, so that timing reveals nothing about queries in other scopes.
        self._cache: OrderedDict[tuple[Embedder, Scope, str], array[float]] = OrderedDict()
        self._queues: WeakKeyDictionary[Embedder, _QueryQueue] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def embed(self, embedder: Embedder, scope: Scope, text: str) -> list[float]:
        """Return the vector of a query; raise the model's error."""
        key = embedder, scope, text
        with self._lock:
            cached = self._cache.get(key)
            if cached is not None:
                self._cache.move_to_end(key)
                return cached.tolist()
            queue = self._queues.setdefault(embedder, _QueryQueue())
        values = _wait_for_vector(embedder, queue, text)
        with self._lock:
            self._cache[key] = values
            while len(self._cache) > self._max_cached:
                self._cache.popitem(last=False)
        return values.tolist()


def _wait_for_vector(embedder: Embedder, queue: _QueryQueue, text: str) -> array[float]:
    """Queue a query and return the vector, embedded by this thread or in another query's batch."""
    query = _PendingQuery(text)
    with queue.changed:
        queue.waiting.append(query)
    while True:
        with queue.changed:
            # A query that is not waiting is in the batch of another thread.
            while not query.is_done and (query not in queue.waiting or not queue.can_start_call(embedder)):
                queue.changed.wait()
            if query.values is not None:
                return query.values
            if query.error is not None:
                raise query.error
            batch = _take_batch(embedder, queue.waiting)
            queue.running_calls += 1
        try:
            _embed_batch(embedder, batch)
        finally:
            with queue.changed:
                queue.running_calls -= 1
                queue.waiting.extend(pending for pending in batch if not pending.is_done)
                queue.changed.notify_all()


def _take_batch(embedder: Embedder, waiting: list[_PendingQuery]) -> list[_PendingQuery]:
    """Remove the next batch from the waiting queries: one marked single, or others up to the batch size."""
    first = waiting[0]
    if first.is_single:
        batch = [first]
    else:
        limit = max(min(embedder.batch_size, MAX_BATCH_QUERIES), 1)
        batch = [query for query in waiting if not query.is_single][:limit]
    waiting[:] = [query for query in waiting if query not in batch]
    return batch


def _embed_batch(embedder: Embedder, batch: Sequence[_PendingQuery]) -> None:
    """Set the vector or error of each query, or mark the queries of a refused batch as single."""
    texts = list(dict.fromkeys(query.text for query in batch))
    try:
        vectors = dict(zip(texts, embedder.embed(texts, "query"), strict=True))
    except NotEmbedded as error:
        refusals = {texts[position]: reason for position, reason in error.reasons.items()}
        embedded_texts = [text for text in texts if text not in refusals]
        vectors = dict(zip(embedded_texts, error.vectors, strict=True))
        for query in batch:
            if query.text in refusals:
                query.error = NotEmbedded({0: refusals[query.text]}, error.vectors[:0])
            else:
                query.values = array("d", map(float, vectors[query.text]))
    except BaseException as error:  # noqa: BLE001 - every waiting query gets the error
        # The model may refuse the batch for one of its texts.
        tries_singly = len(batch) > 1 and isinstance(error, Exception) and not isinstance(error, Retryable)
        for query in batch:
            if tries_singly:
                query.is_single = True
            else:
                query.error = error
    else:
        for query in batch:
            query.values = array("d", map(float, vectors[query.text]))
