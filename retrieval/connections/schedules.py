"""Connections that are ingested again and again: which, how often, and the next job run of one."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from retrieval import ids
from retrieval.accounts import quotas
from retrieval.connections import queries
from retrieval.database.database import Database
from retrieval.database.rows import Params
from retrieval.database.sessions import ThreadConnection
from retrieval.errors import ServiceError
from retrieval.job_config import JobConfig
from retrieval.jobs.runs import CHANNEL
from retrieval.statuses import ConnectionStatus


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """Result of a scheduled ingestion: the id of its job run, or the reason why there is none."""

    job_run_id: str | None
    reason: str = ""


def wanted_schedules(db: Database) -> dict[str, int]:
    """Connection id to minutes, of those that are ACTIVE and whose namespace has their app."""
    return {schedule.id: schedule.sync_minutes for schedule in queries.list_schedules(db)}


_FIRST = datetime(2024, 1, 1, tzinfo=UTC)


def anchor_time(connection_id: str, minutes: int) -> datetime:
    """Return a past due time of the schedule; all due times are whole intervals away from it.

    It is derived from the id, so that the next due time needs no scheduler, and the schedules of many connections are
    spread over the interval.
    """
    return _FIRST + timedelta(seconds=zlib.crc32(connection_id.encode()) % (minutes * 60))


def next_run(connection_id: str, minutes: int, now: datetime | None = None) -> datetime:
    """When the schedule is due next."""
    start, interval = anchor_time(connection_id, minutes), timedelta(minutes=minutes)
    return start + (((now or datetime.now(UTC)) - start) // interval + 1) * interval


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
