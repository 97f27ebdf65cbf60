"""Searches as Dify and OpenAI's SDK ask for them."""

from __future__ import annotations

import asyncio
from functools import partial

from api import request_context, searches
from api.auth import count_more
from api.operation import Call, operation
from api.wire.compat import (
    DifyAnswer,
    DifyRecord,
    DifyRetrieval,
    VectorStoreResult,
    VectorStoreSearch,
    VectorStoreSearchAnswer,
)
from api.wire.search import SearchResult
from retrieval.errors import ErrorCode

_DONE = "Search completed successfully"
_operation = partial(
    operation,
    "POST",
    tag="Search",
    invalid=ErrorCode.INVALID_SEARCH_REQUEST,
    failed=ErrorCode.SEARCH_FAILED,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.INVALID_HYBRID_CONFIG),
)


@_operation(
    "/v1/compat/dify/retrieval",
    example={
        "knowledge_id": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0",
        "query": "How do I open the cover?",
        "retrieval_setting": {"top_k": 3, "score_threshold": 0.2},
    },
)
async def dify_retrieval(call: Call[DifyRetrieval, None]) -> DifyAnswer:
    """Search as Dify's external knowledge API.

    A hybrid search with equal weights. Errors add Dify's `error_code` and `error_msg`.
    """
    found = await searches.answer(call, call.body.to_search())
    return DifyAnswer(message=_DONE, records=[DifyRecord.of(one) for one in found.results])


@_operation(
    "/v1/vector_stores/{namespace_id:str}/search", example={"query": "How do I open the cover?", "max_num_results": 5}
)
async def vector_store_search(call: Call[VectorStoreSearch, None]) -> VectorStoreSearchAnswer:
    """Search as a vector store of OpenAI.

    A hybrid search with equal weights unless `ranking_options` has others; a document each, with its best
    chunks. Several queries count as so many requests. Errors add `type` and `param`, as OpenAI's have them.
    """
    asked = call.body.to_searches(call.path["namespace_id"])
    if len(asked) > 1:
        context = request_context.of(call.request.scope)
        context.rate = await count_more(call.services.db, call.caller, len(asked) - 1)
    found = await asyncio.gather(*(searches.answer(call, one) for one in asked))
    results = _merged([group for one in found for group in one.results])[: call.body.max_num_results or 10]
    return VectorStoreSearchAnswer(message=_DONE, search_query=call.body.queries, data=results)


HANDLERS = (dify_retrieval, vector_store_search)


def _merged(groups: list[SearchResult]) -> list[VectorStoreResult]:
    """By document, each chunk once with its best score, best first."""
    chunks: dict[str, dict[int, SearchResult]] = {}
    for group in groups:
        of_document = chunks.setdefault(group.document.id, {})
        for one in (group, *(group.more or ())):
            known = of_document.get(one.chunk.index)
            if known is None or one.score > known.score:
                of_document[one.chunk.index] = one
    ordered = [sorted(one.values(), key=lambda chunk: (-chunk.score, chunk.chunk.index)) for one in chunks.values()]
    return [VectorStoreResult.of(one) for one in sorted(ordered, key=lambda one: (-one[0].score, one[0].document.id))]
