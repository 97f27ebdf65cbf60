"""What goes on in a scope, on the wire."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from api.wire.common import DataAnswer, Timestamp
from api.wire.ingest import NamespaceId
from retrieval.jobs import activity
from retrieval.statuses import RunStatus


class ActivityQuery(Struct, rename="camel"):
    """Where to look."""

    namespace_id: NamespaceId


class OpenRuns(Struct, rename="camel"):
    """Job runs under way, by status, and since when the oldest one waits."""

    queued: Annotated[int, Meta(description="Accepted, waiting for a worker.")]
    pre_processing: Annotated[int, Meta(description="Finding out what to ingest.")]
    processing: Annotated[int, Meta(description="With documents in the pipeline.")]
    oldest_queued_at: Annotated[
        Timestamp | None, Meta(description="Since when the oldest waiting job run waits; null if none does.")
    ]


class SearchTimeCount(Struct, rename="camel"):
    """So many searches took about so long."""

    milliseconds: Annotated[float, Meta(ge=0, description="About how long they took.")]
    count: Annotated[int, Meta(description="How many.")]


class SearchActivity(Struct, rename="camel"):
    """Searches of the last 24 hours. Times in milliseconds, null without any search."""

    count: Annotated[int, Meta(description="How many.")]
    p50: Annotated[
        Annotated[float, Meta(ge=0)] | None, Meta(description="Milliseconds that half of the searches did not exceed.")
    ]
    p95: Annotated[
        Annotated[float, Meta(ge=0)] | None, Meta(description="Milliseconds that 95 of 100 searches did not exceed.")
    ]
    times: Annotated[list[SearchTimeCount], Meta(description="How many searches took how long, fastest first.")]


class ActivityData(Struct, rename="camel"):
    """Runs, failures of the last day, tokens of the searchable documents, and searches."""

    runs: Annotated[OpenRuns, Meta(description="Job runs under way.")]
    documents_failed_last_day: Annotated[
        int, Meta(description="Documents that failed within 24 hours and are failed still.")
    ]
    tokens: Annotated[int, Meta(description="Tokens of the searchable documents.")]
    searches: Annotated[SearchActivity, Meta(description="Searches of the last 24 hours.")]

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


class ActivityAnswer(DataAnswer[ActivityData]):
    """What goes on in the namespace and tenant."""
