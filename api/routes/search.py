"""Search: semantic, and hybrid of meaning and words."""

from __future__ import annotations

import time
from functools import partial

import structlog

from api.operation import Call, operation
from api.wire.search import HybridSearchRequest, SearchAnswer, SearchData, SearchRequest, SearchResult, SearchTimings
from connectors import registry
from retrieval.errors import ErrorCode, Fatal, Retryable, Skippable
from retrieval.ingestion.chunking.tokenizer import tokenizer_for
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.search import reranking, search, shaping
from retrieval.search.search import Query
from retrieval.search.shaping import Texts

log = structlog.get_logger()
_operation = partial(
    operation,
    "POST",
    tag="Search",
    invalid=ErrorCode.INVALID_SEARCH_REQUEST,
    failed=ErrorCode.SEARCH_FAILED,
    answer=SearchAnswer,
)
_EXAMPLE = {
    "query": "How do I open the cover?",
    "namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0",
    "topK": 5,
    "scoreThreshold": 0.2,
}


@_operation(
    "/v1/search",
    summary="Search by meaning",
    body=SearchRequest,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
    example=_EXAMPLE,
)
async def semantic_search(call: Call[SearchRequest, None]) -> SearchAnswer:
    """The score of a result is the cosine similarity of query and content."""
    return await _search(call, call.body.to_values(), "semantic")


@_operation(
    "/v1/search/hybrid",
    summary="Search by meaning and words",
    body=HybridSearchRequest,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.INVALID_HYBRID_CONFIG),
    example={**_EXAMPLE, "hybridConfig": {"semanticWeight": 0.5, "keywordWeight": 0.5}},
)
async def hybrid_search(call: Call[HybridSearchRequest, None]) -> SearchAnswer:
    """The score is the weighted sum of cosine similarity and normalised BM25, each between 0 and 1."""
    return await _search(call, call.body.to_values(), "hybrid")


HANDLERS = (semantic_search, hybrid_search)


async def _search(
    call: Call[SearchRequest, None] | Call[HybridSearchRequest, None], query: Query, mode: str
) -> SearchAnswer:
    services, began = call.services, time.monotonic()
    scope = call.scope(call.body.namespace_id)
    config = await namespaces.get(services.db, services.ring, scope.organization, scope.namespace)
    rerank = call.body.reranking(configured=config.reranker is not None)
    asked, query = query, query if rerank is None else rerank.widened(query)

    def find(config: NamespaceConfig) -> search.SearchResult:
        by_meaning = query.semantic_weight > 0
        return search.run(
            services.db,
            scope,
            query,
            embedder=registry.embedder(config) if by_meaning else None,
            vectors=registry.vector_store(config, services.db) if by_meaning else None,
            language=services.settings.keyword_language,
            texts=None if query.shape.expansion is None else _texts(config),
        )

    found = await services.in_thread(find, config)
    if config.changing:  # another model may have taken over while this looked with the old one's numbers
        now = await namespaces.get(services.db, services.ring, scope.organization, scope.namespace)
        if now.epoch != config.epoch:
            found = await services.in_thread(find, now)
    hits, reranked = found.hits, None
    if rerank is not None:
        hits, reranked = await reranking.read_again(
            services.reranking, lambda: registry.reranker(config), query.text, hits, rerank
        )
        if reranked and query.shape.recency is not None:
            hits = shaping.aged(hits, query.shape.recency)
        hits = [hit for hit in hits if hit.score >= asked.threshold][: asked.top_k]
    services.times.note(scope, time.monotonic() - began, mode)
    explain = bool(call.body.explain)
    data = SearchData([SearchResult.of(hit, explain=explain) for hit in hits])
    if reranked is not None:
        data.reranked = reranked
    if explain:
        data.timings = SearchTimings.of(found.timings)
    return SearchAnswer(message="Search completed successfully", data=data)


def _texts(config: NamespaceConfig) -> Texts:
    model, files = config.embedding_model, registry.file_store(config)

    def read(key: str) -> str | None:
        try:
            with files.open(key) as stream:
                return stream.read().decode()
        except (Skippable, Retryable, Fatal, OSError) as error:
            log.warning("search.text_not_read", error=type(error).__name__)
            return None

    return Texts(tokenizer_for(model["provider"], model["model"]), read)
