"""Batches and explanations of searches in requests and responses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from api.wire.answerable import NOTE_DESCRIPTION, Answerable
from api.wire.common import DataAnswer, ErrorInfo, NamespaceId
from api.wire.filters import FilterConfig
from api.wire.search import (
    DEFAULT_TOP_K,
    INVALID_REQUEST,
    Explain,
    FilteredRequest,
    HybridConfig,
    HybridSearchRequest,
    NamespaceIds,
    PerDocument,
    QueryText,
    RecencyConfig,
    SearchFilter,
    SearchRequest,
    SearchResult,
    SearchTimings,
    Threshold,
    TopK,
)
from retrieval import filters
from retrieval.conditions.model import AllOf, Condition
from retrieval.errors import ServiceError
from retrieval.filters import DocumentFilter
from retrieval.search.explain import RequestFilter, SearchExplanation
from retrieval.search.search import Query

MAX_QUERIES = 64


class SearchBatchRequest(Struct, rename="camel", kw_only=True):
    """Searches in one namespace, or in several common ones."""

    namespace_id: NamespaceId | None = None
    namespace_ids: NamespaceIds | None = None
    queries: Annotated[
        list[Annotated[Raw, Meta(extra_json_schema={"type": "object"})]],
        Meta(
            min_length=1,
            max_length=MAX_QUERIES,
            description="Bodies of searches without a namespace, or with the same one. A body with `hybridConfig` is "
            "a hybrid search.",
            examples=[[{"query": "How do I open the cover?", "topK": 3}]],
        ),
    ]


class SearchKind(Struct, rename="camel"):
    """Fields that distinguish the kinds of search."""

    hybrid_config: Raw | UnsetType = UNSET
    search_type: Raw | UnsetType = UNSET

    @property
    def is_hybrid(self) -> bool:
        return self.hybrid_config is not UNSET or self.search_type == Raw(b'"HYBRID"')


class SearchBatchResult(Struct, omit_defaults=True):
    """Result of one search: `results` or `error`."""

    results: Annotated[list[SearchResult] | UnsetType, Meta(description="The results, best first.")] = UNSET
    timings: Annotated[SearchTimings | UnsetType, Meta(description="Duration of each step, if requested.")] = UNSET
    reranked: Annotated[
        bool | UnsetType, Meta(description="Whether the results were reranked; absent if not requested.")
    ] = UNSET
    note: Annotated[str | UnsetType, Meta(description=NOTE_DESCRIPTION)] = UNSET
    answerable: Annotated[Answerable | UnsetType, Meta(description="Whether the documents answer the query.")] = UNSET
    error: ErrorInfo | UnsetType = UNSET


class SearchBatchData(Struct):
    """Results of the queries, in their order."""

    results: Annotated[list[SearchBatchResult], Meta(description="The results, best first.")]


class SearchBatchAnswer(DataAnswer[SearchBatchData]):
    """Results of all searches."""


class WhyRequest(FilteredRequest, rename="camel", kw_only=True):
    """A search, hybrid with `hybridConfig`, and the document to explain: by its id or its external id."""

    query: QueryText
    namespace_id: NamespaceId
    document_id: Annotated[str | None, Meta(description="The document to explain.")] = None
    external_id: Annotated[str | None, Meta(description="The document by its external id; the newest of several.")] = (
        None
    )
    hybrid_config: Annotated[HybridConfig | None, Meta(description="Weights of semantic and keyword scores.")] = None
    top_k: TopK | None = DEFAULT_TOP_K
    score_threshold: Threshold | None = 0.0
    filter: Annotated[SearchFilter | None, Meta(description="Restricts the search to matching documents.")] = None
    per_document: PerDocument | None = None
    recency: Annotated[RecencyConfig | None, Meta(description="Boosts recent documents.")] = None
    search_type: Annotated[Literal["SEMANTIC", "HYBRID"] | None, Meta(description="Must match the path if sent.")] = (
        None
    )
    explain: Explain | None = None

    def to_values(self) -> Query:
        document_ids = [document_id for document_id in (self.document_id, self.external_id) if document_id is not None]
        if len(document_ids) != 1 or "\0" in document_ids[0]:
            message = "Send either documentId or externalId."
            raise ServiceError(INVALID_REQUEST, message, field="documentId", reason="missing")
        plain = SearchRequest(
            query=self.query,
            namespace_id=self.namespace_id,
            top_k=self.top_k,
            score_threshold=self.score_threshold,
            filter=self.filter,
            per_document=self.per_document,
            recency=self.recency,
        )
        if self.hybrid_config is None:
            return plain.to_values()
        both = {name: getattr(plain, name) for name in plain.__struct_fields__ if name != "search_type"}
        return HybridSearchRequest(**both, hybrid_config=self.hybrid_config).to_values()

    def list_request_filters(self) -> list[RequestFilter]:
        """Return the parts of the filter that can exclude a document, by path."""
        return [] if self.filter is None else list(_split_filter(self.filter))


class WhyDocument(Struct, rename="camel"):
    """The explained document."""

    id: Annotated[str, Meta(description="The object's id.")]
    name: Annotated[str, Meta(description="The display name.")]
    status: Annotated[str, Meta(description="The current status.")]
    visible_generation: Annotated[
        int | None, Meta(description="Number of the searchable version, from 1; null without one.")
    ]


class WhyReason(Struct):
    """A reason for the absence of the document."""

    kind: Annotated[
        Literal["STATUS", "HIDDEN", "FILTER", "ACCESS", "THRESHOLD", "RANK"],
        Meta(description="The cause: status, filter, access, threshold, or better results."),
    ]
    detail: Annotated[str, Meta(description="The explanation as a sentence.")]


Rank = Annotated[int, Meta(description="Rank, from 1; null without one.")]
Score = Annotated[float, Meta(description="Score from 0 to 1; null without one.")]


class WhyData(Struct, rename="camel"):
    """Evaluation of the document by the search; scores, ranks and words of the best chunk."""

    document: Annotated[WhyDocument, Meta(description="The document of the result.")]
    shown: Annotated[bool, Meta(description="Whether the search returns the document.")]
    rank: Rank | None
    score: Score | None
    semantic_rank: Rank | None
    keyword_rank: Rank | None
    semantic_score: Score | None
    keyword_score: Score | None
    last_shown_score: Score | None
    reasons: Annotated[list[WhyReason], Meta(description="Reasons why the document is not returned; empty if it is.")]
    matched_terms: Annotated[list[str], Meta(description="Query words that the document contains.")]
    missing_terms: Annotated[list[str], Meta(description="Query words that the document does not contain.")]

    @classmethod
    def from_why(cls, why: SearchExplanation) -> WhyData:
        return cls(
            WhyDocument(why.document_id, why.name, why.status, why.generation),
            why.is_result,
            why.rank,
            why.score,
            why.semantic_rank,
            why.keyword_rank,
            why.semantic_score,
            why.keyword_score,
            why.last_shown_score,
            [WhyReason(reason.kind, reason.detail) for reason in why.reasons],  # type: ignore[arg-type]
            why.matched,
            why.missing,
        )


class WhyAnswer(DataAnswer[WhyData]):
    """The reasons for the rank or absence of the document."""


_DOCUMENT_FIELDS = {
    "document_ids": "documentIds",
    "external_ids": "documentExternalIds",
    "types": "documentTypes",
    "connection_ids": "documentConnectionIds",
    "archive_ids": "documentArchiveIds",
    "sources": "documentIngestionSources",
    "statuses": "documentIngestionStatuses",
    "awaiting_removal": "awaitingRemoval",
    "words": "text",
    "sites": "sites",
    "access_statuses": "accessStatuses",
}


def _split_filter(search_filter: SearchFilter) -> Iterator[RequestFilter]:
    metadata = filters.parse_metadata(search_filter.metadata, INVALID_REQUEST, path="filter.metadata")
    yield from _split_metadata(DocumentFilter(metadata=metadata), "filter.metadata")
    yield from _split_condition(
        filters.parse_optional_condition(search_filter.where, INVALID_REQUEST, path="filter.where"), "filter.where"
    )
    documents = (search_filter.documents or FilterConfig()).to_values(INVALID_REQUEST, where="filter.documents")
    for name in fields(documents):
        if name.name in _DOCUMENT_FIELDS and (value := getattr(documents, name.name)) not in {(), None}:
            yield RequestFilter(f"filter.documents.{_DOCUMENT_FIELDS[name.name]}", DocumentFilter(**{name.name: value}))
    yield from _split_metadata(documents, "filter.documents.metadata")
    yield from _split_condition(documents.where, "filter.documents.where")


def _split_metadata(document_filter: DocumentFilter, path: str) -> Iterator[RequestFilter]:
    for key, value in document_filter.metadata.items():
        yield RequestFilter(f"{path}.{key}", DocumentFilter(metadata={key: value}))


def _split_condition(condition: Condition | None, path: str) -> Iterator[RequestFilter]:
    """Yield a condition, or the operands of `all`."""
    if isinstance(condition, AllOf):
        for number, part in enumerate(condition.parts):
            yield from _split_condition(part, f"{path}.all[{number}]")
    elif condition is not None:
        yield RequestFilter(path, DocumentFilter(where=condition))
