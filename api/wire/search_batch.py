"""Several searches at once, on the wire."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from api.wire.common import DataAnswer, ErrorInfo
from api.wire.ingest import NamespaceId
from api.wire.search import NamespaceIds, SearchResult, SearchTimings

QUERIES = 64


class SearchBatchRequest(Struct, rename="camel", kw_only=True):
    """Searches in one namespace, or in the same several ones."""

    namespace_id: NamespaceId | None = None
    namespace_ids: NamespaceIds | None = None
    queries: Annotated[
        list[Annotated[Raw, Meta(extra_json_schema={"type": "object"})]],
        Meta(
            min_length=1,
            max_length=QUERIES,
            description="Bodies of searches without their namespace, or with the same one; one with `hybridConfig` is a"
            " hybrid search.",
            examples=[[{"query": "How do I open the cover?", "topK": 3}]],
        ),
    ]


class Peek(Struct, rename="camel"):
    """What tells the two kinds of search apart."""

    hybrid_config: Raw | UnsetType = UNSET
    search_type: Raw | UnsetType = UNSET

    @property
    def is_hybrid(self) -> bool:
        return self.hybrid_config is not UNSET or self.search_type == Raw(b'"HYBRID"')


class SearchBatchResult(Struct, omit_defaults=True):
    """What one of the searches answers, `results` or `error`."""

    results: Annotated[list[SearchResult] | UnsetType, Meta(description="What was found, best first.")] = UNSET
    timings: Annotated[SearchTimings | UnsetType, Meta(description="Where the time went, if it was asked for.")] = UNSET
    reranked: Annotated[
        bool | UnsetType, Meta(description="Whether the reranker made this order; absent where it was not asked.")
    ] = UNSET
    note: Annotated[
        str | UnsetType,
        Meta(description="Why nothing was found, where that can be told: the query has stop words alone."),
    ] = UNSET
    error: ErrorInfo | UnsetType = UNSET


class SearchBatchData(Struct):
    """One for each query, in their order."""

    results: Annotated[list[SearchBatchResult], Meta(description="What was found, best first.")]


class SearchBatchAnswer(DataAnswer[SearchBatchData]):
    """What each of the searches found."""
