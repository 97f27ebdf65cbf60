"""Statements on schedules of repeated ingestion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from retrieval import job_config
from retrieval.database import pagination, partitions
from retrieval.database.database import Database
from retrieval.database.pagination import PageRequest
from retrieval.database.rows import AsyncExecutor, Executor, Params
from retrieval.jobs import run_health, run_outcome
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
    is_due: bool
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
        if not self.paused and not self.is_due:
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
    " not s.paused and coalesce(c.status, 'ACTIVE') = 'ACTIVE' as is_due, s.reason,"
    " newest.run_id, newest.run_status, newest.run_outcome, newest.run_at, s.created_at, s.updated_at, s.refusals,"
    " s.refused_since, "
    + run_health.select_health("r.job_id = s.job_id")
    + " as run_health from"
    + _SCHEDULES_JOIN
    + "left join connections c on c.id = "
    + job_config.connection_id_sql("s")
    + " left join lateral (select r.id as run_id, r.status as run_status, r.created_at as run_at, "
    + run_outcome.OUTCOME_EXPRESSION
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
    await db.async_execute(
        "insert into schedules (id, partition_id, job_id, source, config, urls, minutes, cron, time_zone)"
        " values (%(id)s, %(partition)s, %(job)s, %(source)s, %(config)s, %(urls)s, %(minutes)s, %(cron)s, %(zone)s)",
        values,
    )


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
    return await db.async_fetch_one(
        str,
        "update schedules u set minutes = case when %(timed)s then %(minutes)s else u.minutes end,"
        " cron = case when %(timed)s then %(cron)s else u.cron end, time_zone = coalesce(%(zone)s, u.time_zone),"
        " pause_pending = u.pause_pending or %(paused)s::bool is not null, paused = coalesce(%(paused)s, u.paused),"
        " updated_at = now() where u.id in (select s.id from" + _SCHEDULES_JOIN + "where s.id = %(id)s) returning u.id",
        {**partitions.scope_params(scope), **values},
    )


async def delete_schedule(db: AsyncExecutor, scope: Scope, schedule_id: str) -> str | None:
    return await db.async_fetch_one(
        str,
        "delete from schedules where id in (select s.id from" + _SCHEDULES_JOIN + "where s.id = %(id)s) returning id",
        {**partitions.scope_params(scope), "id": schedule_id},
    )


@dataclass(frozen=True, slots=True)
class ScheduleTiming:
    """Timing of a schedule, for Prefect."""

    id: str
    minutes: int | None
    cron: str | None
    time_zone: str
    paused: bool
    pause_pending: bool


def list_due(db: Database) -> list[ScheduleTiming]:
    return db.fetch(
        ScheduleTiming,
        "select s.id, s.minutes, s.cron, s.time_zone, s.paused, s.pause_pending from schedules s"
        " join partitions p on p.id = s.partition_id"
        " join namespaces n on n.id = p.namespace_id and n.deleted_at is null"
        " left join connections c on c.id = "
        + job_config.connection_id_sql("s")
        + " where coalesce(c.status, 'ACTIVE') = 'ACTIVE'",
    )


def settle_pause(db: Executor, schedule_id: str, *, paused: bool) -> None:
    """Record Prefect's pause state; a newer request stays pending."""
    db.execute(
        "update schedules set paused = %(paused)s, pause_pending = false"
        " where id = %(id)s and (not pause_pending or paused = %(paused)s)",
        {"id": schedule_id, "paused": paused},
    )


@dataclass(frozen=True, slots=True)
class DueSchedule:
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


def get_due(db: Executor, schedule_id: str) -> DueSchedule | None:
    return db.fetch_one(
        DueSchedule,
        "select s.id, s.job_id, s.source, s.config, s.urls, c.id as connection_id, c.status as connection_status,"
        " n.organization_id, p.namespace_id, p.tenant, o.counted from schedules s"
        " join partitions p on p.id = s.partition_id"
        " join namespaces n on n.id = p.namespace_id and n.deleted_at is null"
        " join organizations o on o.id = n.organization_id left join connections c on c.id = "
        + job_config.connection_id_sql("s")
        + " where s.id = %(id)s",
        {"id": schedule_id},
    )


def lock_schedule(db: Executor, schedule_id: str) -> bool:
    """Lock a schedule until the transaction ends; return whether a run of its job is unfinished."""
    db.execute("select from schedules where id = %(id)s for update", {"id": schedule_id})
    unfinished = (
        "select r.id from job_runs r join schedules s on s.job_id = r.job_id"
        " where s.id = %(id)s and r.finished_at is null limit 1"
    )
    return db.fetch_one(str, unfinished, {"id": schedule_id}) is not None


def explain_schedule(db: Executor, schedule_id: str, reason: str | None, *, refused: bool = False) -> None:
    """Store the reason of a due time without a job run; `refused` counts a failure."""
    db.execute(
        "update schedules set reason = %(reason)s,"
        " refusals = case when %(refused)s then refusals + 1 when %(reason)s::text is null then 0 else refusals end,"
        " refused_since = case when %(refused)s then coalesce(refused_since, now())"
        " when %(reason)s::text is not null then refused_since end"
        " where id = %(id)s and (%(refused)s or reason is distinct from %(reason)s)",
        {"id": schedule_id, "reason": reason, "refused": refused},
    )


def take_job(db: Executor, schedule_id: str, job_run_id: str) -> None:
    """Set the schedule's job to that of its newest run."""
    # Runs of a connection have a separate job.
    db.execute(
        "update schedules s set job_id = r.job_id from job_runs r where s.id = %(id)s and r.id = %(run)s",
        {"id": schedule_id, "run": job_run_id},
    )


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


_NAME_QUERY: LiteralString = (
    "select coalesce(c.name, split_part(coalesce(s.config -> 'request' ->> 'url', s.urls[1]), '?', 1)) as name"
    " from schedules s left join connections c on c.id = " + job_config.connection_id_sql("s") + " where s.id = %(id)s"
)


def read_name(db: Database, schedule_id: str) -> str | None:
    """Return the connection name or address of a schedule."""
    return db.fetch_one(str, _NAME_QUERY, {"id": schedule_id})
