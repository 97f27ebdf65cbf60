"""Searches in the shapes of other services, so that programs written for those search here.

Dify's external knowledge API, and the search of OpenAI's vector stores. Both carry what every answer carries besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from api.wire.common import Answer
from api.wire.search import (
    HybridConfig,
    HybridSearchRequest,
    QueryText,
    SearchFilter,
    SearchResult,
    Threshold,
    TopK,
)
from retrieval.errors import ErrorCode, ServiceError

INVALID = ErrorCode.INVALID_SEARCH_REQUEST
HALF = HybridConfig(0.5, 0.5)
Number = Annotated[int, Meta(ge=-(2**53), le=2**53)] | Annotated[float, Meta(ge=-1e308, le=1e308)]
Scalar = str | Number | bool
CHUNKS = 10
"""Chunks of one document in a result of a vector store."""
MOST_QUERIES = 10

WORDS: Mapping[str, str] = {
    "knowledge_id": "The namespace's id.",
    "retrieval_setting": "How many records, and how good they must be.",
    "top_k": "Records at most.",
    "score_threshold": "The least score.",
    "metadata_condition": "What the documents' metadata must be.",
    "logical_operator": "Whether all conditions must hold or one of them.",
    "conditions": "Conditions on the metadata.",
    "DifyCondition.name": "Metadata keys; one of them must fit.",
    "comparison_operator": "How the value is compared.",
    "DifyCondition.value": "What it is compared with; nothing for `empty` and `not empty`.",
    "records": "What was found, best first.",
    "DifyRecord.title": "The document's name.",
    "max_num_results": "Documents at most.",
    "filters": "What the documents' metadata must be.",
    "ranking_options": "How results are ranked, and how good they must be.",
    "ranker": "`none` switches the namespace's reranker off.",
    "hybrid_search": "How much meaning and words count; halves without it.",
    "embedding_weight": "How much the meaning counts.",
    "text_weight": "How much the words count.",
    "rewrite_query": "Taken and not used: queries are searched as they are.",
    "VectorStoreFilter.type": "`and` or `or` of `filters`, or how the value of `key` is compared.",
    "key": "The metadata key.",
    "VectorStoreFilter.value": "What it is compared with.",
    "VectorStoreFilter.filters": "The parts of `and` and `or`.",
    "search_query": "The queries that were searched.",
    "VectorStoreSearchAnswer.data": "Documents with their best chunks, best first.",
    "has_more": "Always false: there is one page.",
    "next_page": "Always null.",
    "file_id": "The document's id.",
    "filename": "The document's name.",
    "attributes": "The document's metadata as far as it is text, numbers, true or false.",
    "VectorStoreResult.content": "The chunks that were found, best first.",
    "VectorStoreContent.text": "The chunk.",
    "object": "What kind of answer this is.",
    "ErrorInfo.type": "The kind of error as OpenAI names it; below /v1/vector_stores alone.",
    "param": "The path of what is wrong, as OpenAI names it; below /v1/vector_stores alone.",
    "error_code": "Dify's number of the error, else its HTTP status; below /v1/compat/dify alone.",
    "error_msg": "What is wrong, as Dify reads it; below /v1/compat/dify alone.",
}
"""What its properties mean, by name: for the OpenAPI document."""


class DifySetting(Struct):
    """How many records, and the least score of one."""

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
    """A condition on metadata. Text that is a number counts as that number where numbers are compared."""

    name: Annotated[list[str], Meta(min_length=1, max_length=10)] | str
    comparison_operator: DifyOperator
    value: Scalar | list[str | Number] | None = None

    def where(self, at: str) -> dict[str, Any]:
        """The same as a condition of ours."""
        names = [self.name] if isinstance(self.name, str) else self.name
        parts = [self._of(f"metadata.{name}", at) for name in names]
        return parts[0] if len(parts) == 1 else {"any": parts}

    def _of(self, name: str, at: str) -> dict[str, Any]:
        said = self.comparison_operator
        if said in {"empty", "not empty"}:
            present = {"all": [_leaf(name, "exists", True), _leaf(name, "ne", "")]}  # noqa: FBT003  (the value)
            return present if said == "not empty" else {"not": present}
        if self.value is None:
            raise _wrong(f"{at}.value is required.", f"{at}.value", "missing")
        if said in {"in", "not in"}:
            values = self.value if isinstance(self.value, list) else _split(self.value)
            return _leaf(name, "in" if said == "in" else "nin", values)
        if isinstance(self.value, list):
            raise _wrong(f"{at}.value: `{said}` takes one value.", f"{at}.value", "wrong_type")
        if said == "not contains":
            return {"not": _leaf(name, "contains", self.value)}
        if said in {"before", "after"}:
            return _moment(name, "lt" if said == "before" else "gt", self.value, f"{at}.value")
        value = _number(self.value) if said in _NUMERIC else self.value
        return _leaf(name, _OPS[said], value)


_OPS = {
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
_NUMERIC = frozenset("=≠><≥≤")


class DifyConditions(Struct):
    """Conditions on metadata, all of which must hold, or one with `or`."""

    conditions: Annotated[list[DifyCondition], Meta(max_length=50)] | None = None
    logical_operator: Literal["and", "or"] | None = "and"

    def where(self) -> dict[str, Any] | None:
        at = "metadata_condition.conditions"
        parts = [one.where(f"{at}[{number}]") for number, one in enumerate(self.conditions or [])]
        return {"any" if self.logical_operator == "or" else "all": parts} if parts else None


class DifyRetrieval(Struct):
    """What Dify asks of an external knowledge base."""

    knowledge_id: str
    query: QueryText
    retrieval_setting: DifySetting = field(default_factory=DifySetting)
    metadata_condition: DifyConditions | None = None

    def to_search(self) -> HybridSearchRequest:
        """The same as a search of ours, by meaning and words in equal parts."""
        setting, asked = self.retrieval_setting, self.metadata_condition
        return HybridSearchRequest(
            query=self.query,
            namespace_id=self.knowledge_id,
            hybrid_config=HALF,
            top_k=setting.top_k,
            score_threshold=setting.score_threshold,
            filter=_filter(None if asked is None else asked.where()),
        )


class DifyRecord(Struct):
    """A chunk that was found."""

    content: str
    score: float
    title: str
    metadata: dict[str, Any]

    @classmethod
    def of(cls, found: SearchResult) -> DifyRecord:
        return cls(found.passage, found.score, found.document.name, {**found.metadata})


class DifyAnswer(Answer, kw_only=True):
    """What Dify expects, beside what every answer carries."""

    records: list[DifyRecord]


class VectorStoreFilter(Struct, omit_defaults=True):
    """A comparison of a metadata key, or several with `and` and `or`."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "and", "or"]
    key: str | UnsetType = UNSET
    value: Scalar | list[Scalar] | UnsetType = UNSET
    filters: list[VectorStoreFilter] | UnsetType = UNSET

    def where(self, at: str) -> dict[str, Any]:
        """The same as a condition of ours."""
        if self.type in {"and", "or"}:
            if not self.filters:
                raise _wrong(f"{at}.filters must be an array of at least one filter.", f"{at}.filters", "missing")
            parts = [one.where(f"{at}.filters[{number}]") for number, one in enumerate(self.filters)]
            return {"all" if self.type == "and" else "any": parts}
        for name, sent in (("key", self.key), ("value", self.value)):
            if sent is UNSET:
                raise _wrong(f"{at}.{name} is required.", f"{at}.{name}", "missing")
        return _leaf(f"metadata.{self.key}", self.type, self.value)


class VectorStoreWeights(Struct):
    """How much meaning and words count, in proportion to each other."""

    embedding_weight: Annotated[float, Meta(ge=0, le=1_000_000)]
    text_weight: Annotated[float, Meta(ge=0, le=1_000_000)]

    def to_config(self) -> HybridConfig:
        both = self.embedding_weight + self.text_weight
        if not both:
            at = "ranking_options.hybrid_search"
            raise _wrong(f"{at}: one of the two weights must be greater than 0.", at, "out_of_bounds")
        return HybridConfig(self.embedding_weight / both, self.text_weight / both)


class VectorStoreRanking(Struct):
    """How results are ranked, and the least score of one."""

    ranker: str | None = None
    score_threshold: Threshold | None = 0.0
    hybrid_search: VectorStoreWeights | None = None


class VectorStoreSearch(Struct):
    """What a client of OpenAI's asks of a vector store, whose id is the namespace's."""

    query: QueryText | Annotated[list[QueryText], Meta(min_length=1, max_length=MOST_QUERIES)]
    filters: VectorStoreFilter | None = None
    max_num_results: Annotated[int, Meta(ge=1, le=50)] | None = 10
    ranking_options: VectorStoreRanking | None = None
    rewrite_query: bool | None = False

    @property
    def queries(self) -> list[str]:
        return [self.query] if isinstance(self.query, str) else list(dict.fromkeys(self.query))

    def to_searches(self, namespace: str) -> list[HybridSearchRequest]:
        """The same as searches of ours, one for each query: by document, each with its best chunks."""
        ranking = self.ranking_options or VectorStoreRanking()
        filtered = _filter(None if self.filters is None else self.filters.where("filters"))
        weights = HALF if ranking.hybrid_search is None else ranking.hybrid_search.to_config()
        return [
            HybridSearchRequest(
                query=query,
                namespace_id=namespace,
                hybrid_config=weights,
                top_k=self.max_num_results or 10,
                score_threshold=ranking.score_threshold,
                filter=filtered,
                rerank=False if ranking.ranker == "none" else None,
                per_document=CHUNKS,
                group_by="document",
            )
            for query in self.queries
        ]


class VectorStoreContent(Struct):
    """A chunk of the document."""

    text: str
    type: Literal["text"] = "text"


class VectorStoreResult(Struct):
    """A document that was found, with its best chunks."""

    file_id: str
    filename: str
    score: float
    attributes: dict[str, Scalar]
    content: list[VectorStoreContent]

    @classmethod
    def of(cls, chunks: list[SearchResult]) -> VectorStoreResult:
        """Of chunks of one document, best first."""
        best = chunks[0]
        own = {name: value for name, value in best.metadata.items() if name not in {"id", "source", "type"}}
        return cls(
            file_id=best.document.id,
            filename=best.document.name,
            score=best.score,
            attributes={name: value for name, value in own.items() if isinstance(value, str | int | float)},
            content=[VectorStoreContent(chunk.passage) for chunk in chunks],
        )


class VectorStoreSearchAnswer(Answer, kw_only=True):
    """What a client of OpenAI's expects, beside what every answer carries."""

    search_query: list[str]
    data: list[VectorStoreResult]
    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    has_more: Literal[False] = False
    next_page: None = None


def _filter(where: dict[str, Any] | None) -> SearchFilter | None:
    return None if where is None else SearchFilter(where=where)


def _leaf(name: str, op: str, value: Any) -> dict[str, Any]:
    return {"field": name, "op": op, "value": value}


def _split(value: Scalar) -> list[Any]:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else [value]


def _number(value: Scalar) -> Scalar:
    """Text as the number that it spells, anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    if number - number != 0:
        return value
    return int(number) if number.is_integer() else number


def _moment(name: str, op: str, value: Scalar, at: str) -> dict[str, Any]:
    """Before or after a date; a number is Unix seconds, and compares with numbers in documents too."""
    number = _number(value)
    if isinstance(number, str):
        return _leaf(name, op, {"date": number})
    try:
        stamp = datetime.fromtimestamp(float(number), UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError) as error:
        raise _wrong(f"{at} is no moment.", at, "out_of_bounds") from error
    return {"any": [_leaf(name, op, number), _leaf(name, op, {"date": stamp})]}


def _wrong(message: str, place: str, reason: str) -> ServiceError:
    return ServiceError(INVALID, message, field=place, reason=reason)
