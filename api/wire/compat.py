"""Searches in the formats of Dify's external knowledge API and OpenAI's vector stores."""
# The service's common response fields are added.

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from api.wire.common import Answer
from api.wire.search import HybridConfig, HybridSearchRequest, QueryText, SearchFilter, SearchResult, Threshold, TopK
from retrieval.documents.queries import uploads as file_uploads
from retrieval.errors import ErrorCode, ServiceError

INVALID_REQUEST = ErrorCode.INVALID_SEARCH_REQUEST
EQUAL_WEIGHTS = HybridConfig(0.5, 0.5)
Number = Annotated[int, Meta(ge=-(2**53), le=2**53)] | Annotated[float, Meta(ge=-1e308, le=1e308)]
Scalar = str | Number | bool
# Chunks of one document in a vector store's result.
CHUNKS_PER_DOCUMENT = 10
MAX_QUERIES = 10


class DifySetting(Struct):
    """Number of records, and their minimum score."""

    top_k: TopK | None = 10
    score_threshold: Threshold | None = 0.0


DifyOperator = Literal[
    "contains",
    "not contains",
    "start with",
    "end with",
    "is",
    "is not",
    "in",
    "not in",
    "empty",
    "not empty",
    "=",
    "≠",
    ">",
    "<",
    "≥",
    "≤",
    "before",
    "after",
]


class DifyCondition(Struct):
    """A condition on metadata. Numeric text is compared as a number."""

    name: Annotated[
        Annotated[list[str], Meta(min_length=1, max_length=10)] | str,
        Meta(description="Metadata keys, of which one must match."),
    ]
    comparison_operator: Annotated[DifyOperator, Meta(description="The comparison operator.")]
    value: Annotated[
        Scalar | list[str | Number] | None,
        Meta(description="The value to compare with; none for `empty` and `not empty`."),
    ] = None

    def to_condition(self, at: str) -> dict[str, Any]:
        """Return the condition of the service."""
        names = [self.name] if isinstance(self.name, str) else self.name
        parts = [self._convert_field(f"metadata.{name}", at) for name in names]
        return parts[0] if len(parts) == 1 else {"any": parts}

    def _convert_field(self, name: str, at: str) -> dict[str, Any]:
        operator = self.comparison_operator
        if operator in {"empty", "not empty"}:
            present = {"all": [_comparison(name, "exists", True), _comparison(name, "ne", "")]}  # noqa: FBT003  (the value)
            return present if operator == "not empty" else {"not": present}
        if self.value is None:
            raise _invalid_request(f"{at}.value is required.", f"{at}.value", "missing")
        if operator in {"in", "not in"}:
            values = self.value if isinstance(self.value, list) else _split_values(self.value)
            return _comparison(name, "in" if operator == "in" else "nin", values)
        if isinstance(self.value, list):
            raise _invalid_request(f"{at}.value: `{operator}` takes one value.", f"{at}.value", "wrong_type")
        if operator == "not contains":
            return {"not": _comparison(name, "contains", self.value)}
        if operator in {"before", "after"}:
            return _date_condition(name, "lt" if operator == "before" else "gt", self.value, f"{at}.value")
        value = _parse_number(self.value) if operator in _NUMERIC_OPERATORS else self.value
        return _comparison(name, _DIFY_OPERATORS[operator], value)


_DIFY_OPERATORS = {
    "contains": "contains",
    "start with": "startsWith",
    "end with": "endsWith",
    "is": "eq",
    "is not": "ne",
    "=": "eq",
    "≠": "ne",
    ">": "gt",
    "<": "lt",
    "≥": "gte",
    "≤": "lte",
}
_NUMERIC_OPERATORS = frozenset("=≠><≥≤")


class DifyConditions(Struct):
    """Conditions on metadata; all must hold, or one with `or`."""

    conditions: Annotated[
        Annotated[list[DifyCondition], Meta(max_length=50)] | None, Meta(description="Conditions on the metadata.")
    ] = None
    logical_operator: Annotated[
        Literal["and", "or"] | None, Meta(description="Whether all conditions must hold or one of them.")
    ] = "and"

    def to_condition(self) -> dict[str, Any] | None:
        at = "metadata_condition.conditions"
        parts = [condition.to_condition(f"{at}[{number}]") for number, condition in enumerate(self.conditions or [])]
        return {"any" if self.logical_operator == "or" else "all": parts} if parts else None


class DifyRetrieval(Struct):
    """Dify's request to an external knowledge base."""

    knowledge_id: Annotated[str, Meta(description="The namespace's id.")]
    query: QueryText
    retrieval_setting: Annotated[DifySetting, Meta(description="Number of records and minimum score.")] = field(
        default_factory=DifySetting
    )
    metadata_condition: Annotated[DifyConditions | None, Meta(description="Conditions on the documents' metadata.")] = (
        None
    )

    def to_search(self) -> HybridSearchRequest:
        """Return the hybrid search with equal weights."""
        setting, conditions = self.retrieval_setting, self.metadata_condition
        return HybridSearchRequest(
            query=self.query,
            namespace_id=self.knowledge_id,
            hybrid_config=EQUAL_WEIGHTS,
            top_k=setting.top_k,
            score_threshold=setting.score_threshold,
            filter=_make_filter(None if conditions is None else conditions.to_condition()),
        )


class DifyRecord(Struct):
    """A matching chunk."""

    content: Annotated[str, Meta(description="The chunk's text.")]
    score: Annotated[float, Meta(description="The score of the result.")]
    title: Annotated[str, Meta(description="The document's name.")]
    metadata: Annotated[dict[str, Any], Meta(description="The document's metadata.")]

    @classmethod
    def from_result(cls, result: SearchResult) -> DifyRecord:
        return cls(result.passage, result.score, result.document.name, {**result.metadata})


class DifyAnswer(Answer, kw_only=True):
    """Dify's response fields, in addition to the common ones."""

    records: Annotated[list[DifyRecord], Meta(description="The results, best first.")]


class VectorStoreFilter(Struct, omit_defaults=True):
    """A comparison of a metadata key, or a combination of filters with `and` or `or`."""

    type: Annotated[
        Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "and", "or"],
        Meta(description="`and` or `or` to combine `filters`, or the comparison operator for `key`."),
    ]
    key: Annotated[str | UnsetType, Meta(description="The metadata key to compare.")] = UNSET
    value: Annotated[Scalar | list[Scalar] | UnsetType, Meta(description="The value to compare with.")] = UNSET
    filters: Annotated[list[VectorStoreFilter] | UnsetType, Meta(description="The operands of `and` and `or`.")] = UNSET

    def to_condition(self, at: str) -> dict[str, Any]:
        """Return the condition of the service."""
        if self.type in {"and", "or"}:
            if not self.filters:
                raise _invalid_request(
                    f"{at}.filters must be an array of at least one filter.", f"{at}.filters", "missing"
                )
            parts = [part.to_condition(f"{at}.filters[{number}]") for number, part in enumerate(self.filters)]
            return {"all" if self.type == "and" else "any": parts}
        for name, value in (("key", self.key), ("value", self.value)):
            if value is UNSET:
                raise _invalid_request(f"{at}.{name} is required.", f"{at}.{name}", "missing")
        return _comparison(f"metadata.{self.key}", self.type, self.value)


class VectorStoreWeights(Struct):
    """Weights of meaning and words, in proportion."""

    embedding_weight: Annotated[float, Meta(ge=0, le=1_000_000, description="Weight of the semantic score.")]
    text_weight: Annotated[float, Meta(ge=0, le=1_000_000, description="Weight of the keyword score.")]

    def to_config(self) -> HybridConfig:
        total = self.embedding_weight + self.text_weight
        if not total:
            at = "ranking_options.hybrid_search"
            raise _invalid_request(f"{at}: one of the two weights must be greater than 0.", at, "out_of_bounds")
        return HybridConfig(self.embedding_weight / total, self.text_weight / total)


class VectorStoreRanking(Struct):
    """Ranking of results, and their minimum score."""

    ranker: Annotated[str | None, Meta(description="`none` disables the namespace's reranker.")] = None
    score_threshold: Threshold | None = 0.0
    hybrid_search: Annotated[
        VectorStoreWeights | None, Meta(description="Weights of semantic and keyword scores. Default: equal weights.")
    ] = None


class VectorStoreSearch(Struct):
    """OpenAI's request to search a vector store."""

    query: Annotated[
        QueryText | Annotated[list[QueryText], Meta(min_length=1, max_length=MAX_QUERIES)],
        Meta(description=f"The query, or up to {MAX_QUERIES} queries, at most 8 KB each."),
    ]
    filters: Annotated[VectorStoreFilter | None, Meta(description="Conditions on the documents' metadata.")] = None
    max_num_results: Annotated[
        Annotated[int, Meta(ge=1, le=50)] | None, Meta(description="Maximum number of documents.")
    ] = 10
    ranking_options: Annotated[
        VectorStoreRanking | None, Meta(description="Ranking of the results and minimum score.")
    ] = None
    rewrite_query: Annotated[bool | None, Meta(description="Accepted and ignored. Queries are not rewritten.")] = False

    @property
    def queries(self) -> list[str]:
        return [self.query] if isinstance(self.query, str) else list(dict.fromkeys(self.query))

    def to_searches(self, namespace: str) -> list[HybridSearchRequest]:
        """Return a search for each query, grouped by document."""
        ranking = self.ranking_options or VectorStoreRanking()
        filtered = _make_filter(None if self.filters is None else self.filters.to_condition("filters"))
        weights = EQUAL_WEIGHTS if ranking.hybrid_search is None else ranking.hybrid_search.to_config()
        return [
            HybridSearchRequest(
                query=query,
                namespace_id=namespace,
                hybrid_config=weights,
                top_k=self.max_num_results or 10,
                score_threshold=ranking.score_threshold,
                filter=filtered,
                rerank=False if ranking.ranker == "none" else None,
                per_document=CHUNKS_PER_DOCUMENT,
                group_by="document",
            )
            for query in self.queries
        ]


class VectorStoreContent(Struct):
    """A chunk of the document."""

    text: Annotated[str, Meta(description="The chunk's text.")]
    type: Annotated[Literal["text"], Meta(description="The kind of content: always text.")] = "text"


class VectorStoreDuplicate(Struct):
    """Another document with the text of a chunk."""

    file_id: Annotated[str, Meta(description="Id of the uploaded file, or of the document if it was not uploaded.")]
    filename: Annotated[str, Meta(description="The document's name.")]

    @classmethod
    def list_of(cls, chunks: Sequence[SearchResult]) -> list[VectorStoreDuplicate]:
        """Return the duplicates of chunks, each document once."""
        copies = {copy.document_id: copy for chunk in chunks for copy in chunk.duplicates or ()}
        return [cls(file_uploads.file_id(copy.document_id, copy.external_id), copy.name) for copy in copies.values()]


class VectorStoreResult(Struct):
    """A matching document with the best chunks."""

    file_id: Annotated[str, Meta(description="Id of the uploaded file, or of the document if it was not uploaded.")]
    filename: Annotated[str, Meta(description="The document's name.")]
    score: Annotated[float, Meta(description="The score of the result.")]
    attributes: Annotated[
        dict[str, Scalar], Meta(description="The document's metadata with string, number and boolean values.")
    ]
    content: Annotated[list[VectorStoreContent], Meta(description="The matching chunks, best first.")]
    duplicates: Annotated[
        list[VectorStoreDuplicate] | UnsetType,
        Meta(description="Other documents with the text of one of the chunks. Absent without any."),
    ] = UNSET

    @classmethod
    def from_chunks(cls, chunks: list[SearchResult]) -> VectorStoreResult:
        """Return the result for one document's chunks, best first."""
        best = chunks[0]
        metadata = {name: value for name, value in best.metadata.items() if name not in {"id", "source", "type"}}
        return cls(
            file_id=file_uploads.file_id(best.document.id, best.document.external_id),
            filename=best.document.name,
            score=best.score,
            attributes={name: value for name, value in metadata.items() if isinstance(value, str | int | float)},
            content=[VectorStoreContent(chunk.passage) for chunk in chunks],
            duplicates=VectorStoreDuplicate.list_of(chunks) or UNSET,
        )


class VectorStoreSearchAnswer(Answer, kw_only=True):
    """OpenAI's response fields, in addition to the common ones."""

    search_query: Annotated[list[str], Meta(description="The queries that were searched.")]
    data: Annotated[list[VectorStoreResult], Meta(description="Documents with their best chunks, best first.")]
    object: Annotated[Literal["vector_store.search_results.page"], Meta(description="The type of the response.")] = (
        "vector_store.search_results.page"
    )
    has_more: Annotated[Literal[False], Meta(description="Always false: there is one page.")] = False
    next_page: Annotated[None, Meta(description="Always null.")] = None


def _make_filter(condition: dict[str, Any] | None) -> SearchFilter | None:
    return None if condition is None else SearchFilter(where=condition)


def _comparison(name: str, op: str, value: Any) -> dict[str, Any]:
    return {"field": name, "op": op, "value": value}


def _split_values(value: Scalar) -> list[Any]:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else [value]


def _parse_number(value: Scalar) -> Scalar:
    """Return the number of a numeric text, other values unchanged."""
    if not isinstance(value, str):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    if number - number != 0:
        return value
    return int(number) if number.is_integer() else number


def _date_condition(name: str, op: str, value: Scalar, at: str) -> dict[str, Any]:
    """Return the condition for a date; a number is Unix seconds and compares with numbers too."""
    number = _parse_number(value)
    if isinstance(number, str):
        return _comparison(name, op, {"date": number})
    try:
        stamp = datetime.fromtimestamp(float(number), UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError) as error:
        raise _invalid_request(f"{at} must be a date or a time in Unix seconds.", at, "out_of_bounds") from error
    return {"any": [_comparison(name, op, number), _comparison(name, op, {"date": stamp})]}


def _invalid_request(message: str, path: str, reason: str) -> ServiceError:
    return ServiceError(INVALID_REQUEST, message, field=path, reason=reason)
