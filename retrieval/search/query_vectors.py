"""Vectors of queries: waiting queries are embedded in one call, and the latest vectors are cached.

A model gets as many concurrent calls as it supports (`Embedder.calls`); later queries join the next call. The cache is
per scope, so that timing reveals nothing about queries of others.
"""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from retrieval.errors import NotEmbedded, Retryable
from retrieval.ports import Embedder, Scope

KEPT = 512
"""Queries; with a model of 3,072 dimensions 12 MB."""
TOGETHER = 16
"""Queries of one call at most."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """A query until its vector is there."""

    text: str
    alone: bool = False
    values: array[float] | None = None
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        return self.values is not None or self.error is not None


@dataclass(eq=False, slots=True)
class _Lane:
    """Queue of queries for one model."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    waiting: list[_Waiting] = field(default_factory=list)
    calls: int = 0


class QueryVectors:
    """Embeds queries, from any number of threads."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._known: OrderedDict[tuple[Embedder, Scope, str], array[float]] = OrderedDict()
        self._lanes: WeakKeyDictionary[Embedder, _Lane] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def embed(self, embedder: Embedder, scope: Scope, text: str) -> list[float]:
        """The query's vector. Whatever the model raises."""
        key = embedder, scope, text
        with self._lock:
            cached = self._known.get(key)
            if cached is not None:
                self._known.move_to_end(key)
                return cached.tolist()
            lane = self._lanes.setdefault(embedder, _Lane())
        values = _embed(embedder, lane, text)
        with self._lock:
            self._known[key] = values
            while len(self._known) > self._kept:
                self._known.popitem(last=False)
        return values.tolist()


def _embed(embedder: Embedder, lane: _Lane, text: str) -> array[float]:
    """Wait for the vector, or for a turn to fetch those of all that wait."""
    mine = _Waiting(text)
    with lane.changed:
        lane.waiting.append(mine)
    while True:
        with lane.changed:
            while not mine.done and (mine not in lane.waiting or lane.calls >= max(embedder.calls, 1)):
                lane.changed.wait()
            if mine.values is not None:
                return mine.values
            if mine.error is not None:
                raise mine.error
            batch = _next(embedder, lane.waiting)
            lane.calls += 1
        try:
            _fetch(embedder, batch)
        finally:
            with lane.changed:
                lane.calls -= 1
                lane.waiting.extend(query for query in batch if not query.done)
                lane.changed.notify_all()


def _next(embedder: Embedder, waiting: list[_Waiting]) -> list[_Waiting]:
    """Take out what the next call is for."""
    limit = 1 if waiting[0].alone else min(embedder.batch_size, TOGETHER)
    batch = [query for query in waiting if query is waiting[0] or not query.alone][: max(limit, 1)]
    waiting[:] = [query for query in waiting if query not in batch]
    return batch


def _fetch(embedder: Embedder, batch: Sequence[_Waiting]) -> None:
    """Set the vector or the error of each query; queries of a batch that the model refuses are retried one by one."""
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
    except BaseException as error:  # noqa: BLE001 - each of those that wait gets it
        for query in batch:
            if len(batch) > 1 and isinstance(error, Exception) and not isinstance(error, Retryable):
                query.alone = True
            else:
                query.error = error
    else:
        for query in batch:
            query.values = array("d", map(float, vectors[query.text]))
