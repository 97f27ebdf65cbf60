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
    """The namespace to read."""

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
    """Number of searches with about this duration."""

    milliseconds: Annotated[float, Meta(ge=0, description="Approximate duration in milliseconds.")]
    count: Annotated[int, Meta(description="The number of occurrences.")]


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


class DocumentHistory(Struct, rename="camel"):
    """Documents by the end of their job run, oldest first, also hours and days without any."""

    hours: Annotated[list[DocumentCount], Meta(description="The last 24 hours.")]
    days: Annotated[list[DocumentCount], Meta(description="The last 30 days.")]

    @classmethod
    def from_history(cls, history: activity.DocumentHistory) -> DocumentHistory:
        hours, days = (
            [DocumentCount(Timestamp.from_datetime(count.at), count.indexed, count.failed) for count in counts]
            for counts in (history.hours, history.days)
        )
        return cls(hours, days)


class SearchActivity(Struct, rename="camel"):
    """Searches of the last 24 hours. Times in milliseconds, null without any search."""

    count: Annotated[int, Meta(description="The number of occurrences.")]
    p50: Annotated[Annotated[float, Meta(ge=0)] | None, Meta(description="Median duration in milliseconds.")]
    p95: Annotated[
        Annotated[float, Meta(ge=0)] | None, Meta(description="95th percentile of the duration in milliseconds.")
    ]
    times: Annotated[list[SearchTimeCount], Meta(description="Histogram of durations, fastest first.")]
    hours: Annotated[list[SearchHour], Meta(description="The last 24 hours, oldest first, also those without any.")]


class ActivityData(Struct, rename="camel"):
    """Runs, failures of the last day, tokens of the searchable documents, and searches."""

    runs: Annotated[OpenRuns, Meta(description="Unfinished job runs.")]
    documents_failed_last_day: Annotated[
        int, Meta(description="Documents that failed in the last 24 hours and not succeeded since.")
    ]
    tokens: Annotated[int, Meta(description="Tokens of the searchable documents.")]
    searches: Annotated[SearchActivity, Meta(description="Searches of the last 24 hours.")]
    history: Annotated[
        DocumentHistory | UnsetType, Meta(description="Documents by hour and day; absent unless requested.")
    ] = UNSET

    @classmethod
    def from_figures(cls, figures: activity.Activity, history: activity.DocumentHistory | None) -> ActivityData:
        oldest = Timestamp.from_datetime(figures.oldest_waiting) if figures.oldest_waiting else None
        queued, pre_processing, processing = (
            figures.runs.get(status, 0) for status in (RunStatus.QUEUED, RunStatus.PRE_PROCESSING, RunStatus.PROCESSING)
        )
        return cls(
            OpenRuns(queued, pre_processing, processing, oldest),
            figures.failed_last_day,
            figures.tokens,
            SearchActivity(
                figures.searches,
                figures.search_p50,
                figures.search_p95,
                [SearchTimeCount(took, count) for took, count in figures.search_times],
                [
                    SearchHour(Timestamp.from_datetime(hour.at), hour.searches, hour.p50, hour.p95)
                    for hour in figures.search_hours
                ],
            ),
            DocumentHistory.from_history(history) if history else UNSET,
        )


class ActivityAnswer(DataAnswer[ActivityData]):
    """Activity of the namespace and tenant."""


Seconds = Annotated[float, Meta(ge=0)]


class Breaker(Struct, rename="camel"):
    """Vendor or site without requests for some time, after failures."""

    name: Annotated[str, Meta(description="The vendor or site.")]
    reason: Annotated[str, Meta(description="Error of the last request.")]
    failures: Annotated[int, Meta(description="Number of consecutive failures.")]
    since: Annotated[Timestamp, Meta(description="Time at which requests were stopped.")]
    until: Annotated[Timestamp, Meta(description="Time of the next attempt.")]
    waiting_job_runs: Annotated[int, Meta(description="Number of job runs that wait for it.")]

    @classmethod
    def from_breaker(cls, breaker: OpenBreaker) -> Breaker:
        since, until = Timestamp.from_datetime(breaker.since), Timestamp.from_datetime(breaker.until)
        return cls(breaker.name, breaker.reason, breaker.failures, since, until, breaker.job_runs)


class Work(Struct, rename="camel", kw_only=True):
    """Job runs of a source that a worker processes together."""

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
        Timestamp | None, Meta(description="Expiry of the worker's lease without a heartbeat; null before the start.")
    ]

    @classmethod
    def from_batch(cls, batch: WorkingBatch) -> Work:
        return cls(
            ingest_job_run_id=batch.job_run_id,
            namespace_id=batch.namespace,
            tenant_id=batch.tenant or None,
            source=batch.source,
            job_runs=batch.job_runs,
            attempt=batch.attempt,
            document=batch.document,
            created_at=Timestamp.from_datetime(batch.created_at),
            started_at=Timestamp.from_datetime(batch.started_at) if batch.started_at else None,
            lease_until=Timestamp.from_datetime(batch.lease_until) if batch.lease_until else None,
        )


class DispatcherLoop(Struct, rename="camel"):
    """Loop of a dispatcher: dispatch, recovery or garbage collection."""

    loop: Annotated[str, Meta(description="The name of the loop.")]
    last_success_seconds: Annotated[Seconds, Meta(description="Seconds since its last success.")]
    late: Annotated[bool, Meta(description="Whether the last success is too long ago.")]
    reason: Annotated[str | None, Meta(description="The error since the last success; null without one.")]

    @classmethod
    def from_state(cls, state: LoopState) -> DispatcherLoop:
        return cls(state.name, round(max(state.age, 0.0), 1), state.late, state.reason)


class QueueData(Struct, rename="camel", kw_only=True):
    """Waiting and running job runs. Workers, loops and `stalled` describe the installation."""

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
    working: Annotated[list[Work], Meta(description="Batches that workers process, oldest first, at most 50.")]
    loops: Annotated[list[DispatcherLoop], Meta(description="The dispatchers' loops.")]

    @classmethod
    def from_queue(
        cls, queue: work.OrganizationQueue, warnings: list[str], unstored: Sequence[str], problems: Sequence[Problem]
    ) -> QueueData:
        """Return the queue; `unstored` are the reasons why nothing can be stored."""
        blocking = [problem for problem in problems if problem.severity == "blocked"]
        return cls(
            queued=queue.queued,
            oldest_queued_at=Timestamp.from_datetime(queue.oldest) if queue.oldest else None,
            held=queue.held,
            workers=queue.workers,
            stalled=bool(blocking) or queue.dispatch.stalled,
            reasons=list(
                dict.fromkeys(
                    [
                        *unstored,
                        *(problem.cause for problem in blocking if problem.kind == "WORKER"),
                        *(lever.effect for lever in queue.dispatch.levers if lever.batch is None),
                        *queue.dispatch.reasons,
                        *map(str, queue.dispatch.late),
                    ]
                )
            ),
            warnings=warnings,
            breakers=[Breaker.from_breaker(breaker) for breaker in queue.breakers],
            working=[Work.from_batch(batch) for batch in queue.working],
            loops=[DispatcherLoop.from_state(loop) for loop in queue.dispatch.loops],
        )


class QueueAnswer(DataAnswer[QueueData]):
    """The queue and the workers."""


class Health(Struct):
    """The process answers."""

    status: Annotated[Literal["ok"], Meta(description="Always `ok`.")]


class Readiness(Struct):
    """Readiness of the service. `reason` has a sentence for each cause; `warnings` do not make it unavailable."""

    status: Annotated[Literal["ready", "unavailable"], Meta(description="Whether requests can be served.")]
    reason: Annotated[str | None, Meta(description="Why requests cannot be served; null if they can.")] = None
    warnings: Annotated[
        list[str] | UnsetType,
        Meta(description="Missing protection of this machine, such as Landlock; absent if complete."),
    ] = UNSET
