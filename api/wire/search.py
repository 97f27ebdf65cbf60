"""Search requests and results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import fields

from api.wire import reranking
from api.wire.answerable import NOTE_DESCRIPTION, Answerable, CorrectedWord, MinProbability
from api.wire.common import DataAnswer, NamespaceId
from api.wire.filters import FilterConfig, Where
from api.wire.reranking import Reranking, SearchRerankConfig
from retrieval import filters
from retrieval.errors import ErrorCode, ServiceError
from retrieval.filters import DocumentFilter
from retrieval.ingestion.chunking.titles import embedded_text
from retrieval.search.context_expansion import Expansion, Unit
from retrieval.search.queries import Copy, Hit
from retrieval.search.reranking import RerankRequest
from retrieval.search.result_selection import Recency, Shape
from retrieval.search.search import Query

MAX_QUERY_BYTES = 8 * 1024
INVALID_REQUEST = ErrorCode.INVALID_SEARCH_REQUEST

QueryText = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_QUERY_BYTES,
        examples=["How do I open the cover?"],
        description="The query, at most 8 KB.",
    ),
]
DEFAULT_TOP_K = 10
TopK = Annotated[int, Meta(ge=1, le=100, description="Maximum number of results.")]
Threshold = Annotated[float, Meta(ge=0, le=1, description="Minimum score of a result.")]
Explain = Annotated[bool, Meta(description="Return the parts of each score and the duration of each step.")]


NamespaceIds = Annotated[
    list[str],
    Meta(
        min_length=1,
        max_length=10,
        description="Searches several namespaces instead of `namespaceId`. They must have the same embedding "
        "provider and model.",
    ),
]
GroupBy = Annotated[
    Literal["document"],
    Meta(
        description="Returns the best result of each document, with the next ones in `more`. `topK` counts documents."
    ),
]
PerDocument = Annotated[int, Meta(ge=1, le=100, description="Maximum number of results of one document.")]


class SearchFilter(Struct, omit_defaults=True):
    """Every metadata key must match: a value, any of a list, or an element of the document's list. `documents`
    restricts by document fields, `where` by a condition; all must hold."""

    metadata: Annotated[
        Annotated[dict[str, Any], Meta(examples=[{"manual": "A-7"}])] | None, Meta(description="Every key must match.")
    ] = None
    documents: FilterConfig | None = None
    where: Where | None = None


_DOCUMENT_FIELDS = {field.encode_name for field in fields(FilterConfig)} - {
    field.encode_name for field in fields(SearchFilter)
}


class _RawFilter(Struct):
    """Filter of a request with unknown names."""

    filter: dict[str, Any] | None = None


class FilteredRequest(Struct):
    """Request with a `filter`."""

    @classmethod
    def check_sent(cls, body: bytes, invalid: ErrorCode) -> None:
        """Refuse document fields outside `documents`, where they would be ignored."""
        for name, value in (_RAW_FILTER_DECODER.decode(body).filter or {}).items():
            if name in _DOCUMENT_FIELDS and value not in (None, [], ""):
                message = f"filter.{name} belongs into `documents`: send filter.documents.{name}."
                raise ServiceError(invalid, message, field=f"filter.{name}", reason="misplaced")


_RAW_FILTER_DECODER = msgspec.json.Decoder(_RawFilter)


class Expand(Struct, rename="camel"):
    """Context of each result: a unit of the document, up to a number of tokens of the embedding model."""

    unit: Annotated[Unit, Meta(description="The context of a result: its chunk, section, page or document.")]
    max_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=8000)] | None, Meta(description="Maximum number of tokens of a context.")
    ] = 512

    def to_values(self) -> Expansion:
        return Expansion(self.unit) if self.max_tokens is None else Expansion(self.unit, self.max_tokens)


class RecencyConfig(Struct, rename="camel"):
    """Weight of a document's age, by `modifiedAt`, else `createdAt`; the boost halves every `halfLifeDays`."""

    half_life_days: Annotated[
        float, Meta(gt=0, le=1_000_000, examples=[30.0], description="Days after which the boost has halved.")
    ]
    weight: Annotated[float, Meta(ge=0, le=1, examples=[0.2], description="Weight of the boost.")]

    def to_values(self) -> Recency:
        return Recency(self.half_life_days, self.weight)


class SearchRequest(FilteredRequest, rename="camel", kw_only=True):
    """A semantic search."""

    query: QueryText
    namespace_id: NamespaceId | None = None
    namespace_ids: NamespaceIds | None = None
    top_k: TopK | None = DEFAULT_TOP_K
    score_threshold: Threshold | None = 0.0
    filter: Annotated[SearchFilter | None, Meta(description="Restricts the search to matching documents.")] = None
    search_type: Annotated[Literal["SEMANTIC"] | None, Meta(description="Must match the path if sent.")] = "SEMANTIC"
    explain: Explain | None = False
    rerank: Reranking = None
    rerank_config: SearchRerankConfig = None
    per_document: PerDocument | None = None
    expand: Annotated[Expand | None, Meta(description="Adds the context of each result.")] = None
    recency: Annotated[RecencyConfig | None, Meta(description="Boosts recent documents.")] = None
    group_by: GroupBy | None = None
    min_probability: MinProbability | None = None

    def read_reranking(self, *, configured: bool) -> RerankRequest | None:
        """Return the reranking, or None; `configured` tells whether the namespace has a reranker."""
        return reranking.read_reranking(self.rerank, configured=configured)

    def to_values(self) -> Query:
        return Query(text=check_query(self.query), **_common_values(self))


class HybridConfig(Struct, rename="camel"):
    """Weights of meaning and words; they sum to 1.0."""

    semantic_weight: Annotated[float, Meta(ge=0, le=1, examples=[0.5], description="Weight of the semantic score.")]
    keyword_weight: Annotated[float, Meta(ge=0, le=1, examples=[0.5], description="Weight of the keyword score.")]


class HybridSearchRequest(FilteredRequest, rename="camel", kw_only=True):
    """A hybrid search."""

    query: QueryText
    namespace_id: NamespaceId | None = None
    namespace_ids: NamespaceIds | None = None
    hybrid_config: Annotated[HybridConfig, Meta(description="Weights of semantic and keyword scores.")]
    top_k: TopK | None = DEFAULT_TOP_K
    score_threshold: Threshold | None = 0.0
    filter: Annotated[SearchFilter | None, Meta(description="Restricts the search to matching documents.")] = None
    search_type: Annotated[Literal["HYBRID"] | None, Meta(description="Must match the path if sent.")] = "HYBRID"
    explain: Explain | None = False
    rerank: Reranking = None
    rerank_config: SearchRerankConfig = None
    per_document: PerDocument | None = None
    expand: Annotated[Expand | None, Meta(description="Adds the context of each result.")] = None
    recency: Annotated[RecencyConfig | None, Meta(description="Boosts recent documents.")] = None
    group_by: GroupBy | None = None
    min_probability: MinProbability | None = None

    def read_reranking(self, *, configured: bool) -> RerankRequest | None:
        """Return the reranking, or None; `configured` tells whether the namespace has a reranker."""
        return reranking.read_reranking(self.rerank, configured=configured)

    def to_values(self) -> Query:
        config = self.hybrid_config
        if abs(config.semantic_weight + config.keyword_weight - 1) > 1e-6:
            raise ServiceError(
                ErrorCode.INVALID_HYBRID_CONFIG,
                "hybridConfig: semanticWeight and keywordWeight must sum to 1.0.",
                field="hybridConfig",
                reason="weights_do_not_sum_to_one",
            )
        return Query(
            text=check_query(self.query),
            semantic_weight=config.semantic_weight,
            keyword_weight=config.keyword_weight,
            **_common_values(self),
        )


class ResultDocument(Struct, rename="camel"):
    """The document of a result."""

    id: Annotated[str, Meta(description="The object's id.")]
    name: Annotated[str, Meta(description="The document's name.")]
    external_id: Annotated[
        str, Meta(description="The document's external id. Ingesting the same external id again replaces the document.")
    ]
    document_type: Annotated[str, Meta(description="The type of the document.")]


class DuplicateDocument(Struct, rename="camel"):
    """Another document with the text of a result."""

    document_id: Annotated[str, Meta(description="The document's id.")]
    name: Annotated[str, Meta(description="The document's name.")]
    external_id: Annotated[str, Meta(description="The document's external id.")]
    document_type: Annotated[str, Meta(description="The type of the document.")]

    @classmethod
    def from_copy(cls, copy: Copy) -> DuplicateDocument:
        return cls(copy.document_id, copy.name, copy.external_id, copy.document_type)


class ResultChunk(Struct):
    """Position in the parsed document: `parsed[start:end] == content`; pages count from 1, null without pages."""

    index: Annotated[int, Meta(description="Index in the document, from 0.")]
    start: Annotated[int, Meta(description="Start in the parsed text, in characters.")]
    end: Annotated[int, Meta(description="End in the parsed text, in characters.")]
    page: Annotated[int | None, Meta(description="Number of the page it begins on, from 1; null without pages.")]


class Explanation(Struct, rename="camel"):
    """Parts of a score: scores before weighting, and the rank in each list, null if absent.

    `recencyScore` is present with `recency`: the boost by age before weighting.
    """

    semantic_score: Annotated[float, Meta(description="Semantic score before weighting.")]
    keyword_score: Annotated[float, Meta(description="Keyword score before weighting.")]
    semantic_rank: Annotated[int | None, Meta(description="Rank by semantic score, from 1; null if not in the list.")]
    keyword_rank: Annotated[int | None, Meta(description="Rank by keyword score, from 1; null if not in the list.")]
    rerank_score: Annotated[float | UnsetType, Meta(description="Score of the reranker before recency.")] = UNSET
    rank_before: Annotated[int | UnsetType, Meta(description="Rank before reranking, from 1.")] = UNSET
    rerank_weight: Annotated[
        float | UnsetType, Meta(description="Share of rerankScore in the score; absent if it is the whole score.")
    ] = UNSET
    recency_score: Annotated[float | UnsetType, Meta(description="Recency score before weighting.")] = UNSET

    @classmethod
    def from_hit(cls, hit: Hit) -> Explanation:
        explanation = cls(hit.semantic, hit.keyword, hit.semantic_rank, hit.keyword_rank)
        if hit.rerank_score is not None and hit.rank_before is not None:
            explanation.rerank_score, explanation.rank_before = hit.rerank_score, hit.rank_before
        if hit.rerank_weight is not None:
            explanation.rerank_weight = hit.rerank_weight
        if hit.recency is not None:
            explanation.recency_score = hit.recency
        return explanation


class ResultContext(Struct):
    """The text around a result, `parsed[start:end] == content`, and the header of its table.

    Present with `expand`, and for rows of a table; without `expand` the content is the result's own.
    """

    content: Annotated[str, Meta(description="The chunk's text.")]
    start: Annotated[int, Meta(description="Start in the parsed text, in characters.")]
    end: Annotated[int, Meta(description="End in the parsed text, in characters.")]
    header: Annotated[
        str | UnsetType, Meta(description="The table's column names.", examples=["order_no | status"])
    ] = UNSET

    @classmethod
    def from_hit(cls, hit: Hit) -> ResultContext | UnsetType:
        context = hit.context
        if context is None and not hit.header:
            return UNSET
        header = hit.header or UNSET
        if context is None:
            return cls(hit.content, hit.start, hit.end, header)
        return cls(context.content, context.start, context.end, header)


def prepend_header(header: str, rows: str) -> str:
    """Return rows of a table below the column names, unless present."""
    return embedded_text("", header, rows)


class SearchResult(Struct, rename="camel"):
    """A matching chunk of a document."""

    content: Annotated[str, Meta(description="The chunk's text.")]
    score: Annotated[float, Meta(ge=0, le=1, description="The score of the result.")]
    metadata: Annotated[
        dict[str, Any],
        Meta(
            description="The document's metadata, with its id, source and type.",
            extra_json_schema={
                "properties": {"id": {"type": "string"}, "source": {"type": "string"}, "type": {"type": "string"}},
                "required": ["id", "source", "type"],
            },
        ),
    ]
    document: Annotated[ResultDocument, Meta(description="The document of the result.")]
    chunk: Annotated[ResultChunk, Meta(description="Position in the document.")]
    explanation: Annotated[Explanation | UnsetType, Meta(description="Parts of the score, if requested.")] = UNSET
    context: Annotated[ResultContext | UnsetType, Meta(description="Context of the result, if `expand` was sent.")] = (
        UNSET
    )
    namespace_id: Annotated[
        str | UnsetType, Meta(description="The namespace of the result, if `namespaceIds` was sent.")
    ] = UNSET
    duplicates: Annotated[
        list[DuplicateDocument] | UnsetType,
        Meta(description="Other documents with the same text, at most 10. Absent without any."),
    ] = UNSET
    more: Annotated[
        list[SearchResult] | UnsetType, Meta(description="Further results of the same document, if `groupBy` was sent.")
    ] = UNSET

    @property
    def passage(self) -> str:
        """Content with a table's column names, for formats without a context."""
        header = UNSET if self.context is UNSET else self.context.header
        return self.content if header is UNSET else prepend_header(header, self.content)

    @classmethod
    def from_hit(cls, hit: Hit, *, explain: bool = False) -> SearchResult:
        source = hit.external_id if hit.document_type == "URL" else hit.name
        return cls(
            content=hit.content,
            score=hit.score,
            metadata={**hit.metadata, "id": hit.document_id, "source": source, "type": hit.document_type},
            document=ResultDocument(hit.document_id, hit.name, hit.external_id, hit.document_type),
            chunk=ResultChunk(hit.index, hit.start, hit.end, hit.page),
            explanation=Explanation.from_hit(hit) if explain else UNSET,
            context=ResultContext.from_hit(hit),
            duplicates=[DuplicateDocument.from_copy(copy) for copy in hit.copies] or UNSET,
        )


class SearchTimings(Struct):
    """Milliseconds by step; null for a skipped step."""

    embed: Annotated[float | None, Meta(description="Milliseconds for embedding the query.")]
    vector: Annotated[float | None, Meta(description="Milliseconds for the semantic search.")]
    keyword: Annotated[float | None, Meta(description="Milliseconds for the keyword search.")]
    hydrate: Annotated[float | None, Meta(description="Milliseconds for scoring, choosing and reading the results.")]

    @classmethod
    def from_durations(cls, spent: Mapping[str, float]) -> SearchTimings:
        return cls(*(spent.get(f"{step}_ms") for step in ("embed", "vector", "keyword", "hydrate")))


class SearchData(Struct):
    """Results, best first; `timings` and `corrections` with `explain`."""

    results: Annotated[list[SearchResult], Meta(description="The results, best first.")]
    timings: Annotated[SearchTimings | UnsetType, Meta(description="Duration of each step, if requested.")] = UNSET
    reranked: Annotated[
        bool | UnsetType, Meta(description="Whether the results were reranked; absent if not requested.")
    ] = UNSET
    corrections: Annotated[
        list[CorrectedWord] | UnsetType, Meta(description="Corrected words of the query; absent without any.")
    ] = UNSET
    note: Annotated[str | UnsetType, Meta(description=NOTE_DESCRIPTION)] = UNSET
    answerable: Annotated[Answerable | UnsetType, Meta(description="Whether the documents answer the query.")] = UNSET


class SearchAnswer(DataAnswer[SearchData]):
    """Results of the search, best first."""


def check_query(query: str, invalid: ErrorCode = INVALID_REQUEST, *, field: str = "query") -> str:
    if not query.strip():
        raise ServiceError(invalid, f"{field} is blank.", field=field, reason="blank")
    if len(query.encode()) > MAX_QUERY_BYTES:
        raise ServiceError(invalid, f"{field} may take {MAX_QUERY_BYTES} bytes.", field=field, reason="too_long")
    return query


def _common_values(request: SearchRequest | HybridSearchRequest) -> dict[str, Any]:
    values = {
        "top_k": request.top_k,
        "threshold": request.score_threshold,
        "document_filter": read_filter(request.filter),
    }
    shape = Shape(
        request.per_document,
        None if request.expand is None else request.expand.to_values(),
        None if request.recency is None else request.recency.to_values(),
    )
    return {"shape": shape} | {name: value for name, value in values.items() if value is not None}


def read_filter(
    filter_sent: SearchFilter | None, invalid: ErrorCode = INVALID_REQUEST, *, field: str = "filter"
) -> DocumentFilter | None:
    return None if filter_sent is None else filters.parse_search(msgspec.to_builtins(filter_sent), invalid, path=field)
