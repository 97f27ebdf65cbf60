"""Queue and current work of an organization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, LiteralString

from retrieval.database.blocked_runs import NOT_BLOCKED
from retrieval.database.database import Database
from retrieval.jobs.notifications import LISTENER_NAME
from retrieval.readiness import dispatch
from retrieval.readiness.dispatch import DispatchState

# Rows per list, oldest first.
MAX_QUEUE_ROWS: Final = 50


@dataclass(frozen=True, slots=True)
class OpenBreaker:
    """Vendor or site with an open circuit breaker. `job_runs`: waiting job runs of the organization."""

    name: str
    reason: str
    failures: int
    since: datetime
    until: datetime
    job_runs: int


@dataclass(frozen=True, slots=True)
class WorkingBatch:
    """Job runs of one source and scope in a batch; `job_run_id`: first run.

    The worker counts as alive until `lease_until`; None before the start of the flow run.
    """

    job_run_id: str
    namespace: str
    tenant: str
    source: str
    job_runs: int
    attempt: int
    document: str | None
    created_at: datetime
    started_at: datetime | None
    lease_until: datetime | None


@dataclass(frozen=True, slots=True)
class OrganizationQueue:
    """Queue of an organization; `workers` and `dispatch` of the installation.

    `queued`: job runs waiting for a worker since `oldest`; `held`: for a circuit breaker.
    """

    queued: int
    oldest: datetime | None
    held: int
    workers: int
    breakers: Sequence[OpenBreaker] = ()
    working: Sequence[WorkingBatch] = ()
    dispatch: DispatchState = field(default_factory=lambda: DispatchState(None, (), ()))


_ORGANIZATION_PARTITIONS: LiteralString = """
    with part as materialized (
        select p.id, p.namespace_id, p.tenant from partitions p join namespaces n on n.id = p.namespace_id
        where n.organization_id = %(organization)s and n.deleted_at is null
    ),
"""
_COUNT_QUEUE: LiteralString = (
    _ORGANIZATION_PARTITIONS
    + """
    waits as (
        select r.created_at, """
    + NOT_BLOCKED
    + """ as may_leave from job_runs r join part on part.id = r.partition_id
        where r.finished_at is null and r.status = 'QUEUED'
    )
    select
        (select count(*) from waits where may_leave) as queued,
        (select min(created_at) from waits where may_leave) as oldest,
        (select count(*) from waits where not may_leave) as held,
        (select count(*) from pg_stat_activity
         where datname = current_database() and application_name = %(worker)s) as workers
"""
)
# A job run waiting for two breakers counts for both.
_LIST_BREAKERS: LiteralString = (
    _ORGANIZATION_PARTITIONS
    + """
    waits as materialized (
        select r.waits_for, r.partition_id, r.source = 'REEMBED' as leads_away, count(*) as job_runs
        from job_runs r join part on part.id = r.partition_id
        where r.finished_at is null and r.status = 'QUEUED' group by 1, 2, 3
    )
    select k.name, k.reason, k.failures, k.opened_at as since, k.open_until as until,
           (select coalesce(sum(w.job_runs), 0)::int from waits w
            where w.waits_for = k.key or (w.partition_id = any(k.partitions) and not w.leads_away)) as job_runs
    from breakers k where k.organization_id = %(organization)s and k.open_until > now() and k.opened_at is not null
    order by k.opened_at limit %(max_rows)s
"""
)
_LIST_BATCHES: LiteralString = """
    select runs.first as job_run_id, n.id as namespace, p.tenant, b.source, runs.count as job_runs, b.attempt,
           b.created_at, b.started_at, b.lease_until,
           (select d.name from run_documents d where d.document_id = b.at_work and d.job_run_id = runs.first)
               as document
    from batches b join partitions p on p.id = b.partition_id join namespaces n on n.id = p.namespace_id
    cross join lateral (
        select count(*) as count, (array_agg(r.id order by r.number))[1] as first from job_runs r
        where r.batch_id = b.id and r.finished_at is null
    ) runs
    where n.organization_id = %(organization)s and n.deleted_at is null
      and b.finished_at is null and b.dispatched_at is not null and runs.count > 0
    order by b.created_at limit %(max_rows)s
"""


async def read_queue(db: Database, organization: str) -> OrganizationQueue:
    """Read the current queue of an organization."""
    values: dict[str, Any] = {"organization": organization, "max_rows": MAX_QUEUE_ROWS, "worker": LISTENER_NAME}
    queue = (await db.async_fetch(OrganizationQueue, _COUNT_QUEUE, values))[0]
    return replace(
        queue,
        breakers=await db.async_fetch(OpenBreaker, _LIST_BREAKERS, values),
        working=await db.async_fetch(WorkingBatch, _LIST_BATCHES, values),
        dispatch=await dispatch.async_read_dispatch(db),
    )
