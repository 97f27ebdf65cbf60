"""Connections that are ingested again and again: which, how often, and the next job run of one."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

from psycopg import Connection

from retrieval import ids, job_config
from retrieval.accounts import quotas
from retrieval.database import sync_async
from retrieval.database.database import Database, Row
from retrieval.errors import ServiceError
from retrieval.job_config import JobConfig
from retrieval.jobs.runs import CHANNEL
from retrieval.sources import APPS


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """Result of a scheduled ingestion: the id of its job run, or the reason why there is none."""

    job_run_id: str | None
    reason: str = ""


def wanted(db: Database) -> dict[str, int]:
    """Connection id to minutes, of those that are ACTIVE and whose namespace has their app."""
    rows = db.rows(
        "select c.id, c.sync_minutes from connections c join partitions p on p.id = c.partition_id"
        " join namespaces n on n.id = p.namespace_id and n.deleted_at is null"
        " where c.sync_minutes is not null and c.status = 'ACTIVE' and c.connector = any(%(connectors)s)",
        {"connectors": list(APPS)},
    )
    return {row["id"]: row["sync_minutes"] for row in rows}


_FIRST = datetime(2024, 1, 1, tzinfo=UTC)


def anchor(connection_id: str, minutes: int) -> datetime:
    """Return a past due time of the schedule; all due times are whole intervals away from it.

    It is derived from the id, so that the next due time needs no scheduler, and the schedules of many connections are
    spread over the interval.
    """
    return _FIRST + timedelta(seconds=zlib.crc32(connection_id.encode()) % (minutes * 60))


def next_run(connection_id: str, minutes: int, now: datetime | None = None) -> datetime:
    """When the schedule is due next."""
    start, interval = anchor(connection_id, minutes), timedelta(minutes=minutes)
    return start + (((now or datetime.now(UTC)) - start) // interval + 1) * interval


_NEXT: LiteralString = f"""
    with connection as (
        select c.id, c.partition_id, c.connector, n.organization_id from connections c
        join partitions p on p.id = c.partition_id join namespaces n on n.id = p.namespace_id and n.deleted_at is null
        where c.id = %(connection)s and c.status = 'ACTIVE' for update of c
    ),
    newest as (
        select j.* from jobs j, connection c
        where j.partition_id = c.partition_id and j.source = c.connector and {job_config.connection_of()} = c.id
          and not {job_config.PICKS}
        order by j.created_at desc limit 1
    ),
    free as (
        select c.* from connection c where not exists (
            select from job_runs r join jobs j on j.id = r.job_id
            where r.partition_id = c.partition_id and r.source = c.connector and r.finished_at is null
              and {job_config.connection_of()} = c.id
        )
    ),
    made as (
        insert into jobs (id, organization_id, partition_id, source, config)
        select %(job)s, f.organization_id, f.partition_id, f.connector,
               coalesce((select {job_config.REPEATED} from newest j), %(config)s::jsonb)
        from free f where not exists (select from newest j where {job_config.IS_SCHEDULED})
        returning id
    )
    insert into job_runs (id, job_id, partition_id, source, to_discover)
    select %(run)s, coalesce((select id from made), (select id from newest)), f.partition_id, f.connector, true
    from free f returning id
"""
"""One job for a schedule, made with the options of the newest request of the application, or of a user where the
application made none; one run an execution."""


REFUSED = "Its schedule was refused: "
"""How the `statusReason` of an ACTIVE connection begins whose last scheduled ingestion exceeded a quota."""
_SCOPE: LiteralString = """
    select n.organization_id, p.tenant, o.counted from connections c join partitions p on p.id = c.partition_id
    join namespaces n on n.id = p.namespace_id join organizations o on o.id = n.organization_id
    where c.id = %(connection)s
"""
_TELL: LiteralString = """
    update connections set status_reason = %(reason)s, updated_at = now()
    where id = %(connection)s and status = 'ACTIVE' and status_reason is distinct from %(reason)s
"""
_TAKEN: LiteralString = """
    update connections set status_reason = null, updated_at = now()
    where id = %(connection)s and status = 'ACTIVE' and starts_with(status_reason, %(refused)s)
"""


def ingest(db: Database, connection_id: str) -> ScheduledRun:
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
            row = _within_quotas(connection, values)
    except ServiceError as error:
        reason = REFUSED + error.message
        db.rows(_TELL, {**values, "reason": reason})
        return ScheduledRun(None, reason)
    if row is None:
        active = db.row("select 1 from connections where id = %(connection)s and status = 'ACTIVE'", values)
        return ScheduledRun(
            None, "A job run of this connection is under way." if active else "The connection is not ACTIVE."
        )
    db.rows("notify " + CHANNEL)
    return ScheduledRun(row["id"])


def _within_quotas(connection: Connection[Row], values: dict[str, Any]) -> Row | None:
    """The job run, None if there is to be none; QUOTA_EXCEEDED, and then the transaction is undone."""
    scope = connection.execute(_SCOPE, values).fetchone()
    if scope is None or not scope["counted"]:
        row = connection.execute(_NEXT, values).fetchone()
    else:
        of = (scope["organization_id"], scope["tenant"])
        usage = sync_async.run(connection, quotas.read(*of, lock=True))
        row = connection.execute(_NEXT, values).fetchone()
        if row is not None:
            quotas.check(usage, sync_async.run(connection, quotas.read(*of)))
    if row is not None:
        connection.execute(_TAKEN, {**values, "refused": REFUSED})
    return row
