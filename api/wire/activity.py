"""State of the service in responses: activity, queue and health."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import DataAnswer, NamespaceId, Timestamp
from api.wire.problems import Problem
from retrieval.jobs import activity
from retrieval.readiness import LoopState, work
from retrieval.readiness.work import OpenBreaker, WorkingBatch
from retrieval.statuses import RunStatus


class ActivityQuery(Struct, rename="camel"):
    """The namespace, and whether to add the history."""

    namespace_id: NamespaceId
    history: Annotated[bool, Meta(description="Whether to count documents by hour and day. Default: false.")] = False


class OpenRuns(Struct, rename="camel"):
    """Unfinished job runs by status, and the waiting time of the oldest."""

    queued: Annotated[int, Meta(description="Job runs that are accepted and wait for a worker.")]
    pre_processing: Annotated[int, Meta(description="Job runs that list the content to ingest.")]
    processing: Annotated[int, Meta(description="Job runs that process documents.")]
    oldest_queued_at: Annotated[
        Timestamp | None, Meta(description="Creation time of the oldest waiting job run; null without one.")
    ]


class SearchTimeCount(Struct, rename="camel"):
    """A bar of the histogram of search durations."""

    milliseconds: Annotated[float, Meta(ge=0, description="Approximate duration in milliseconds.")]
    count: Annotated[int, Meta(description="Number of searches.")]


class SearchHour(Struct, rename="camel"):
    """Searches of an hour."""

    at: Annotated[Timestamp, Meta(description="The beginning of the hour, in UTC.")]
    count: Annotated[int, Meta(description="Number of searches.")]
    p50: Annotated[Annotated[float, Meta(ge=0)] | None, Meta(description="Median duration in milliseconds.")]
    p95: Annotated[
        Annotated[float, Meta(ge=0)] | None, Meta(description="95th percentile of the duration in milliseconds.")
    ]


class DocumentCount(Struct, rename="camel"):
    """Documents whose job run ended in an hour or day."""

    at: Annotated[Timestamp, Meta(description="The beginning of the hour or day, in UTC.")]
    indexed: Annotated[int, Meta(description="Number of documents that were indexed.")]
    failed: Annotated[int, Meta(description="Number of documents that failed.")]

    @classmethod
    def from_count(cls, count: activity.DocumentCount) -> DocumentCount:
        return cls(Timestamp.from_datetime(count.at), count.indexed, count.failed)


class DocumentHistory(Struct, rename="camel"):
    """Indexed and failed documents by hour and day, oldest first; hours and days without documents are included."""

    hours: Annotated[list[DocumentCount], Meta(description="The last 24 hours.")]
    days: Annotated[list[DocumentCount], Meta(description="The last 30 days.")]

    @classmethod
    def from_history(cls, history: activity.DocumentHistory) -> DocumentHistory:
        return cls(
            hours=[DocumentCount.from_count(count) for count in history.hours],
            days=[DocumentCount.from_count(count) for count in history.days],
        )


class SearchActivity(Struct, rename="camel"):
    """Searches of the last 24 hours. Durations are in milliseconds, and null if there was no search."""

    count: Annotated[int, Meta(description="Number of searches.")]
    p50: Annotated[Annotated[float, Meta(ge=0)] | None, Meta(description="Median duration in milliseconds.")]
    p95: Annotated[
        Annotated[float, Meta(ge=0)] | None, Meta(description="95th percentile of the duration in milliseconds.")
    ]
    times: Annotated[list[SearchTimeCount], Meta(description="Histogram of durations, fastest first.")]
    hours: Annotated[
        list[SearchHour], Meta(description="The last 24 hours, oldest first; hours without searches are included.")
    ]


class ActivityData(Struct, rename="camel"):
    """Job runs, documents and searches of the namespace and tenant."""

    runs: Annotated[OpenRuns, Meta(description="Unfinished job runs.")]
    documents_failed_last_day: Annotated[
        int, Meta(description="Documents that failed in the last 24 hours and have not been indexed since.")
    ]
    tokens: Annotated[int, Meta(description="Tokens of the searchable documents.")]
    searches: Annotated[SearchActivity, Meta(description="Searches of the last 24 hours.")]
    history: Annotated[
        DocumentHistory | UnsetType, Meta(description="Documents by hour and day; absent unless requested.")
    ] = UNSET

    @classmethod
    def from_figures(cls, figures: activity.Activity, history: activity.DocumentHistory | None) -> ActivityData:
        return cls(
            runs=OpenRuns(
                queued=figures.runs.get(RunStatus.QUEUED, 0),
                pre_processing=figures.runs.get(RunStatus.PRE_PROCESSING, 0),
                processing=figures.runs.get(RunStatus.PROCESSING, 0),
                oldest_queued_at=Timestamp.from_optional(figures.oldest_waiting),
            ),
            documents_failed_last_day=figures.failed_last_day,
            tokens=figures.tokens,
            searches=SearchActivity(
                count=figures.searches,
                p50=figures.search_p50,
                p95=figures.search_p95,
                times=[SearchTimeCount(milliseconds, count) for milliseconds, count in figures.search_times],
                hours=[
                    SearchHour(Timestamp.from_datetime(hour.at), hour.searches, hour.p50, hour.p95)
                    for hour in figures.search_hours
                ],
            ),
            history=DocumentHistory.from_history(history) if history else UNSET,
        )


class ActivityAnswer(DataAnswer[ActivityData]):
    """Activity of the namespace and tenant."""


class Breaker(Struct, rename="camel"):
    """Vendor or site with paused requests after failures."""

    name: Annotated[str, Meta(description="The vendor or site.")]
    reason: Annotated[str, Meta(description="Error of the last request.")]
    failures: Annotated[int, Meta(description="Number of consecutive failures.")]
    since: Annotated[Timestamp, Meta(description="Time at which the pause began.")]
    until: Annotated[Timestamp, Meta(description="Time of the next attempt, at which the pause ends or is extended.")]
    waiting_job_runs: Annotated[int, Meta(description="Number of job runs that wait for the vendor or site.")]

    @classmethod
    def from_breaker(cls, breaker: OpenBreaker) -> Breaker:
        return cls(
            name=breaker.name,
            reason=breaker.reason,
            failures=breaker.failures,
            since=Timestamp.from_datetime(breaker.since),
            until=Timestamp.from_datetime(breaker.until),
            waiting_job_runs=breaker.job_runs,
        )


class Batch(Struct, rename="camel", kw_only=True):
    """Job runs of one source in process at the same worker."""

    ingest_job_run_id: Annotated[str, Meta(description="The first of the job runs.")]
    namespace_id: Annotated[str, Meta(description="The namespace's id.")]
    tenant_id: Annotated[str | None, Meta(description="The tenant; null without one.")]
    source: Annotated[str, Meta(description="The source of the content.")]
    job_runs: Annotated[int, Meta(description="Number of job runs that are processed together.")]
    attempt: Annotated[int, Meta(description="Number of the attempt; greater than 1 after a worker was lost.")]
    document: Annotated[str | None, Meta(description="The document in process; null if there are several.")]
    created_at: Annotated[Timestamp, Meta(description="Time at which the batch was created.")]
    started_at: Annotated[Timestamp | None, Meta(description="Time at which a worker started; null before.")]
    lease_until: Annotated[
        Timestamp | None,
        Meta(description="Time until which the worker counts as alive without a heartbeat; null before the start."),
    ]

    @classmethod
    def from_batch(cls, batch: WorkingBatch) -> Batch:
        return cls(
            ingest_job_run_id=batch.job_run_id,
            namespace_id=batch.namespace,
            tenant_id=batch.tenant or None,
            source=batch.source,
            job_runs=batch.job_runs,
            attempt=batch.attempt,
            document=batch.document,
            created_at=Timestamp.from_datetime(batch.created_at),
            started_at=Timestamp.from_optional(batch.started_at),
            lease_until=Timestamp.from_optional(batch.lease_until),
        )


class DispatcherLoop(Struct, rename="camel"):
    """Loop of a dispatcher: dispatch, recovery or garbage collection."""

    loop: Annotated[str, Meta(description="The name of the loop.")]
    last_success_seconds: Annotated[Annotated[float, Meta(ge=0)], Meta(description="Seconds since its last success.")]
    late: Annotated[bool, Meta(description="Whether the last success is too long ago.")]
    reason: Annotated[str | None, Meta(description="The error since the last success; null without one.")]

    @classmethod
    def from_state(cls, state: LoopState) -> DispatcherLoop:
        # The age is negative after a step of the database's clock.
        return cls(state.name, round(max(state.age, 0.0), 1), state.late, state.reason)


class QueueData(Struct, rename="camel", kw_only=True):
    """Waiting and running job runs of the organization, and the state of the installation."""

    queued: Annotated[int, Meta(description="Job runs that wait for a worker.")]
    oldest_queued_at: Annotated[
        Timestamp | None, Meta(description="Creation time of the oldest waiting job run; null without one.")
    ]
    held: Annotated[int, Meta(description="Job runs that wait for a vendor or site that does not respond.")]
    workers: Annotated[int, Meta(description="Number of connected workers of the installation.")]
    stalled: Annotated[bool, Meta(description="Whether accepted work of the installation makes no progress.")]
    reasons: Annotated[
        list[str], Meta(description="Why there is no progress, such as a full disk or a paused work pool.")
    ]
    warnings: Annotated[list[str], Meta(description="Missing protection of this machine, such as Landlock.")]
    breakers: Annotated[
        list[Breaker], Meta(description="Vendors and sites that get no requests because they do not respond.")
    ]
    working: Annotated[list[Batch], Meta(description="Batches that workers process, oldest first, at most 50.")]
    loops: Annotated[list[DispatcherLoop], Meta(description="The dispatchers' loops.")]

    @classmethod
    def from_queue(
        cls,
        queue: work.OrganizationQueue,
        warnings: list[str],
        storage_problems: Sequence[str],
        problems: Sequence[Problem],
    ) -> QueueData:
        """Build the data from the queue, and the problems of the file storage and the installation."""
        blocking_problems = [problem for problem in problems if problem.severity == "blocked"]
        reasons = [
            *storage_problems,
            *(problem.cause for problem in blocking_problems if problem.kind == "WORKER"),
            *(lever.effect for lever in queue.dispatch.levers if lever.batch is None),
            *queue.dispatch.reasons,
            *(str(loop) for loop in queue.dispatch.late),
        ]
        return cls(
            queued=queue.queued,
            oldest_queued_at=Timestamp.from_optional(queue.oldest),
            held=queue.held,
            workers=queue.workers,
            stalled=bool(blocking_problems) or queue.dispatch.stalled,
            reasons=list(dict.fromkeys(reasons)),
            warnings=warnings,
            breakers=[Breaker.from_breaker(breaker) for breaker in queue.breakers],
            working=[Batch.from_batch(batch) for batch in queue.working],
            loops=[DispatcherLoop.from_state(loop) for loop in queue.dispatch.loops],
        )


class QueueAnswer(DataAnswer[QueueData]):
    """The queue and the workers."""


class Health(Struct):
    """Liveness of the process."""

    status: Annotated[Literal["ok"], Meta(description="Always `ok`.")]


class Readiness(Struct):
    """Readiness of the service. `reason` has a sentence for each cause; `warnings` do not change the status."""

    status: Annotated[Literal["ready", "unavailable"], Meta(description="Whether requests can be served.")]
    reason: Annotated[str | None, Meta(description="Why requests cannot be served; null if they can.")] = None
    warnings: Annotated[
        list[str] | UnsetType,
        Meta(description="Missing protection of this machine, such as Landlock; absent if complete."),
    ] = UNSET
