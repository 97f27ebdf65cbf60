"""Weak searches in responses."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from api.wire.common import DataAnswer, NamespaceId, Timestamp
from retrieval.search import queries_weak


class WeakSearchesQuery(Struct, rename="camel"):
    """The namespace of the weak searches."""

    namespace_id: NamespaceId


class WeakSearch(Struct, rename="camel"):
    """A query with probably irrelevant results."""

    query: Annotated[str, Meta(description="The query.")]
    count: Annotated[int, Meta(description="Number of searches for it.")]
    best_score: Annotated[
        float | None, Meta(description="Score of the best result of the last search; null without results.")
    ]
    probability: Annotated[float, Meta(description="Probability that the last results answer the query.")]
    last_at: Annotated[Timestamp, Meta(description="Time of the last search.")]

    @classmethod
    def from_weak_search(cls, search: queries_weak.WeakSearch) -> WeakSearch:
        return cls(
            search.query,
            search.searches,
            search.best_score,
            search.probability,
            Timestamp.from_datetime(search.last_at),
        )


class WeakSearchesData(Struct, rename="camel"):
    """Weak searches of a namespace and tenant, the most frequent first, 200 at most."""

    weak_searches: Annotated[list[WeakSearch], Meta(description="The weak searches.")]
    retention_days: Annotated[
        int, Meta(description="Days for which they are kept after the last search; 0 if none are recorded.")
    ]


class WeakSearchesAnswer(DataAnswer[WeakSearchesData]):
    """The weak searches of the namespace."""
