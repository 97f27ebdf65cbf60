"""Reranking: the best hits read again by a model that sees query and text together.

The score of a hit becomes the reranker's. A reranker that is away, late or wrong changes nothing: the order stays as it
was. One that has failed three times in a row is left alone for ten seconds, so that not every search waits for it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import structlog

from retrieval.errors import StepError

if TYPE_CHECKING:
    from retrieval.ports import Reranker
    from retrieval.search.queries import Hit
    from retrieval.search.search import Query

log = structlog.get_logger()

CANDIDATES, MOST_CANDIDATES = 50, 200
BUDGET_MS = 2000
FAILURES = 3
PAUSE = 10.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Rerank:
    """Number of best hits to rerank, and the time limit."""

    candidates: int = CANDIDATES
    budget_ms: int = BUDGET_MS

    def widened(self, query: Query) -> Query:
        """Return the query for the candidates: at least `top_k`, of any score, at most 200."""
        return replace(query, top_k=min(max(self.candidates, query.top_k), MOST_CANDIDATES), threshold=0.0)


@dataclass(slots=True)
class _Health:
    failures: int = 0
    until: float = 0.0


@dataclass(slots=True)
class Healths:
    """Which rerankers have failed of late, by their identity in this process. Safe for threads."""

    _known: dict[int, _Health] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def paused(self, reranker: Reranker) -> bool:
        with self._lock:
            health = self._known.get(id(reranker))
            return health is not None and time.monotonic() < health.until

    def note(self, reranker: Reranker, *, succeeded: bool) -> None:
        with self._lock:
            if succeeded:
                self._known.pop(id(reranker), None)
                return
            health = self._known.setdefault(id(reranker), _Health())
            health.failures += 1
            if health.failures >= FAILURES:
                health.until = time.monotonic() + PAUSE


HEALTHS = Healths()


async def read_again(
    pool: Executor, open_reranker: Callable[[], Reranker], query: str, hits: Sequence[Hit], wanted: Rerank
) -> tuple[list[Hit], bool]:
    """The hits in their new order and True, or as they were and False: within the budget either way."""
    if not hits:
        return [], True
    seconds = wanted.budget_ms / 1000
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            new_scores = await loop.run_in_executor(pool, lambda: score_hits(open_reranker(), query, hits, seconds))
    except TimeoutError:
        log.warning("rerank.late", seconds=seconds)
        return list(hits), False
    except StepError as error:
        log.warning("rerank.failed", error=str(error))
        return list(hits), False
    return (list(hits), False) if new_scores is None else (reorder_hits(hits, new_scores), True)


def score_hits(reranker: Reranker, query: str, hits: Sequence[Hit], seconds: float) -> Sequence[float] | None:
    """The reranker's score of each hit; None if it fails or is left alone."""
    if HEALTHS.paused(reranker):
        return None
    try:
        rerank_scores = reranker.rerank(query, [hit.content for hit in hits], seconds=seconds)
    except StepError as error:
        log.warning("rerank.failed", error=str(error))
        HEALTHS.note(reranker, succeeded=False)
        return None
    HEALTHS.note(reranker, succeeded=True)
    return rerank_scores


def reorder_hits(hits: Sequence[Hit], found: Sequence[float]) -> list[Hit]:
    """The hits by their new scores; equal ones stay in the order they had."""
    marked = [
        replace(hit, score=score, rerank_score=score, rank_before=rank)
        for rank, (hit, score) in enumerate(zip(hits, found, strict=True), 1)
    ]
    return sorted(marked, key=lambda hit: -hit.score)
