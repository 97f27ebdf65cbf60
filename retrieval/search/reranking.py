"""Rerank the best hits with a reranker; after a failure or timeout the search order remains."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import structlog

from retrieval.errors import Skippable, StepError
from retrieval.ports import AdditiveReranker
from retrieval.search import result_selection

if TYPE_CHECKING:
    from retrieval.ports import Reranker
    from retrieval.search.queries import Hit
    from retrieval.search.search import Query

log = structlog.get_logger()

DEFAULT_CANDIDATES, MAX_CANDIDATES = 50, 200
DEFAULT_BUDGET_MS = 2000
# After this many consecutive failures, searches skip a reranker for `PAUSE_SECONDS` instead of waiting for it.
MAX_FAILURES = 3
PAUSE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """Number of hits to rerank, and budget in milliseconds."""

    candidates: int = DEFAULT_CANDIDATES
    budget_ms: int = DEFAULT_BUDGET_MS

    def widen_query(self, query: Query) -> Query:
        """Return a query that finds the hits to rerank; the threshold applies to their new scores."""
        return replace(query, top_k=min(max(self.candidates, query.top_k), MAX_CANDIDATES), threshold=0.0)


class RerankResult(NamedTuple):
    """Hits, best first; in the search order if the reranker failed."""

    hits: list[Hit]
    is_reranked: bool


@dataclass(slots=True)
class _RerankerState:
    failure_count: int = 0
    paused_until: float = 0.0


@dataclass(slots=True)
class RerankerPauses:
    """Pauses of rerankers after failures; thread-safe."""

    # By `id` of the reranker.
    _states: dict[int, _RerankerState] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def is_paused(self, reranker: Reranker) -> bool:
        with self._lock:
            state = self._states.get(id(reranker))
            return state is not None and time.monotonic() < state.paused_until

    def record_call(self, reranker: Reranker, *, succeeded: bool) -> None:
        with self._lock:
            if succeeded:
                self._states.pop(id(reranker), None)
                return
            state = self._states.setdefault(id(reranker), _RerankerState())
            state.failure_count += 1
            if state.failure_count >= MAX_FAILURES:
                state.paused_until = time.monotonic() + PAUSE_SECONDS


RERANKER_PAUSES = RerankerPauses()


async def rerank_within_budget(
    pool: Executor, open_reranker: Callable[[], Reranker], query: Query, hits: Sequence[Hit], rerank: RerankRequest
) -> RerankResult:
    """Rerank within the budget of the request, in a thread of the pool."""
    if not hits:
        return RerankResult([], is_reranked=True)
    seconds = rerank.budget_ms / 1000
    loop = asyncio.get_running_loop()
    reranked: list[Hit] | None = None
    try:
        async with asyncio.timeout(seconds):
            reranked = await loop.run_in_executor(pool, lambda: rerank_hits(open_reranker(), query, hits, seconds))
    except TimeoutError:
        log.warning("rerank.late", seconds=seconds)
    except StepError as error:
        log.warning("rerank.failed", error=str(error))
    if reranked is None:
        return RerankResult(choose_hits(hits, query), is_reranked=False)
    return RerankResult(reranked, is_reranked=True)


def rerank_hits(reranker: Reranker, query: Query, hits: Sequence[Hit], seconds: float) -> list[Hit] | None:
    """Return hits in the reranker's order; None if the reranker fails or is paused."""
    if RERANKER_PAUSES.is_paused(reranker):
        return None
    additive_reranker = reranker if isinstance(reranker, AdditiveReranker) else None
    hits_to_rerank = hits[: additive_reranker.max_texts] if additive_reranker else hits
    try:
        rerank_scores = reranker.rerank(query.text, [hit.content for hit in hits_to_rerank], seconds=seconds)
    except Skippable as error:
        # The reranker refuses one of the texts, which is not its failure.
        log.warning("rerank.not_scored", error=str(error))
        return None
    except StepError as error:
        log.warning("rerank.failed", error=str(error))
        RERANKER_PAUSES.record_call(reranker, succeeded=False)
        return None
    RERANKER_PAUSES.record_call(reranker, succeeded=True)
    # Hits beyond `max_texts` get the lowest score.
    lowest_scores = [min(rerank_scores)] * (len(hits) - len(hits_to_rerank))
    scores = [*rerank_scores, *lowest_scores]
    rescored = [
        replace(hit, score=score, rerank_score=score, rank_before=rank)
        for rank, (hit, score) in enumerate(zip(hits, scores, strict=True), 1)
    ]
    if additive_reranker:
        # The weights of search score and rerank score are 1 to `weight`; together they are 1 here.
        rerank_weight = additive_reranker.weight / (1 + additive_reranker.weight)
        rescored = [_blend_scores(query, hit, rerank_weight) for hit in rescored]
    if query.shape.recency is not None:
        rescored = result_selection.apply_recency(rescored, query.shape.recency)
    return choose_hits(rescored, query, favors_documents=additive_reranker is not None)


def _blend_scores(query: Query, hit: Hit, rerank_weight: float) -> Hit:
    """Combine the search score, without recency, with the reranker's score."""
    search_score = query.semantic_weight * hit.semantic + query.keyword_weight * hit.keyword
    score = (1 - rerank_weight) * search_score + rerank_weight * hit.score
    return replace(hit, score=score, rerank_weight=rerank_weight)


def choose_hits(hits: Sequence[Hit], query: Query, *, favors_documents: bool = True) -> list[Hit]:
    """Choose `top_k` hits, best first; with `favors_documents`, second chunks take no other document's place."""
    candidates = sorted((hit for hit in hits if hit.score >= query.threshold), key=lambda hit: -hit.score)
    if favors_documents and query.shape.per_document is None:
        candidates = result_selection.lead_documents(candidates, lambda hit: (hit.document_id, hit.score))
    return sorted(candidates[: query.top_k], key=lambda hit: -hit.score)
