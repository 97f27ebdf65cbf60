"""Schedules in requests and responses."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import DataAnswer, Listing, NamespaceId, PaginationQuery, Timestamp
from api.wire.documents import NamespaceReference
from api.wire.health import ResourceHealth
from retrieval.connections import schedules
from retrieval.connections.queries_schedules import ScheduleRow
from retrieval.connections.schedules import Timing

Minutes = Annotated[int, Meta(ge=1, le=525_600, description="Interval in minutes; instead of `cron`.", examples=[1440])]
Cron = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="Cron expression of five fields, in `timeZone`; instead of `intervalMinutes`.",
        examples=["0 6 * * MON-FRI"],
    ),
]
TimeZone = Annotated[
    str, Meta(min_length=1, max_length=64, description="IANA name of a time zone.", examples=["Europe/Berlin"])
]


class CreateSchedule(Struct, rename="camel", kw_only=True):
    """The ingestion to repeat, by `intervalMinutes` or `cron`."""

    namespace_id: NamespaceId
    ingest_job_run_id: Annotated[
        str, Meta(description="A job run of a website, sitemap, URL list or connection whose request is repeated.")
    ]
    interval_minutes: Minutes | None = None
    cron: Cron | None = None
    time_zone: TimeZone = "UTC"


class UpdateSchedule(Struct, rename="camel", kw_only=True):
    """Changes to a schedule; absent fields stay."""

    namespace_id: NamespaceId
    interval_minutes: Minutes | UnsetType = UNSET
    cron: Cron | UnsetType = UNSET
    time_zone: TimeZone | UnsetType = UNSET
    paused: Annotated[
        bool | UnsetType, Meta(description="True to pause the schedule, in Prefect too; false to continue.")
    ] = UNSET


class SchedulesQuery(PaginationQuery, kw_only=True):
    """Filter of schedules, by default of all namespaces."""

    namespace_id: Annotated[str | None, Meta(description="Only schedules of this namespace.")] = None


class ScheduleQuery(Struct, rename="camel"):
    """The schedule's namespace."""

    namespace_id: NamespaceId


class LastRun(Struct, rename="camel"):
    """The newest job run of a schedule."""

    id: Annotated[str, Meta(description="The job run's id.")]
    status: Annotated[str, Meta(description="The job run's status.")]
    outcome: Annotated[str | None, Meta(description="The job run's outcome; null before its end.")]
    created_at: Annotated[Timestamp, Meta(description="Time of the job run.")]


class Schedule(Struct, rename="camel", kw_only=True):
    """An ingestion that is repeated automatically."""

    id: Annotated[str, Meta(description="The object's id.")]
    source: Annotated[str, Meta(description="The source of the ingestion.")]
    about: Annotated[str | None, Meta(description="URL of the source, its first page, or the name of the connection.")]
    connection_id: Annotated[str | None, Meta(description="The connection; null for sources of the web.")]
    namespace: Annotated[NamespaceReference, Meta(description="The namespace that it belongs to.")]
    tenant_id: Annotated[str | None, Meta(description="The tenant; null without one.")]
    interval_minutes: Annotated[int | None, Meta(description="Interval in minutes; null with `cron`.")]
    cron: Annotated[str | None, Meta(description="Cron expression; null with `intervalMinutes`.")]
    time_zone: Annotated[str, Meta(description="Time zone of `cron`.")]
    paused: Annotated[bool, Meta(description="Whether the schedule is paused, here or in Prefect.")]
    next_run_at: Annotated[
        Timestamp | None,
        Meta(description="Time of the next job run; null while paused, or while its connection is not ACTIVE."),
    ]
    last_run: Annotated[LastRun | None, Meta(description="The newest job run; null before the first one.")]
    status_reason: Annotated[
        str | None, Meta(description="Why the last due time brought no job run, such as a quota; null if it did.")
    ]
    created_at: Annotated[Timestamp, Meta(description="Time of creation.")]
    updated_at: Annotated[Timestamp, Meta(description="Time of the last change.")]
    health: Annotated[ResourceHealth, Meta(description="Outcome of its job runs.")]

    @classmethod
    def from_row(cls, row: ScheduleRow) -> Schedule:
        timing = Timing(row.minutes, row.cron, row.time_zone)
        next_run = schedules.next_due(row.id, timing) if row.is_active else None
        last_run = None
        if row.run_id is not None and row.run_at is not None:
            last_run = LastRun(row.run_id, row.run_status or "", row.run_outcome, Timestamp.from_datetime(row.run_at))
        return cls(
            id=row.id,
            source=row.source,
            about=row.subject,
            connection_id=row.connection_id,
            namespace=NamespaceReference(row.namespace_id),
            tenant_id=row.tenant or None,
            interval_minutes=row.minutes,
            cron=row.cron,
            time_zone=row.time_zone,
            paused=row.paused,
            next_run_at=Timestamp.from_optional(next_run),
            last_run=last_run,
            status_reason=row.reason,
            created_at=Timestamp.from_datetime(row.created_at),
            updated_at=Timestamp.from_datetime(row.updated_at),
            health=ResourceHealth.from_health(replace(row.health, next_attempt_at=next_run)),
        )


class ScheduleData(Struct):
    """A schedule."""

    schedule: Schedule


class SchedulesData(Listing, kw_only=True):
    """Schedules, newest first; all or one page."""

    schedules: list[Schedule]


class ScheduleAnswer(DataAnswer[ScheduleData]):
    """The current schedule."""


class SchedulesAnswer(DataAnswer[SchedulesData]):
    """Schedules of a namespace or of all."""
