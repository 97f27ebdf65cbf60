"""SQL of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, LiteralString

import sqlalchemy as sa

from retrieval.database.blocked_runs import NOT_BLOCKED
from retrieval.database.compiling import columns_of, compile_statement, equals, in_live_namespace
from retrieval.database.schema import content, identity, work
from retrieval.metrics import catalog


@dataclass(frozen=True, slots=True)
class StoredCount:
    """Counter, or part of a histogram: an upper bound, or the sum."""

    name: str
    labels: str
    part: str
    value: float


@dataclass(frozen=True, slots=True)
class StatusCount:
    """Number of documents or job runs by status."""

    status: str
    count: int


@dataclass(frozen=True, slots=True)
class QueueShare:
    """Waiting job runs of an organization. `blocked`: waiting for a circuit breaker; `oldest`: seconds."""

    organization: str
    count: int
    blocked: int
    oldest: float


@dataclass(frozen=True, slots=True)
class DueSweeps:
    """Number of due sweeps, and the age of the oldest in seconds."""

    due: int
    oldest: float


@dataclass(frozen=True, slots=True)
class ConnectionCount:
    """PostgreSQL connections of a role, and the server's limit."""

    application: str
    is_active: bool
    count: int
    limit: int


@dataclass(frozen=True, slots=True)
class Silence:
    """Longest time since a loop's last success, in seconds."""

    silent: float | None


_stored: Any = identity.MetricCount
_namespace: Any = identity.Namespace
_partition: Any = identity.Partition
_count: Any = content.DocumentCount
_run: Any = work.JobRun
_loop: Any = work.DispatcherLoop
_of_organization = equals(_namespace.organization_id, "organization")
READ_COUNTS = compile_statement(
    sa.select(*columns_of(_stored, StoredCount)).where(equals(_stored.organization_id, "organization"))
)
_QUEUE_SHARES: LiteralString = (
    """
    select n.organization_id as organization, count(*) as count, count(*) filter (where not r.may_leave) as blocked,
           coalesce(greatest(extract(epoch from now() - min(r.created_at) filter (where r.may_leave)), 0), 0)::float8
               as oldest
    from (
        select r.*, """
    + NOT_BLOCKED
    + """ as may_leave from job_runs r where r.finished_at is null and r.status = 'QUEUED'
    ) r join partitions p on p.id = r.partition_id join namespaces n on n.id = p.namespace_id
    where n.deleted_at is null
      and (%(organization)s = '' or n.organization_id = %(organization)s)
    group by 1
"""
)


def _sum(counts: Any) -> Any:
    return sa.cast(sa.func.sum(counts), sa.BigInteger).label("count")


_own = sa.select(_partition.id).where(in_live_namespace(_partition.id), _of_organization)
_part = _own.cte("part").prefix_with("materialized")
_documents = sa.select(_count.status, _sum(_count.documents)).group_by(_count.status)
_documents = _documents.having(sa.func.sum(_count.documents) != 0)
_COUNT_DOCUMENTS = compile_statement(_documents.where(in_live_namespace(_count.partition_id)))
_OWN_DOCUMENTS = compile_statement(_documents.where(_count.partition_id == _part.c.id))
_runs = sa.select(_run.partition_id, _run.status, sa.func.count().label("count"))
_by_partition = _runs.group_by(_run.partition_id, _run.status).subquery("r").c
_by_status = sa.select(_by_partition.status, _sum(_by_partition["count"])).group_by(_by_partition.status)
_COUNT_RUNS = compile_statement(_by_status.where(in_live_namespace(_by_partition.partition_id)))
_own_runs = sa.select(_run.status, sa.func.count().label("count")).where(_run.partition_id == _part.c.id)
_OWN_RUNS = compile_statement(_own_runs.group_by(_run.status))
_succeeded = sa.func.max(sa.func.coalesce(_loop.succeeded_at, _loop.started_at)).label("succeeded")
_best = sa.select(_succeeded).group_by(_loop.loop).subquery("best")
_silent = sa.func.max(sa.extract("epoch", sa.func.now() - _best.c.succeeded))
_COUNT_SILENCE = compile_statement(sa.select(sa.cast(_silent, sa.Double).label("silent")))
OF_ORGANIZATION: Mapping[str, tuple[type[Any], LiteralString]] = {
    catalog.DOCUMENTS.name: (StatusCount, _OWN_DOCUMENTS),
    catalog.JOB_RUNS.name: (StatusCount, _OWN_RUNS),
    "queue": (QueueShare, _QUEUE_SHARES),
}
OF_INSTALLATION: Mapping[str, tuple[type[Any], LiteralString]] = {
    catalog.DOCUMENTS.name: (StatusCount, _COUNT_DOCUMENTS),
    catalog.JOB_RUNS.name: (StatusCount, _COUNT_RUNS),
    "queue": (QueueShare, _QUEUE_SHARES),
    "sweeps": (
        DueSweeps,
        """
        select (select count(*) from (select from sweeps where due_at <= now() limit 100000) as due) as due,
               coalesce(greatest(extract(epoch from now() - (select min(due_at) from sweeps)), 0), 0)::float8 as oldest
    """,
    ),
    "connections": (
        ConnectionCount,
        """
        select coalesce(application_name, '') as application, coalesce(state = 'active', false) as is_active,
               count(*) as count, current_setting('max_connections')::int as "limit"
        from pg_stat_activity
        where datname = current_database() and backend_type = 'client backend' and application_name like 'retrieval%%'
        group by 1, 2
    """,
    ),
    "loops": (Silence, _COUNT_SILENCE),
}
