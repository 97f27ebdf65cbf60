"""What goes on in a scope, on the wire."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from api.wire.common import Answer, Timestamp
from api.wire.ingest import NamespaceId
from retrieval.jobs import activity
from retrieval.statuses import RunStatus


class ActivityQuery(Struct, rename="camel"):
    """Where to look."""

    namespace_id: NamespaceId


class OpenRuns(Struct, rename="camel"):
    """Job runs under way, by status, and since when the oldest one waits."""

    queued: int
    pre_processing: int
    processing: int
    oldest_queued_at: Timestamp | None


class SearchTimeCount(Struct, rename="camel"):
    """So many searches took about so long."""

    milliseconds: Annotated[float, Meta(ge=0)]
    count: int


class SearchActivity(Struct, rename="camel"):
    """Searches of the last 24 hours. Times in milliseconds, null without any search."""

    count: int
    p50: Annotated[float, Meta(ge=0)] | None
    p95: Annotated[float, Meta(ge=0)] | None
    times: list[SearchTimeCount]


class ActivityData(Struct, rename="camel"):
    """Runs, failures of the last day, tokens of the searchable documents, and searches."""

    runs: OpenRuns
    documents_failed_last_day: int
    tokens: int
    searches: SearchActivity

    @classmethod
    def of(cls, found: activity.Activity) -> ActivityData:
        oldest = Timestamp.of(found.oldest_waiting) if found.oldest_waiting else None
        queued, found_out, worked = (
            found.runs.get(one, 0) for one in (RunStatus.QUEUED, RunStatus.PRE_PROCESSING, RunStatus.PROCESSING)
        )
        return cls(
            OpenRuns(queued, found_out, worked, oldest),
            found.failed_last_day,
            found.tokens,
            SearchActivity(
                found.searches,
                found.search_p50,
                found.search_p95,
                [SearchTimeCount(took, count) for took, count in found.search_times],
            ),
        )


class ActivityAnswer(Answer, kw_only=True):
    """What goes on in the namespace and tenant."""

    data: ActivityData
