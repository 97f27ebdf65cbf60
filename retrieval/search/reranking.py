"""Rerank the best hits with a cross-encoder; failed or late rerankers leave the order unchanged."""

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
from retrieval.ports import AdditiveReranker
from retrieval.search import diversity

if TYPE_CHECKING:
    from retrieval.ports import Reranker
    from retrieval.search.queries import Hit
    from retrieval.search.search import Query

log = structlog.get_logger()

DEFAULT_CANDIDATES, MAX_CANDIDATES = 50, 200
BUDGET_MS = 2000
MAX_FAILURES = 3
# Seconds of rest for a reranker after three failures, so that searches do not wait.
PAUSE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """Number of hits to rerank, and budget in milliseconds."""

    candidates: int = DEFAULT_CANDIDATES
    budget_ms: int = BUDGET_MS

    def widen_query(self, query: Query) -> Query:
        """Return the query for reranking candidates, of any score."""
        return replace(query, top_k=min(max(self.candidates, query.top_k), MAX_CANDIDATES), threshold=0.0)


@dataclass(slots=True)
class _FailureCount:
    failures: int = 0
    until: float = 0.0


@dataclass(slots=True)
class CircuitBreakers:
    """Thread-safe failure counts of rerankers."""

    _failures: dict[int, _FailureCount] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def is_paused(self, reranker: Reranker) -> bool:
        with self._lock:
            health = self._failures.get(id(reranker))
            return health is not None and time.monotonic() < health.until

    def record_call(self, reranker: Reranker, *, succeeded: bool) -> None:
        with self._lock:
            if succeeded:
                self._failures.pop(id(reranker), None)
                return
            health = self._failures.setdefault(id(reranker), _FailureCount())
            health.failures += 1
            if health.failures >= MAX_FAILURES:
                health.until = time.monotonic() + PAUSE_SECONDS


RERANKER_BREAKERS = CircuitBreakers()


async def rerank_within_budget(
    pool: Executor, open_reranker: Callable[[], Reranker], query: Query, hits: Sequence[Hit], rerank: RerankRequest
) -> tuple[list[Hit], bool]:
    """Rerank within the budget; False with the original order after a failure or timeout."""
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
    """Return hits in the reranker's order; None if the reranker fails or is paused."""
    if RERANKER_BREAKERS.is_paused(reranker):
        return None
    adding_reranker = reranker if isinstance(reranker, AdditiveReranker) else None
    texts_read = hits[: adding_reranker.max_texts] if adding_reranker else hits
    try:
        rerank_scores = reranker.rerank(query.text, [hit.content for hit in texts_read], seconds=seconds)
    except Skippable as error:
        # One candidate is at fault; the reranker stays in use.
        log.warning("rerank.not_scored", error=str(error))
        return None
    except StepError as error:
        log.warning("rerank.failed", error=str(error))
        RERANKER_BREAKERS.record_call(reranker, succeeded=False)
        return None
    RERANKER_BREAKERS.record_call(reranker, succeeded=True)
    scores = [*rerank_scores, *[min(rerank_scores)] * (len(hits) - len(texts_read))]
    marked = [
        replace(hit, score=score, rerank_score=score, rank_before=rank)
        for rank, (hit, score) in enumerate(zip(hits, scores, strict=True), 1)
    ]
    if adding_reranker:
        marked = [_add_score(query, hit, adding_reranker.weight / (1 + adding_reranker.weight)) for hit in marked]
    if query.shape.recency is not None:
        marked = diversity.apply_recency(marked, query.shape.recency)
    return choose_hits(marked, query, lead=adding_reranker is not None)


def _add_score(query: Query, hit: Hit, share: float) -> Hit:
    """Add the search score, without recency, to the reranker's."""
    search_score = query.semantic_weight * hit.semantic + query.keyword_weight * hit.keyword
    return replace(hit, score=(1 - share) * search_score + share * hit.score, rerank_weight=share)


def choose_hits(hits: Sequence[Hit], query: Query, *, lead: bool = True) -> list[Hit]:
    """Choose `top_k` hits, best first; `lead` puts the best chunk of each good document first."""
    ordered = sorted((hit for hit in hits if hit.score >= query.threshold), key=lambda hit: -hit.score)
    if lead and query.shape.per_document is None:
        ordered = diversity.lead_documents(ordered, lambda hit: (hit.document_id, hit.score))
    return sorted(ordered[: query.top_k], key=lambda hit: -hit.score)
