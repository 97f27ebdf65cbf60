"""Ingestion that is repeated by itself: schedules, when they are due, and their next job run.

Each is a row in `schedules` that Prefect executes. `syncIntervalMinutes` of a connection is such a row.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from retrieval import ids, origin, principals
from retrieval.accounts import quotas
from retrieval.connections import queries, queries_schedules
from retrieval.connections.queries_schedules import DueRow, ScheduleRow
from retrieval.database import pagination, partitions
from retrieval.database.database import Database
from retrieval.database.pagination import Page, Part
from retrieval.database.rows import AsyncExecutor, Params
from retrieval.database.sessions import ThreadConnection
from retrieval.errors import ErrorCode, ServiceError
from retrieval.job_config import JobConfig
from retrieval.jobs import runs
from retrieval.jobs.queries import acceptance
from retrieval.jobs.runs import CHANNEL
from retrieval.ports import Scope
from retrieval.sources import DOCUMENT_TYPES
from retrieval.statuses import ConnectionStatus


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """Result of a scheduled ingestion: the id of its job run, or the reason why there is none."""

    job_run_id: str | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Timing:
    """Due times of a schedule: every so many minutes, or by a cron expression in a time zone.

    `pending`: a request set `paused`, and Prefect has not heard of it.
    """

    minutes: int | None = None
    cron: str | None = None
    time_zone: str = "UTC"
    paused: bool = False
    pending: bool = False


def wanted_schedules(db: Database) -> dict[str, Timing]:
    """Timings of all schedules by id, without those of connections that are not ACTIVE."""
    return {
        due.id: Timing(due.minutes, due.cron, due.time_zone, due.paused, due.pause_pending)
        for due in queries_schedules.list_due(db)
    }


async def set_interval(db: AsyncExecutor, connection_id: str, minutes: int | None) -> None:
    """Give a connection the schedule of `syncIntervalMinutes`; null removes it."""
    config = JobConfig(request={}, connection_id=connection_id, scheduled=True).dump()
    values = {"id": ids.schedule_id(), "job": ids.job_id(), "config": config}
    await queries_schedules.set_interval(db, {**values, "connection": connection_id, "minutes": minutes})


_FIRST = datetime(2024, 1, 1, tzinfo=UTC)


def anchor_time(schedule_id: str, minutes: int) -> datetime:
    """Return a past due time of the schedule; all due times are whole intervals away from it.

    It is derived from the id, so that the next due time needs no scheduler, and many schedules are spread over the
    interval.
    """
    return _FIRST + timedelta(seconds=zlib.crc32(schedule_id.encode()) % (minutes * 60))


def next_due(schedule_id: str, timing: Timing, now: datetime | None = None) -> datetime:
    """Return the next due time, in UTC."""
    start = now or datetime.now(UTC)
    if timing.minutes is not None:
        anchor, interval = anchor_time(schedule_id, timing.minutes), timedelta(minutes=timing.minutes)
        return anchor + ((start - anchor) // interval + 1) * interval
    zone = ZoneInfo(timing.time_zone)
    walls = CronSim(timing.cron or "", start.astimezone(zone).replace(tzinfo=None))
    return next(due for wall in walls if (due := _at_wall_time(wall, zone)) > start)


def _at_wall_time(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the moment in UTC as Prefect's scheduler takes it: the first of two, and an hour earlier for none."""
    due = wall.replace(tzinfo=zone).astimezone(UTC)
    if due.astimezone(zone).replace(tzinfo=None, fold=0) == wall:
        return due
    return wall.replace(tzinfo=zone, fold=1).astimezone(UTC)


def settle_pause(db: Database, schedule_id: str, *, paused: bool) -> None:
    """Store whether Prefect has the schedule paused, unless a newer request is pending."""
    queries_schedules.settle_pause(db, schedule_id, paused=paused)


def check_timing(timing: Timing) -> tuple[str, str] | None:
    """Return the field that is wrong and why; None for a timing that can be executed."""
    if (timing.minutes is None) == (timing.cron is None):
        return "cron", "or intervalMinutes must be sent, and not both"
    if timing.time_zone not in _time_zones():
        return "timeZone", "must be the name of a time zone, such as Europe/Berlin"
    if timing.cron is not None:
        if len(timing.cron.split()) != 5:
            return "cron", "must have five fields: minute, hour, day of the month, month, day of the week"
        try:
            next_due("", timing)
        except (CronSimError, StopIteration):
            return "cron", "is not a cron expression that comes due"
    return None


@lru_cache(maxsize=1)
def _time_zones() -> frozenset[str]:
    return frozenset(available_timezones())


async def create_schedule(db: Database, scope: Scope, job_run_id: str, timing: Timing) -> ScheduleRow:
    """Repeat the request of a job run. INGEST_JOB_RUN_NOT_FOUND; INVALID_REQUEST for content that was sent."""
    repeated = await queries_schedules.get_repeated(db, scope, job_run_id)
    if repeated is None:
        raise runs.not_found()
    if repeated.source not in DOCUMENT_TYPES:
        message = f"A job run of the source {repeated.source} cannot be repeated: its content came with the request."
        raise ServiceError(ErrorCode.INVALID_REQUEST, message, field="ingestJobRunId", reason="not_repeatable")
    job = JobConfig.load(repeated.config)
    job = replace(job, scheduled=True, accepted_at=job.accepted_at or repeated.created_at)
    schedule_id = ids.schedule_id()
    values: Params = {
        "id": schedule_id,
        "partition": repeated.partition_id,
        "job": ids.job_id(),
        "source": repeated.source,
        "config": job.dump(),
        "urls": repeated.urls or None,
        "minutes": timing.minutes,
        "cron": timing.cron,
        "zone": timing.time_zone,
    }
    await queries_schedules.insert_schedule(db, values)
    return await get_schedule(db, scope, schedule_id)


async def list_part(
    db: Database, organization: str, tenant: str, namespace: str | None, part: Part | None
) -> Page[ScheduleRow]:
    """Newest first, those of a namespace or of all."""
    rows = await queries_schedules.list_rows(db, organization, tenant, namespace, part)
    return pagination.part_cut(rows, part)


async def get_schedule(db: Database, scope: Scope, schedule_id: str) -> ScheduleRow:
    """NOT_FOUND if the scope has no such schedule."""
    row = await queries_schedules.get_row(db, scope, schedule_id)
    if row is None:
        raise ServiceError(ErrorCode.NOT_FOUND, "There is no such schedule.", field="scheduleId")
    return row


async def change_schedule(
    db: Database, scope: Scope, schedule_id: str, timing: Timing | None, time_zone: str | None, *, paused: bool | None
) -> ScheduleRow:
    """Change when a schedule is due, and whether it is paused; None leaves each as it is."""
    values: Params = {
        "id": schedule_id,
        "timed": timing is not None,
        "minutes": timing and timing.minutes,
        "cron": timing and timing.cron,
        "zone": time_zone,
        "paused": paused,
    }
    await queries_schedules.update_schedule(db, scope, values)
    return await get_schedule(db, scope, schedule_id)


async def delete_schedule(db: Database, scope: Scope, schedule_id: str) -> ScheduleRow:
    """Delete a schedule; its documents and job runs stay."""
    row = await get_schedule(db, scope, schedule_id)
    await queries_schedules.delete_schedule(db, scope, schedule_id)
    return row


BUSY = "A job run of this schedule is under way."


def repeat_ingestion(db: Database, schedule_id: str) -> ScheduledRun:
    """Record the next job run of a schedule, unless its last one is unfinished. The schedule shows the reason."""
    try:
        with db.transaction() as connection:
            due = queries_schedules.lock_due(connection, schedule_id)
            if due is None:
                return ScheduledRun(None, "The schedule was deleted.")
            job = JobConfig.load(due.config)
            if job.connection_id is None and due.is_busy:
                return ScheduledRun(None, BUSY)
            if job.connection_id is None:
                scheduled_run = _repeat_within_quotas(connection, due)
                queries_schedules.explain_schedule(connection, schedule_id, scheduled_run.reason or None)
        if job.connection_id is not None:
            scheduled_run = record_run(db, job.connection_id)
            queries_schedules.explain_schedule(db, schedule_id, scheduled_run.reason or None)
            if scheduled_run.job_run_id is not None:
                queries_schedules.take_job(db, schedule_id, scheduled_run.job_run_id)
    except ServiceError as error:
        reason = REFUSED + error.message
        queries_schedules.explain_schedule(db, schedule_id, reason)
        return ScheduledRun(None, reason)
    if scheduled_run.job_run_id is not None:
        db.execute("notify " + CHANNEL)
    return scheduled_run


def _repeat_within_quotas(connection: ThreadConnection, due: DueRow) -> ScheduledRun:
    """Insert the job run. QUOTA_EXCEEDED undoes the transaction."""
    run_id = ids.job_run_id()
    values: Params = {
        **partitions.scope_params(due.scope),
        "job": due.job_id,
        "run": run_id,
        "source": due.source,
        "config": json.dumps(due.config),
        **origin.origin_params(),
    }
    usage = quotas.lock_usage(connection, due.organization_id, due.tenant) if due.counted else None
    if due.urls is None:
        connection.execute(acceptance.TO_DISCOVER, values)
    else:
        pages = queries_schedules.keep_live(connection, due.scope, due.urls)
        if not pages:
            return ScheduledRun(None, "All pages of this list were deleted.")
        values |= {
            "document_type": DOCUMENT_TYPES[due.source],
            "metadata": None,
            "access": principals.stored_access(None),
            "documents": [ids.document_id() for _ in pages],
            "urls": pages,
        }
        connection.execute(acceptance.SEVERAL, values)
    if usage is not None:
        quotas.check_uses(usage, quotas.read_usage(connection, due.organization_id, due.tenant))
    return ScheduledRun(run_id)


REFUSED = "Its schedule was refused: "
"""How the `statusReason` of an ACTIVE connection begins whose last scheduled ingestion exceeded a quota."""


def record_run(db: Database, connection_id: str) -> ScheduledRun:
    """Record the next job run of a connection, unless one is waiting or running: two never overlap.

    A run beyond a quota is refused like a request, and the connection shows the reason until the next one is accepted.
    """
    values = {
        "connection": connection_id,
        "job": ids.job_id(),
        "run": ids.job_run_id(),
        "config": JobConfig(request={}, connection_id=connection_id, scheduled=True).dump(),
    }
    try:
        with db.transaction() as connection:
            run_id = _insert_within_quotas(connection, values)
    except ServiceError as error:
        reason = REFUSED + error.message
        queries.explain_connection(db, connection_id, reason)
        return ScheduledRun(None, reason)
    if run_id is None:
        row = queries.get_credentials(db, connection_id)
        is_active = row is not None and row.status == ConnectionStatus.ACTIVE
        return ScheduledRun(
            None, "A job run of this connection is under way." if is_active else "The connection is not ACTIVE."
        )
    db.execute("notify " + CHANNEL)
    return ScheduledRun(run_id)


def _insert_within_quotas(connection: ThreadConnection, values: Params) -> str | None:
    """Return the id of the job run, None if there is to be none. QUOTA_EXCEEDED undoes the transaction."""
    owner = queries.get_owner(connection, values["connection"])
    if owner is None or not owner.counted:
        run_id = queries.insert_scheduled_run(connection, values)
    else:
        usage = quotas.lock_usage(connection, owner.organization_id, owner.tenant)
        run_id = queries.insert_scheduled_run(connection, values)
        if run_id is not None:
            quotas.check_uses(usage, quotas.read_usage(connection, owner.organization_id, owner.tenant))
    if run_id is not None:
        queries.withdraw_reason(connection, values["connection"], REFUSED)
    return run_id
