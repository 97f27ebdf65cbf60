"""Schedules of repeated ingestion: due times, changes, and the job run of a due time. Prefect executes them."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from retrieval import ids, origin, principals
from retrieval.accounts import quotas
from retrieval.connections import queries, queries_schedules
from retrieval.connections.queries_schedules import ScheduleRow, ScheduleToRun
from retrieval.database import pagination, partitions
from retrieval.database.database import Database
from retrieval.database.pagination import Page, PageRequest
from retrieval.database.rows import AsyncExecutor, Params
from retrieval.database.sessions import ThreadConnection
from retrieval.errors import ErrorCode, ServiceError
from retrieval.job_config import FULL_LISTING, JobConfig
from retrieval.jobs import runs
from retrieval.jobs.queries import acceptance
from retrieval.jobs.runs import JOB_RUNS_CHANNEL
from retrieval.ports import Scope
from retrieval.sources import DOCUMENT_TYPES
from retrieval.statuses import ConnectionStatus


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """Result of a due time: a job run, or the reason why there is none."""

    job_run_id: str | None
    reason: str = ""
    # Whether the due time counts as a failure.
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Timing:
    """Due times of a schedule: an interval or a cron expression."""

    minutes: int | None = None
    cron: str | None = None
    time_zone: str = "UTC"
    paused: bool = False
    # `paused` was not yet forwarded to Prefect.
    pause_pending: bool = False


class InvalidField(NamedTuple):
    """Invalid field of a request, with the reason."""

    field: str
    reason: str


def list_timings(db: Database) -> dict[str, Timing]:
    """Return the timings of schedules by id, except of inactive connections."""
    return {
        schedule.id: Timing(
            schedule.minutes, schedule.cron, schedule.time_zone, schedule.paused, schedule.pause_pending
        )
        for schedule in queries_schedules.list_active(db)
    }


async def set_interval(db: AsyncExecutor, connection_id: str, minutes: int | None) -> None:
    """Set the interval of a connection's schedule (`syncIntervalMinutes`), or delete the schedule for null."""
    config = JobConfig(request={}, connection_id=connection_id, scheduled=True).dump()
    values = {"id": ids.schedule_id(), "job": ids.job_id(), "config": config}
    await queries_schedules.set_interval(db, {**values, "connection": connection_id, "minutes": minutes})


# Earlier than any schedule.
_ANCHOR_EPOCH = datetime(2024, 1, 1, tzinfo=UTC)


def anchor_time(schedule_id: str, minutes: int) -> datetime:
    """Return a past due time of the schedule; all others are whole intervals later."""
    # It depends on the id only, so schedules with the same interval are not due at the same time.
    return _ANCHOR_EPOCH + timedelta(seconds=zlib.crc32(schedule_id.encode()) % (minutes * 60))


def next_due(schedule_id: str, timing: Timing, moment: datetime | None = None) -> datetime:
    """Return the next due time to show, in UTC; Prefect computes its own."""
    start = moment or datetime.now(UTC)
    if timing.minutes is not None:
        anchor, interval = anchor_time(schedule_id, timing.minutes), timedelta(minutes=timing.minutes)
        return anchor + ((start - anchor) // interval + 1) * interval
    zone = ZoneInfo(timing.time_zone)
    local_times = CronSim(timing.cron or "", start.astimezone(zone).replace(tzinfo=None))
    due_times = (_to_utc(local_time, zone) for local_time in local_times)
    return next(due for due in due_times if due > start)


def _to_utc(local_time: datetime, zone: ZoneInfo) -> datetime:
    """Convert a local time as Prefect's scheduler does."""
    # Of a time shown twice by the clock, the first moment counts. A skipped time has the offset after the change.
    moment = local_time.replace(tzinfo=zone).astimezone(UTC)
    is_skipped = moment.astimezone(zone).replace(tzinfo=None, fold=0) != local_time
    return local_time.replace(tzinfo=zone, fold=1).astimezone(UTC) if is_skipped else moment


def settle_pause(db: Database, schedule_id: str, *, paused: bool) -> None:
    """Record Prefect's pause state, unless a newer request is pending."""
    queries_schedules.settle_pause(db, schedule_id, paused=paused)


def check_timing(timing: Timing) -> InvalidField | None:
    """Return the first invalid field; None for a valid timing."""
    has_one_rule = (timing.minutes is None) != (timing.cron is None)
    if not has_one_rule:
        return InvalidField("cron", "or intervalMinutes must be sent, and not both")
    if timing.time_zone not in _time_zones():
        return InvalidField("timeZone", "must be the name of a time zone, such as Europe/Berlin")
    if timing.cron is not None:
        if len(timing.cron.split()) != 5:
            return InvalidField("cron", "must have five fields: minute, hour, day of the month, month, day of the week")
        try:
            next_due("", timing)
        except (CronSimError, StopIteration):
            return InvalidField("cron", "is not a cron expression that comes due")
    return None


@lru_cache(maxsize=1)
def _time_zones() -> frozenset[str]:
    return frozenset(available_timezones())


async def create_schedule(db: Database, scope: Scope, job_run_id: str, timing: Timing) -> ScheduleRow:
    """Create a schedule for the request of a job run.

    Raises INGEST_JOB_RUN_NOT_FOUND, and INVALID_REQUEST for a request with content, such as a file.
    """
    repeated = await queries_schedules.get_repeated_request(db, scope, job_run_id)
    if repeated is None:
        raise runs.not_found()
    if repeated.source not in DOCUMENT_TYPES:
        message = f"A job run of the source {repeated.source} cannot be repeated: its content came with the request."
        raise ServiceError(ErrorCode.INVALID_REQUEST, message, field="ingestJobRunId", reason="not_repeatable")
    job = JobConfig.load(repeated.config)
    request = job.request
    if request:
        request = {key: value for key, value in request.items() if key != FULL_LISTING}
    job = replace(job, request=request, scheduled=True, accepted_at=job.accepted_at or repeated.created_at)
    schedule_id = ids.schedule_id()
    values: Params = {
        "id": schedule_id,
        "partition_id": repeated.partition_id,
        "job_id": ids.job_id(),
        "source": repeated.source,
        "config": job.dump(),
        "urls": repeated.urls or None,
        "minutes": timing.minutes,
        "cron": timing.cron,
        "time_zone": timing.time_zone,
    }
    await queries_schedules.insert_schedule(db, values)
    return await get_schedule(db, scope, schedule_id)


async def list_page(
    db: Database, organization: str, tenant: str, namespace: str | None, page: PageRequest | None
) -> Page[ScheduleRow]:
    """List a page of schedules, newest first, of one namespace or all."""
    rows = await queries_schedules.list_rows(db, organization, tenant, namespace, page)
    return pagination.cut_page(rows, page)


async def get_schedule(db: Database, scope: Scope, schedule_id: str) -> ScheduleRow:
    """Return a schedule of the scope; raise NOT_FOUND."""
    row = await queries_schedules.get_row(db, scope, schedule_id)
    if row is None:
        raise ServiceError(ErrorCode.NOT_FOUND, "There is no such schedule.", field="scheduleId")
    return row


async def change_schedule(
    db: Database, scope: Scope, schedule_id: str, timing: Timing | None, time_zone: str | None, *, paused: bool | None
) -> ScheduleRow:
    """Change interval or cron expression, time zone, or pause; None keeps a value."""
    values: Params = {
        "id": schedule_id,
        "changes_timing": timing is not None,
        "minutes": None if timing is None else timing.minutes,
        "cron": None if timing is None else timing.cron,
        "time_zone": time_zone,
        "paused": paused,
    }
    await queries_schedules.update_schedule(db, scope, values)
    return await get_schedule(db, scope, schedule_id)


async def delete_schedule(db: Database, scope: Scope, schedule_id: str) -> ScheduleRow:
    """Delete a schedule; documents and job runs stay."""
    row = await get_schedule(db, scope, schedule_id)
    await queries_schedules.delete_schedule(db, scope, schedule_id)
    return row


BUSY_REASON = "A job run of this schedule is under way."
NOT_ACTIVE_REASON = "The connection is not ACTIVE."
# Prefix of the `statusReason` of an ACTIVE connection after a refused scheduled ingestion.
REFUSED_PREFIX = "Its schedule was refused: "


def repeat_ingestion(db: Database, schedule_id: str) -> ScheduledRun:
    """Record the job run of a due time, or the reason why there is none."""
    # No run starts while another is unfinished, or beyond a quota. The connection shows the refusal until the next run.
    schedule = None
    try:
        with db.transaction() as connection:
            schedule = queries_schedules.get_schedule_to_run(connection, schedule_id)
            if schedule is None:
                return ScheduledRun(None, "The schedule was deleted.")
            scheduled_run = _record_within_quotas(connection, schedule)
            reason = scheduled_run.reason or None
            queries_schedules.record_reason(connection, schedule_id, reason, refused=scheduled_run.refused)
    except ServiceError as error:
        scheduled_run = ScheduledRun(None, REFUSED_PREFIX + error.message, refused=True)
        queries_schedules.record_reason(db, schedule_id, scheduled_run.reason, refused=True)
        if schedule is not None and schedule.connection_id is not None:
            queries.explain_connection(db, schedule.connection_id, scheduled_run.reason)
    if scheduled_run.job_run_id is not None:
        db.execute("notify " + JOB_RUNS_CHANNEL)
    return scheduled_run


def _record_within_quotas(connection: ThreadConnection, schedule: ScheduleToRun) -> ScheduledRun:
    """Insert the job run, and raise QUOTA_EXCEEDED if usage is then above a quota."""
    usage_before = None
    if schedule.counted:
        usage_before = quotas.lock_usage(connection, schedule.organization_id, schedule.tenant)
    if schedule.connection_id is None:
        scheduled_run = _record_run(connection, schedule)
    else:
        scheduled_run = _record_run_of_connection(connection, schedule)
    if usage_before is not None and scheduled_run.job_run_id is not None:
        usage = quotas.read_usage(connection, schedule.organization_id, schedule.tenant)
        quotas.check_usage(usage_before, usage)
    return scheduled_run


def _record_run(connection: ThreadConnection, schedule: ScheduleToRun) -> ScheduledRun:
    """Insert a job run of the schedule's own job."""
    if queries_schedules.lock_and_check_busy(connection, schedule.id):
        return ScheduledRun(None, BUSY_REASON)
    run_id = ids.job_run_id()
    values: Params = {
        **partitions.scope_params(schedule.scope),
        "job": schedule.job_id,
        "run": run_id,
        "source": schedule.source,
        "config": json.dumps(schedule.config),
        **origin.origin_params(),
    }
    if schedule.urls is None:
        connection.execute(acceptance.DISCOVERY_STATEMENT, values)
        return ScheduledRun(run_id)
    urls = queries_schedules.list_undeleted(connection, schedule.scope, schedule.urls)
    if not urls:
        return ScheduledRun(None, "All pages of this list were deleted.", refused=True)
    values |= {
        "document_type": DOCUMENT_TYPES[schedule.source],
        "metadata": None,
        "access": principals.stored_access(None),
        "documents": [ids.document_id() for _ in urls],
        "urls": urls,
    }
    connection.execute(acceptance.URLS_STATEMENT, values)
    return ScheduledRun(run_id)


def _record_run_of_connection(connection: ThreadConnection, schedule: ScheduleToRun) -> ScheduledRun:
    """Insert a job run of the schedule's connection."""
    if schedule.connection_status != ConnectionStatus.ACTIVE:
        return ScheduledRun(None, NOT_ACTIVE_REASON, refused=True)
    values: Params = {
        "connection": schedule.connection_id,
        "job": ids.job_id(),
        "run": ids.job_run_id(),
        "config": json.dumps(schedule.config),
        "trigger": None,
    }
    run_id = queries_schedules.insert_scheduled_run(connection, values)
    if run_id is None:
        return ScheduledRun(None, "A job run of this connection is under way.")
    queries_schedules.adopt_job(connection, schedule.id, run_id)
    queries.withdraw_reason(connection, values["connection"], REFUSED_PREFIX)
    return ScheduledRun(run_id)
