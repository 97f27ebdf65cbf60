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
    """Schedule with its newest job run. `about`: start address, first page or connection."""

    id: str
    namespace_id: str
    tenant: str
    source: str
    connection_id: str | None
    about: str | None
    minutes: int | None
    cron: str | None
    time_zone: str
    paused: bool
    is_active: bool
    reason: str | None
    run_id: str | None
    run_status: str | None
    run_outcome: str | None
    run_at: datetime | None
    refusals: int
    refused_since: datetime | None
    run_health: dict[str, Any]
    created_at: datetime
    updated_at: datetime

    @property
    def health(self) -> Health:
        """Return the health of its job runs and of due times without a run."""
        health = Health.load(self.run_health).with_refusals(self.refusals, self.refused_since, self.reason)
        if not self.paused and not self.is_active:
            return replace(health, reason="The connection is not ACTIVE.")
        return health


_SCHEDULES_JOIN: LiteralString = (
    " schedules s join partitions p on p.id = s.partition_id and p.tenant = %(tenant)s"
    " and (%(namespace)s::text is null or p.namespace_id = %(namespace)s)"
    " join namespaces n on n.id = p.namespace_id and n.deleted_at is null and n.organization_id = %(organization)s "
)
_SELECT_SCHEDULES: LiteralString = (
    "select s.id, p.namespace_id, p.tenant, s.source, " + job_config.connection_id_sql("s") + " as connection_id,"
    " coalesce(s.config -> 'request' ->> 'url', s.urls[1], c.name) as about, s.minutes, s.cron, s.time_zone, s.paused,"
    " not s.paused and coalesce(c.status, 'ACTIVE') = 'ACTIVE' as is_active, s.reason,"
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
    """Request of a job run. `urls`: the pages of a URL list."""

    partition_id: int
    source: str
    config: dict[str, Any]
    created_at: datetime
    urls: list[str]


@dataclass(frozen=True, slots=True)
class ScheduleTiming:
    """Timing of a schedule, for Prefect."""

    id: str
    minutes: int | None
    cron: str | None
    time_zone: str
    paused: bool
    pause_pending: bool


@dataclass(frozen=True, slots=True)
class ScheduleToRun:
    """Due schedule with its scope. `counted`: the organization has, or had, quotas."""

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
    counted: bool

    @property
    def scope(self) -> Scope:
        return Scope(self.organization_id, self.namespace_id, self.tenant)


_table: Any = schema.Schedule
_connection: Any = schema.Connection
_partition: Any = schema.Partition
_namespace: Any = schema.Namespace
_organization: Any = schema.Organization
_run: Any = schema.JobRun
_is_schedule = equals(_table.id)
_is_of_connection = _connection.id == _table.config["connectionId"].astext
_INSERT_SCHEDULE = compile_statement(
    insert(_table).values(
        **parameters("id", "partition_id", "job_id", "source", "config", "urls", "minutes", "cron", "time_zone")
    )
)
_timed = bindparam("timed", type_=Boolean)
_paused = bindparam("paused", type_=Boolean)
_UPDATE_SCHEDULE = compile_statement(
    update(_table)
    .where(_is_schedule, in_scope(_table.partition_id, any_namespace=True))
    .values(
        minutes=case((_timed, bindparam("minutes")), else_=_table.minutes),
        cron=case((_timed, bindparam("cron")), else_=_table.cron),
        time_zone=func.coalesce(bindparam("time_zone"), _table.time_zone),
        pause_pending=or_(_table.pause_pending, _paused.is_not(None)),
        paused=func.coalesce(_paused, _table.paused),
        updated_at=func.now(),
    )
    .returning(_table.id)
)
_DELETE_SCHEDULE = compile_statement(
    delete(_table).where(_is_schedule, in_scope(_table.partition_id, any_namespace=True)).returning(_table.id)
)
_LIST_ACTIVE = compile_statement(
    select(*columns_of(_table, ScheduleTiming))
    .select_from(outerjoin(_table, _connection, _is_of_connection))
    .where(in_live_namespace(_table.partition_id), func.coalesce(_connection.status, "ACTIVE") == "ACTIVE")
)
_SETTLE_PAUSE = compile_statement(
    update(_table)
    .where(_is_schedule, or_(not_(_table.pause_pending), _table.paused == _paused))
    .values(paused=_paused, pause_pending=false())
)
_GET_SCHEDULE_TO_RUN = compile_statement(
    select(
        *columns_of(
            _table,
            ScheduleToRun,
            connection_id=_connection.id,
            connection_status=_connection.status,
            organization_id=_namespace.organization_id,
            namespace_id=_partition.namespace_id,
            tenant=_partition.tenant,
            counted=_organization.counted,
        )
    )
    .select_from(outerjoin(_table, _connection, _is_of_connection))
    .where(_is_schedule, in_live_namespace(_table.partition_id), _organization.id == _namespace.organization_id)
)
_LOCK_SCHEDULE = compile_statement(select(_table.job_id).where(_is_schedule).with_for_update())
_HAS_OPEN_RUN = compile_statement(
    select(exists(select(_run.id).where(equals(_run.job_id), _run.finished_at.is_(None))))
)
_reason = bindparam("reason", type_=Text)
_refused = bindparam("refused", type_=Boolean)
_EXPLAIN_SCHEDULE = compile_statement(
    update(_table)
    .where(_is_schedule, or_(_refused, _table.reason.is_distinct_from(_reason)))
    .values(
        reason=_reason,
        refusals=case((_refused, _table.refusals + 1), (_reason.is_(None), 0), else_=_table.refusals),
        refused_since=case(
            (_refused, func.coalesce(_table.refused_since, func.now())), (_reason.is_not(None), _table.refused_since)
        ),
    )
)
_TAKE_JOB = compile_statement(update(_table).where(_is_schedule, equals(_run.id, "run")).values(job_id=_run.job_id))
_address = func.coalesce(_table.config["request"]["url"].astext, _table.urls[1])
_READ_NAME = compile_statement(
    select(func.coalesce(_connection.name, func.split_part(_address, "?", 1)))
    .select_from(outerjoin(_table, _connection, _is_of_connection))
    .where(_is_schedule)
)


async def get_repeated_request(db: AsyncExecutor, scope: Scope, job_run_id: str) -> RepeatedRequest | None:
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
    """Give a connection one schedule with an interval, none for null; cron schedules stay."""
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
    db: AsyncExecutor, organization: str, tenant: str, namespace: str | None, part: PageRequest | None
) -> list[ScheduleRow]:
    return await db.async_fetch(
        ScheduleRow,
        _SELECT_SCHEDULES + pagination.order_desc("s"),
        {"organization": organization, "tenant": tenant, "namespace": namespace, **pagination.page_params(part)},
    )


async def get_row(db: AsyncExecutor, scope: Scope, schedule_id: str) -> ScheduleRow | None:
    return await db.async_fetch_one(
        ScheduleRow, _SELECT_SCHEDULES + " and s.id = %(id)s", {**partitions.scope_params(scope), "id": schedule_id}
    )


async def update_schedule(db: AsyncExecutor, scope: Scope, values: Params) -> str | None:
    """Change a schedule; the dispatcher forwards a pause to Prefect."""
    return await db.async_fetch_one(str, _UPDATE_SCHEDULE, {**partitions.scope_params(scope), **values})


async def delete_schedule(db: AsyncExecutor, scope: Scope, schedule_id: str) -> str | None:
    values = {**partitions.scope_params(scope), "id": schedule_id}
    return await db.async_fetch_one(str, _DELETE_SCHEDULE, values)


def list_active(db: Database) -> list[ScheduleTiming]:
    return db.fetch(ScheduleTiming, _LIST_ACTIVE, {})


def settle_pause(db: Executor, schedule_id: str, *, paused: bool) -> None:
    """Record Prefect's pause state; a newer request stays pending."""
    db.execute(_SETTLE_PAUSE, {"id": schedule_id, "paused": paused})


def get_schedule_to_run(db: Executor, schedule_id: str) -> ScheduleToRun | None:
    return db.fetch_one(ScheduleToRun, _GET_SCHEDULE_TO_RUN, {"id": schedule_id})


def lock_schedule(db: Executor, schedule_id: str) -> bool:
    """Lock a schedule until the transaction ends; return whether a run of its job is unfinished."""
    job_id = db.fetch_one(str, _LOCK_SCHEDULE, {"id": schedule_id})
    return bool(db.fetch_one(bool, _HAS_OPEN_RUN, {"job_id": job_id}))


def explain_schedule(db: Executor, schedule_id: str, reason: str | None, *, refused: bool = False) -> None:
    """Store the reason of a due time without a job run; `refused` counts a failure."""
    db.execute(_EXPLAIN_SCHEDULE, {"id": schedule_id, "reason": reason, "refused": refused})


def take_job(db: Executor, schedule_id: str, job_run_id: str) -> None:
    """Set the schedule's job to that of its newest run."""
    # Runs of a connection have a separate job.
    db.execute(_TAKE_JOB, {"id": schedule_id, "run": job_run_id})


def keep_live(db: Executor, scope: Scope, urls: Sequence[str]) -> list[str]:
    """Return the undeleted pages, in order."""
    # A schedule restores no deleted page.
    return db.fetch(
        str,
        "select w.url from unnest(%(urls)s::text[]) with ordinality as w (url, position)"
        " join partitions p on p.tenant = %(tenant)s and p.namespace_id = %(namespace)s"
        " join documents d on d.partition_id = p.id and d.source = 'URLS_LIST' and d.external_id = w.url"
        " and d.deleted_at is null order by w.position",
        {**partitions.scope_params(scope), "urls": list(urls)},
    )


def read_name(db: Database, schedule_id: str) -> str | None:
    """Return the connection name or address of a schedule."""
    return db.fetch_one(str, _READ_NAME, {"id": schedule_id})


def insert_scheduled_run(db: Executor, values: Params) -> str | None:
    """Insert the next job run of a schedule and return its id; None while another run is unfinished."""
    # One job per schedule, with the options of the newest request of the application, else of a user.
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
        free as (
            select c.* from connection c where not exists (
                select from job_runs r join jobs j on j.id = r.job_id
                where r.partition_id = c.partition_id and r.source = c.connector and r.finished_at is null
                  and {job_config.connection_id_sql()} = c.id
            )
        ),
        made as (
            insert into jobs (id, organization_id, partition_id, source, config)
            select %(job)s, f.organization_id, f.partition_id, f.connector,
                   coalesce((select {job_config.REPEATED_CONFIG} from newest j), %(config)s::jsonb)
            from free f where not exists (select from newest j where {job_config.IS_SCHEDULED})
            returning id
        )
        insert into job_runs (id, job_id, partition_id, source, to_discover, trigger)
        select %(run)s, coalesce((select id from made), (select id from newest)), f.partition_id, f.connector, true,
               %(trigger)s
        from free f returning id
        """,
        values,
    )
