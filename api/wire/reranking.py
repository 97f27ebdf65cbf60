"""Reranking options of a search."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from retrieval.errors import ErrorCode, ServiceError
from retrieval.search.reranking import DEFAULT_BUDGET_MS, DEFAULT_CANDIDATES, MAX_CANDIDATES, RerankRequest


class RerankOptions(Struct, rename="camel"):
    """Number of results to rerank, and the time limit."""

    candidates: Annotated[int, Meta(ge=10, le=MAX_CANDIDATES, description="Number of results to rerank.")] = (
        DEFAULT_CANDIDATES
    )
    budget_ms: Annotated[int, Meta(ge=50, le=10_000, description="Milliseconds.")] = DEFAULT_BUDGET_MS


Reranking = Annotated[
    bool | RerankOptions | None,
    Meta(
        description="Rerank the best results. Default: true if the namespace has a reranker.",
        examples=[True],
    ),
]


class SearchReranker(Struct):
    """The service's own reranker, by late interaction; available in every namespace."""

    provider: Annotated[Literal["LOCAL"], Meta(description="The service itself.")]


SearchRerankConfig = Annotated[
    SearchReranker | None,
    Meta(description="Reranks this search by the service's own model, instead of the namespace's reranker."),
]


def read_reranking(options: RerankOptions | Literal[True, False] | None, *, configured: bool) -> RerankRequest | None:
    """Return the reranking, or None; `configured`: a reranker exists."""
    if options is False or (options is None and not configured):
        return None
    if not configured:
        raise ServiceError(
            ErrorCode.INVALID_SEARCH_REQUEST,
            "rerank: the namespace has no reranker. Set its rerankConfig, or leave rerank out.",
            field="rerank",
            reason="no_reranker",
        )
    return (
        RerankRequest(options.candidates, options.budget_ms) if isinstance(options, RerankOptions) else RerankRequest()
    )
