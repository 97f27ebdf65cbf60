"""Statements on schedules of repeated ingestion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from sqlalchemy import (
    Boolean,
    Text,
    bindparam,
    case,
    delete,
    exists,
    false,
    func,
    insert,
    not_,
    or_,
    outerjoin,
    select,
    update,
)

from retrieval import job_config
from retrieval.database import pagination, partitions, schema
from retrieval.database.compiling import columns_of, compile_statement, equals, in_live_namespace, in_scope, parameters
from retrieval.database.database import Database
from retrieval.database.pagination import PageRequest
from retrieval.database.rows import AsyncExecutor, Executor, Params
from retrieval.jobs import run_health
from retrieval.jobs.queries import progress
from retrieval.jobs.run_health import Health
from retrieval.ports import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """Schedule with the newest job run."""

    id: str
    namespace_id: str
    tenant: str
    source: str
    connection_id: str | None
    # Start address, first URL of a list, or name of the connection.
    subject: str | None
    minutes: int | None
    cron: str | None
    time_zone: str
    paused: bool
    # Not paused, and its connection is ACTIVE.
    is_active: bool
    # Why no job run started at the last due time; None after a start.
    reason: str | None
    run_id: str | None
    run_status: str | None
    run_outcome: str | None
    run_at: datetime | None
    # Number of due times after the newest job run at which no run could start.
    refusals: int
    refused_since: datetime | None
    run_health: dict[str, Any]
    created_at: datetime
    updated_at: datetime

    @property
    def health(self) -> Health:
        """Return the health of job runs, and of due times without a started run."""
        health = Health.load(self.run_health).with_refusals(self.refusals, self.refused_since, self.reason)
        if not self.paused and not self.is_active:
            return replace(health, reason="The connection is not ACTIVE.")
        return health


_SCHEDULES_JOIN: LiteralString = (
    " schedules s join partitions p on p.id = s.partition_id and p.tenant = %(tenant)s"
    " and (%(namespace)s::text is null or p.namespace_id = %(namespace)s)"
    " join namespaces n on n.id = p.namespace_id and n.deleted_at is null and n.organization_id = %(organization)s "
)
# Selects `ScheduleRow`; further conditions are appended.
_SELECT_SCHEDULES: LiteralString = (
    "select s.id, p.namespace_id, p.tenant, s.source, " + job_config.connection_id_sql("s") + " as connection_id,"
    " coalesce(s.config -> 'request' ->> 'url', s.urls[1], c.name) as subject, s.minutes, s.cron, s.time_zone,"
    " s.paused, not s.paused and coalesce(c.status, 'ACTIVE') = 'ACTIVE' as is_active, s.reason,"
    " newest.run_id, newest.run_status, newest.run_outcome, newest.run_at, s.created_at, s.updated_at, s.refusals,"
    " s.refused_since, "
    + run_health.select_health("r.job_id = s.job_id")
    + " as run_health from"
    + _SCHEDULES_JOIN
    + "left join connections c on c.id = "
    + job_config.connection_id_sql("s")
    + " left join lateral (select r.id as run_id, r.status as run_status, r.created_at as run_at, "
    + progress.OUTCOME_EXPRESSION
    + " as run_outcome from (select * from job_runs where job_id = s.job_id order by number desc limit 1) r"
    + progress.COUNTED_DOCUMENTS
    + ") newest on true where true"
)


class RepeatedRequest(NamedTuple):
    """Request of a job run, to be repeated by a schedule."""

    partition_id: int
    source: str
    config: dict[str, Any]
    created_at: datetime
    # Empty for sources other than URL lists.
    urls: list[str]


@dataclass(frozen=True, slots=True)
class ScheduleTiming:
    """Timing of a schedule as stored."""

    id: str
    minutes: int | None
    cron: str | None
    time_zone: str
    paused: bool
    # `paused` was not yet forwarded to Prefect.
    pause_pending: bool


@dataclass(frozen=True, slots=True)
class ScheduleToRun:
    """Due schedule with scope and connection."""

    id: str
    job_id: str
    source: str
    config: dict[str, Any]
    urls: list[str] | None
    connection_id: str | None
    connection_status: str | None
    organization_id: str
    namespace_id: str
    tenant: str
    # Whether usage of the organization is counted, for quotas.
    counted: bool

    @property
    def scope(self) -> Scope:
        return Scope(self.organization_id, self.namespace_id, self.tenant)


_schedule: Any = schema.Schedule
_connection: Any = schema.Connection
_partition: Any = schema.Partition
_namespace: Any = schema.Namespace
_organization: Any = schema.Organization
_run: Any = schema.JobRun
_is_schedule = equals(_schedule.id)
_is_of_connection = _connection.id == _schedule.config["connectionId"].astext
_INSERT_SCHEDULE = compile_statement(
    insert(_schedule).values(
        **parameters("id", "partition_id", "job_id", "source", "config", "urls", "minutes", "cron", "time_zone")
    )
)
_changes_timing = bindparam("changes_timing", type_=Boolean)
_paused = bindparam("paused", type_=Boolean)
_UPDATE_SCHEDULE = compile_statement(
    update(_schedule)
    .where(_is_schedule, in_scope(_schedule.partition_id, any_namespace=True))
    .values(
        minutes=case((_changes_timing, bindparam("minutes")), else_=_schedule.minutes),
        cron=case((_changes_timing, bindparam("cron")), else_=_schedule.cron),
        time_zone=func.coalesce(bindparam("time_zone"), _schedule.time_zone),
        pause_pending=or_(_schedule.pause_pending, _paused.is_not(None)),
        paused=func.coalesce(_paused, _schedule.paused),
        updated_at=func.now(),
    )
    .returning(_schedule.id)
)
_DELETE_SCHEDULE = compile_statement(
    delete(_schedule).where(_is_schedule, in_scope(_schedule.partition_id, any_namespace=True)).returning(_schedule.id)
)
_LIST_ACTIVE = compile_statement(
    select(*columns_of(_schedule, ScheduleTiming))
    .select_from(outerjoin(_schedule, _connection, _is_of_connection))
    .where(in_live_namespace(_schedule.partition_id), func.coalesce(_connection.status, "ACTIVE") == "ACTIVE")
)
# No effect on a pending request for the other state.
_SETTLE_PAUSE = compile_statement(
    update(_schedule)
    .where(_is_schedule, or_(not_(_schedule.pause_pending), _schedule.paused == _paused))
    .values(paused=_paused, pause_pending=false())
)
_GET_SCHEDULE_TO_RUN = compile_statement(
    select(
        *columns_of(
            _schedule,
            ScheduleToRun,
            connection_id=_connection.id,
            connection_status=_connection.status,
            organization_id=_namespace.organization_id,
            namespace_id=_partition.namespace_id,
            tenant=_partition.tenant,
            counted=_organization.counted,
        )
    )
    .select_from(outerjoin(_schedule, _connection, _is_of_connection))
    .where(_is_schedule, in_live_namespace(_schedule.partition_id), _organization.id == _namespace.organization_id)
)
_LOCK_SCHEDULE = compile_statement(select(_schedule.job_id).where(_is_schedule).with_for_update())
_HAS_OPEN_RUN = compile_statement(
    select(exists(select(_run.id).where(equals(_run.job_id), _run.finished_at.is_(None))))
)
_reason = bindparam("reason", type_=Text)
_refused = bindparam("refused", type_=Boolean)
# A refusal is counted each time; another reason is stored if it is new. A null reason means that a job run has started,
# which ends the count.
_RECORD_REASON = compile_statement(
    update(_schedule)
    .where(_is_schedule, or_(_refused, _schedule.reason.is_distinct_from(_reason)))
    .values(
        reason=_reason,
        refusals=case((_refused, _schedule.refusals + 1), (_reason.is_(None), 0), else_=_schedule.refusals),
        refused_since=case(
            (_refused, func.coalesce(_schedule.refused_since, func.now())),
            (_reason.is_not(None), _schedule.refused_since),
        ),
    )
)
_ADOPT_JOB = compile_statement(update(_schedule).where(_is_schedule, equals(_run.id, "run")).values(job_id=_run.job_id))
_start_address = func.coalesce(_schedule.config["request"]["url"].astext, _schedule.urls[1])
_READ_NAME = compile_statement(
    select(func.coalesce(_connection.name, func.split_part(_start_address, "?", 1)))
    .select_from(outerjoin(_schedule, _connection, _is_of_connection))
    .where(_is_schedule)
)


async def get_repeated_request(db: AsyncExecutor, scope: Scope, job_run_id: str) -> RepeatedRequest | None:
    """Return the request of a job run; None if the run is not in the scope."""
    return await db.async_fetch_one(
        RepeatedRequest,
        f"select r.partition_id, r.source, {job_config.STORED_CONFIG} as config, j.created_at, coalesce((select"
        " array_agg(d.external_id order by m.position) from run_documents m join documents d on d.id = m.document_id"
        " where m.job_run_id = r.id and r.source = 'URLS_LIST'), '{}') as urls"
        " from job_runs r join jobs j on j.id = r.job_id"
        " join partitions p on p.id = r.partition_id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s"
        " join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null"
        " where r.id = %(run)s",
        {**partitions.scope_params(scope), "run": job_run_id},
    )


async def insert_schedule(db: AsyncExecutor, values: Params) -> None:
    await db.async_execute(_INSERT_SCHEDULE, values)


async def set_interval(db: AsyncExecutor, values: Params) -> None:
    """Set the interval of a connection's schedule, or delete the schedule for null; cron schedules stay.

    The schedule is created if missing; further schedules with intervals are deleted.
    """
    await db.async_execute(
        f"""
        with intervals as (
            select s.id, row_number() over (order by s.created_at, s.id) as number from schedules s
            join connections c on c.partition_id = s.partition_id and c.id = {job_config.connection_id_sql("s")}
            where c.id = %(connection)s and s.minutes is not null
        ),
        removed as (
            delete from schedules s using intervals i where s.id = i.id and (i.number > 1 or %(minutes)s::int is null)
        ),
        changed as (
            update schedules s set minutes = %(minutes)s, updated_at = now() from intervals i
            where s.id = i.id and i.number = 1 and %(minutes)s::int is not null
        )
        insert into schedules (id, partition_id, job_id, source, config, minutes)
        select %(id)s, c.partition_id, %(job)s, c.connector, %(config)s::jsonb, %(minutes)s from connections c
        where c.id = %(connection)s and %(minutes)s::int is not null and not exists (select from intervals)
        """,
        values,
    )


async def list_rows(
    db: AsyncExecutor, organization: str, tenant: str, namespace: str | None, page: PageRequest | None
) -> list[ScheduleRow]:
    """List schedules, newest first, with one more than the page."""
    return await db.async_fetch(
        ScheduleRow,
        _SELECT_SCHEDULES + pagination.order_desc("s"),
        {"organization": organization, "tenant": tenant, "namespace": namespace, **pagination.page_params(page)},
    )


async def get_row(db: AsyncExecutor, scope: Scope, schedule_id: str) -> ScheduleRow | None:
    return await db.async_fetch_one(
        ScheduleRow, _SELECT_SCHEDULES + " and s.id = %(id)s", {**partitions.scope_params(scope), "id": schedule_id}
    )


async def update_schedule(db: AsyncExecutor, scope: Scope, values: Params) -> str | None:
    """Change a schedule and return the id, None if missing; the dispatcher forwards a pause to Prefect."""
    return await db.async_fetch_one(str, _UPDATE_SCHEDULE, {**partitions.scope_params(scope), **values})


async def delete_schedule(db: AsyncExecutor, scope: Scope, schedule_id: str) -> str | None:
    values = {**partitions.scope_params(scope), "id": schedule_id}
    return await db.async_fetch_one(str, _DELETE_SCHEDULE, values)


def list_active(db: Database) -> list[ScheduleTiming]:
    """List the schedules, except of inactive connections."""
    return db.fetch(ScheduleTiming, _LIST_ACTIVE, {})


def settle_pause(db: Executor, schedule_id: str, *, paused: bool) -> None:
    """Record Prefect's pause state; a newer request stays pending."""
    db.execute(_SETTLE_PAUSE, {"id": schedule_id, "paused": paused})


def get_schedule_to_run(db: Executor, schedule_id: str) -> ScheduleToRun | None:
    return db.fetch_one(ScheduleToRun, _GET_SCHEDULE_TO_RUN, {"id": schedule_id})


def lock_and_check_busy(db: Executor, schedule_id: str) -> bool:
    """Lock a schedule until the end of the transaction; return True if the job has an unfinished run."""
    job_id = db.fetch_one(str, _LOCK_SCHEDULE, {"id": schedule_id})
    return bool(db.fetch_one(bool, _HAS_OPEN_RUN, {"job_id": job_id}))


def record_reason(db: Executor, schedule_id: str, reason: str | None, *, refused: bool = False) -> None:
    """Store the reason of a due time without a job run, None after a start; `refused` counts a failure."""
    db.execute(_RECORD_REASON, {"id": schedule_id, "reason": reason, "refused": refused})


def adopt_job(db: Executor, schedule_id: str, job_run_id: str) -> None:
    """Make the job of a run the schedule's job."""
    # `insert_scheduled_run` may take the job of another request for the connection.
    db.execute(_ADOPT_JOB, {"id": schedule_id, "run": job_run_id})


def list_undeleted(db: Executor, scope: Scope, urls: Sequence[str]) -> list[str]:
    """Return the URLs with undeleted documents, in order."""
    # A schedule must not restore deleted pages.
    return db.fetch(
        str,
        "select listed.url from unnest(%(urls)s::text[]) with ordinality as listed (url, position)"
        " join partitions p on p.tenant = %(tenant)s and p.namespace_id = %(namespace)s"
        " join documents d on d.partition_id = p.id and d.source = 'URLS_LIST' and d.external_id = listed.url"
        " and d.deleted_at is null order by listed.position",
        {**partitions.scope_params(scope), "urls": list(urls)},
    )


def read_name(db: Database, schedule_id: str) -> str | None:
    """Return the connection name or address of a schedule."""
    return db.fetch_one(str, _READ_NAME, {"id": schedule_id})


def insert_scheduled_run(db: Executor, values: Params) -> str | None:
    """Insert a job run for the connection of a schedule and return the id; None while another run is unfinished."""
    # The run repeats the newest request for the connection: in the same job if that is a schedule's, else in a new job
    # with the same options. Without any request, `config` is used.
    return db.fetch_one(
        str,
        f"""
        with connection as (
            select c.id, c.partition_id, c.connector, n.organization_id from connections c
            join partitions p on p.id = c.partition_id
            join namespaces n on n.id = p.namespace_id and n.deleted_at is null
            where c.id = %(connection)s and c.status = 'ACTIVE' for update of c
        ),
        newest as (
            select j.* from jobs j, connection c
            where j.partition_id = c.partition_id and j.source = c.connector and {job_config.connection_id_sql()} = c.id
              and not {job_config.IS_PICKER_LISTING}
            order by j.created_at desc limit 1
        ),
        idle_connection as (
            select c.* from connection c where not exists (
                select from job_runs r join jobs j on j.id = r.job_id
                where r.partition_id = c.partition_id and r.source = c.connector and r.finished_at is null
                  and {job_config.connection_id_sql()} = c.id
            )
        ),
        new_job as (
            insert into jobs (id, organization_id, partition_id, source, config)
            select %(job)s, c.organization_id, c.partition_id, c.connector,
                   coalesce((select {job_config.REPEATED_CONFIG} from newest j), %(config)s::jsonb)
            from idle_connection c where not exists (select from newest j where {job_config.IS_SCHEDULED})
            returning id
        )
        insert into job_runs (id, job_id, partition_id, source, to_discover, trigger)
        select %(run)s, coalesce((select id from new_job), (select id from newest)), c.partition_id, c.connector, true,
               %(trigger)s
        from idle_connection c returning id
        """,
        values,
    )
