"""Search operations: semantic, hybrid, batch, explanation, and formats of other services."""

from __future__ import annotations

import asyncio
from functools import partial

from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from api import decode, errors, request_limits, searches
from api.auth import count_more
from api.operation import operation
from api.request import ApiRequest
from api.searches import NamespaceSelection
from api.wire.compat import (
    DifyAnswer,
    DifyRecord,
    DifyRetrieval,
    VectorStoreResult,
    VectorStoreSearch,
    VectorStoreSearchAnswer,
)
from api.wire.search import HybridSearchRequest, SearchAnswer, SearchRequest, SearchResult
from api.wire.searches import (
    SearchBatchAnswer,
    SearchBatchData,
    SearchBatchRequest,
    SearchBatchResult,
    SearchKind,
    WhyAnswer,
    WhyRequest,
)
from api.wire.weak_searches import WeakSearch, WeakSearchesAnswer, WeakSearchesData, WeakSearchesQuery
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces import namespaces
from retrieval.search import queries_weak

_INVALID_REQUEST = ErrorCode.INVALID_SEARCH_REQUEST
_SUCCESS_MESSAGE = "Search completed successfully"
_operation = partial(operation, "POST", tag="Search", invalid=_INVALID_REQUEST, failed=ErrorCode.SEARCH_FAILED)
_SEARCH_EXAMPLE = {
    "query": "How do I open the cover?",
    "namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0",
    "topK": 5,
    "scoreThreshold": 0.2,
}
MAX_CONCURRENT_QUERIES = 4

_read_kind = decode.make_json_reader(SearchKind, _INVALID_REQUEST)
_read_semantic = decode.make_json_reader(SearchRequest, _INVALID_REQUEST)
_read_hybrid = decode.make_json_reader(HybridSearchRequest, _INVALID_REQUEST)


@_operation("/v1/search", raises=(ErrorCode.NAMESPACE_NOT_FOUND,), example=_SEARCH_EXAMPLE)
async def semantic_search(request: ApiRequest, data: JSONBody[SearchRequest]) -> SearchAnswer:
    """Semantic search. The score is the cosine similarity of query and content; 0 if the model calls them unrelated."""
    return SearchAnswer(message=_SUCCESS_MESSAGE, data=await searches.answer_search(request, data))


@_operation(
    "/v1/search/hybrid",
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.INVALID_HYBRID_CONFIG),
    example={**_SEARCH_EXAMPLE, "hybridConfig": {"semanticWeight": 0.5, "keywordWeight": 0.5}},
)
async def hybrid_search(request: ApiRequest, data: JSONBody[HybridSearchRequest]) -> SearchAnswer:
    """Hybrid search. The score is the weighted sum of cosine similarity and normalised BM25, each between 0 and 1."""
    answer = await searches.answer_search(request, data)
    return SearchAnswer(message=answer.note or _SUCCESS_MESSAGE, data=answer)


@_operation(
    "/v1/search/batch",
    checks_whole_body=False,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
    example={
        "namespaceId": _SEARCH_EXAMPLE["namespaceId"],
        "queries": [
            {"query": "How do I open the cover?", "topK": 3},
            {"query": "E-1042", "hybridConfig": {"semanticWeight": 0.2, "keywordWeight": 0.8}},
        ],
    },
)
async def batch_search(request: ApiRequest, data: JSONBody[SearchBatchRequest]) -> SearchBatchAnswer:
    """Run several searches.

    Each query has the same answer as in a request of its own: `results` or an `error`. A missing namespace of the batch
    fails all queries; one that a query names fails that query. Each query counts as a request.
    """
    if further := len(data.queries) - 1:
        context = request.context
        context.rate = await count_more(request.services.db, request.caller, further)
    selection = NamespaceSelection(namespace_id=data.namespace_id, namespace_ids=data.namespace_ids)
    await searches.open_spaces(request, selection)
    slots = asyncio.Semaphore(MAX_CONCURRENT_QUERIES)

    async def answer_query(content: bytes) -> SearchBatchResult:
        async with slots:
            try:
                answer = await searches.answer_search(request, _read_query(content, selection))
            except Exception as error:  # noqa: BLE001 - each query answers for itself
                info = errors.describe_error(errors.to_service_error(error, unexpected_code=ErrorCode.SEARCH_FAILED))
                return SearchBatchResult(error=info)
            return SearchBatchResult(answer.results, answer.timings, answer.reranked, answer.note, answer.answerable)

    results = await asyncio.gather(*(answer_query(bytes(query)) for query in data.queries))
    return SearchBatchAnswer(message=_SUCCESS_MESSAGE, data=SearchBatchData(list(results)))


@_operation(
    "/v1/search/why",
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.DOCUMENTS_NOT_FOUND, ErrorCode.INVALID_HYBRID_CONFIG),
    example={
        **_SEARCH_EXAMPLE,
        "hybridConfig": {"semanticWeight": 0.5, "keywordWeight": 0.5},
        "documentId": "doc_06gzpp0w4n1c3e5g7j9m2p4r6t",
    },
)
async def why_search(request: ApiRequest, data: JSONBody[WhyRequest]) -> WhyAnswer:
    """Explain a search result.

    Returns the reasons why a document is not found, and the rank of its best chunk in each list before reranking.
    """
    return WhyAnswer(message="The search was explained", data=await searches.explain_search(request, data))


@operation(
    "GET",
    "/v1/weak-searches",
    tag="Search",
    invalid=ErrorCode.INVALID_REQUEST,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
)
async def list_weak_searches(request: ApiRequest, params: NamedDependency[WeakSearchesQuery]) -> WeakSearchesAnswer:
    """List queries without good results.

    Queries whose results probably did not answer them, the most frequent first. They are recorded for
    `RETRIEVAL_WEAK_SEARCH_DAYS` (14; 0 records none), never for searches with `explain`, and without who searched.
    """
    db, scope, days = (
        request.services.db,
        request.scope_of(params.namespace_id),
        request.services.settings.weak_search_days,
    )
    await namespaces.require_namespace(db, scope.organization, scope.namespace)
    rows = await queries_weak.list_searches(db, scope, days)
    data = WeakSearchesData([WeakSearch.from_weak_search(row) for row in rows], days)
    return WeakSearchesAnswer(message="Weak searches fetched successfully", data=data)


def _read_query(content: bytes, selection: NamespaceSelection) -> searches.SearchBody:
    """Decode a query of a batch, which may repeat the batch's namespaces."""
    request_limits.check_json(content, _INVALID_REQUEST)
    query: searches.SearchBody = (_read_hybrid if _read_kind(content).is_hybrid else _read_semantic)(content)
    for name, field, expected in (
        ("namespaceId", query.namespace_id, selection["namespace_id"]),
        ("namespaceIds", query.namespace_ids, selection["namespace_ids"]),
    ):
        if field is not None and field != expected:
            message = f"{name}: the queries of a batch are asked where the batch says. Leave it out here."
            raise ServiceError(_INVALID_REQUEST, message, field=name, reason="not_allowed")
    query.namespace_id, query.namespace_ids = selection["namespace_id"], selection["namespace_ids"]
    return query


_compat_operation = partial(
    operation,
    "POST",
    tag="Search",
    invalid=ErrorCode.INVALID_SEARCH_REQUEST,
    failed=ErrorCode.SEARCH_FAILED,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.INVALID_HYBRID_CONFIG),
)


@_compat_operation(
    "/v1/compat/dify/retrieval",
    example={
        "knowledge_id": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0",
        "query": "How do I open the cover?",
        "retrieval_setting": {"top_k": 3, "score_threshold": 0.2},
    },
)
async def dify_retrieval(request: ApiRequest, data: JSONBody[DifyRetrieval]) -> DifyAnswer:
    """Search as Dify's external knowledge API.

    A hybrid search with equal weights. Errors add Dify's `error_code` and `error_msg`.
    """
    answer = await searches.answer_search(request, data.to_search())
    return DifyAnswer(message=_SUCCESS_MESSAGE, records=[DifyRecord.from_result(result) for result in answer.results])


@_compat_operation(
    "/v1/vector_stores/{namespace_id:str}/search", example={"query": "How do I open the cover?", "max_num_results": 5}
)
async def vector_store_search(
    request: ApiRequest, namespace_id: FromPath[str], data: JSONBody[VectorStoreSearch]
) -> VectorStoreSearchAnswer:
    """Search as a vector store of OpenAI.

    A hybrid search with equal weights unless `ranking_options` has others; a document each, with the best
    chunks. Several queries count as so many requests. Errors add `type` and `param`, as OpenAI's have them.
    """
    queries = data.to_searches(namespace_id)
    if len(queries) > 1:
        context = request.context
        context.rate = await count_more(request.services.db, request.caller, len(queries) - 1)
    answers = await asyncio.gather(*(searches.answer_search(request, query) for query in queries))
    results = _merge_groups([group for answer in answers for group in answer.results])[: data.max_num_results or 10]
    return VectorStoreSearchAnswer(message=_SUCCESS_MESSAGE, search_query=data.queries, data=results)


def _merge_groups(groups: list[SearchResult]) -> list[VectorStoreResult]:
    """Group chunks by document, best first, each chunk once with the best score."""
    chunks: dict[str, dict[int, SearchResult]] = {}
    for group in groups:
        of_document = chunks.setdefault(group.document.id, {})
        for result in (group, *(group.more or ())):
            best = of_document.get(result.chunk.index)
            if best is None or result.score > best.score:
                of_document[result.chunk.index] = result
    ordered = [
        sorted(by_index.values(), key=lambda chunk: (-chunk.score, chunk.chunk.index)) for by_index in chunks.values()
    ]
    return [
        VectorStoreResult.from_chunks(group)
        for group in sorted(ordered, key=lambda group: (-group[0].score, group[0].document.id))
    ]


ROUTE_HANDLERS = (
    semantic_search,
    hybrid_search,
    batch_search,
    why_search,
    list_weak_searches,
    dify_retrieval,
    vector_store_search,
)
