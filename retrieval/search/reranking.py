"""Reranking: the best hits read again by a model that sees query and text together.

The score of a hit becomes the reranker's. One that is `Adding` gives (score + weight * its own) / (1 + weight) instead:
what it does not read counts as the worst of what it reads, and documents that score alike have the first places, as
without it. A reranker that is away, late or wrong changes nothing: the order stays as it was. One that has failed three
times in a row is left alone for ten seconds, so that not every search waits for it.
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

from retrieval.errors import Skippable, StepError
from retrieval.ports import Adding
from retrieval.search import diversity

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
    pool: Executor, open_reranker: Callable[[], Reranker], query: Query, hits: Sequence[Hit], rerank: Rerank
) -> tuple[list[Hit], bool]:
    """The best hits in their new order and True, or as without reranking and False: within the budget either way."""
    if not hits:
        return [], True
    seconds = rerank.budget_ms / 1000
    loop = asyncio.get_running_loop()
    reread: list[Hit] | None = None
    try:
        async with asyncio.timeout(seconds):
            reread = await loop.run_in_executor(pool, lambda: rerank_hits(open_reranker(), query, hits, seconds))
    except TimeoutError:
        log.warning("rerank.late", seconds=seconds)
    except StepError as error:
        log.warning("rerank.failed", error=str(error))
    return (choose_hits(hits, query), False) if reread is None else (reread, True)


def rerank_hits(reranker: Reranker, query: Query, hits: Sequence[Hit], seconds: float) -> list[Hit] | None:
    """The best hits in their new order, as many as the query asks for; None if the reranker fails or is left alone."""
    if HEALTHS.paused(reranker):
        return None
    adding = reranker if isinstance(reranker, Adding) else None
    read = hits[: adding.most] if adding else hits
    try:
        rerank_scores = reranker.rerank(query.text, [hit.content for hit in read], seconds=seconds)
    except Skippable as error:
        # A candidate is at fault, and the reranker scores others: the next search asks it again.
        log.warning("rerank.not_scored", error=str(error))
        return None
    except StepError as error:
        log.warning("rerank.failed", error=str(error))
        HEALTHS.note(reranker, succeeded=False)
        return None
    HEALTHS.note(reranker, succeeded=True)
    scores = [*rerank_scores, *[min(rerank_scores)] * (len(hits) - len(read))]
    marked = [
        replace(hit, score=score, rerank_score=score, rank_before=rank)
        for rank, (hit, score) in enumerate(zip(hits, scores, strict=True), 1)
    ]
    if adding:
        marked = [_add_score(query, hit, adding.weight / (1 + adding.weight)) for hit in marked]
    if query.shape.recency is not None:
        marked = diversity.apply_recency(marked, query.shape.recency)
    return choose_hits(marked, query, lead=adding is not None)


def _add_score(query: Query, hit: Hit, share: float) -> Hit:
    """Add the score of the search, without recency, to that of the reranker."""
    search_score = query.semantic_weight * hit.semantic + query.keyword_weight * hit.keyword
    return replace(hit, score=(1 - share) * search_score + share * hit.score, rerank_weight=share)


def choose_hits(hits: Sequence[Hit], query: Query, *, lead: bool = True) -> list[Hit]:
    """The hits that fill the query's places, best first; equal ones stay in order. `lead`: documents that score alike
    first, see `diversity`."""
    ordered = sorted((hit for hit in hits if hit.score >= query.threshold), key=lambda hit: -hit.score)
    if lead and query.shape.per_document is None:
        ordered = diversity.lead_documents(ordered, lambda hit: (hit.document_id, hit.score))
    return sorted(ordered[: query.top_k], key=lambda hit: -hit.score)
