"""Embed queries: waiting queries share a call, and recent vectors are cached per scope."""

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
    """Query without a vector yet."""

    text: str
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
    calls: int = 0


class QueryVectors:
    """Thread-safe cache of query vectors."""

    # A cache per scope, so that timing reveals nothing about queries of others.
    def __init__(self, max_cached: int = MAX_CACHED_QUERIES) -> None:
        self._max_cached = max_cached
        self._cache: OrderedDict[tuple[Embedder, Scope, str], array[float]] = OrderedDict()
        self._lanes: WeakKeyDictionary[Embedder, _QueryQueue] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def embed(self, embedder: Embedder, scope: Scope, text: str) -> list[float]:
        """Return the vector of a query. Raises the model's error."""
        key = embedder, scope, text
        with self._lock:
            cached = self._cache.get(key)
            if cached is not None:
                self._cache.move_to_end(key)
                return cached.tolist()
            lane = self._lanes.setdefault(embedder, _QueryQueue())
        values = _wait_for_vector(embedder, lane, text)
        with self._lock:
            self._cache[key] = values
            while len(self._cache) > self._max_cached:
                self._cache.popitem(last=False)
        return values.tolist()


def _wait_for_vector(embedder: Embedder, lane: _QueryQueue, text: str) -> array[float]:
    """Wait for the vector, or embed the next batch."""
    query = _PendingQuery(text)
    with lane.changed:
        lane.waiting.append(query)
    while True:
        with lane.changed:
            while not query.is_done and (query not in lane.waiting or lane.calls >= max(embedder.calls, 1)):
                lane.changed.wait()
            if query.values is not None:
                return query.values
            if query.error is not None:
                raise query.error
            batch = _take_batch(embedder, lane.waiting)
            lane.calls += 1
        try:
            _embed_batch(embedder, batch)
        finally:
            with lane.changed:
                lane.calls -= 1
                lane.waiting.extend(pending for pending in batch if not pending.is_done)
                lane.changed.notify_all()


def _take_batch(embedder: Embedder, waiting: list[_PendingQuery]) -> list[_PendingQuery]:
    """Take the next batch from the queue."""
    limit = 1 if waiting[0].is_single else min(embedder.batch_size, MAX_BATCH_QUERIES)
    batch = [query for query in waiting if query is waiting[0] or not query.is_single][: max(limit, 1)]
    waiting[:] = [query for query in waiting if query not in batch]
    return batch


def _embed_batch(embedder: Embedder, batch: Sequence[_PendingQuery]) -> None:
    """Set vector or error of each query; a refused batch is retried query by query."""
    texts = list(dict.fromkeys(query.text for query in batch))
    try:
        vectors = dict(zip(texts, embedder.embed(texts, "query"), strict=True))
    except NotEmbedded as error:
        remaining = iter(error.vectors)
        outcomes = [error.reasons.get(position) or next(remaining) for position in range(len(texts))]
        by_text = dict(zip(texts, outcomes, strict=True))
        for query in batch:
            outcome = by_text[query.text]
            if isinstance(outcome, str):
                query.error = NotEmbedded({0: outcome}, error.vectors[:0])
            else:
                query.values = array("d", map(float, outcome))
    except BaseException as error:  # noqa: BLE001 - every waiting query gets the error
        for query in batch:
            if len(batch) > 1 and isinstance(error, Exception) and not isinstance(error, Retryable):
                query.is_single = True
            else:
                query.error = error
    else:
        for query in batch:
            query.values = array("d", map(float, vectors[query.text]))
