"""SQL of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, LiteralString

from retrieval.database.held import NOT_BLOCKED
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


READ_COUNTS: LiteralString = (
    "select name, labels, part, value from metric_counts where organization_id = %(organization)s"
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
_COUNT_DOCUMENTS: LiteralString = """
    select d.status, sum(d.documents)::bigint as count from document_counts d
    join partitions p on p.id = d.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    group by 1 having sum(d.documents) <> 0
"""
_COUNT_RUNS: LiteralString = """
    select r.status, sum(r.count)::bigint as count
    from (select partition_id, status, count(*) as count from job_runs group by 1, 2) r
    join partitions p on p.id = r.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    group by 1
"""
_WITH_PARTITIONS: LiteralString = """
    with part as materialized (
        select p.id from partitions p join namespaces n on n.id = p.namespace_id
        where n.organization_id = %(organization)s and n.deleted_at is null
    )
"""
_OWN_DOCUMENTS: LiteralString = (
    _WITH_PARTITIONS
    + """
    select d.status, sum(d.documents)::bigint as count from document_counts d join part on part.id = d.partition_id
    group by 1 having sum(d.documents) <> 0
"""
)
_OWN_RUNS: LiteralString = (
    _WITH_PARTITIONS
    + "select r.status, count(*) as count from job_runs r join part on part.id = r.partition_id group by 1"
)
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
    "loops": (
        Silence,
        """
        select max(extract(epoch from now() - succeeded))::float8 as silent from (
            select max(coalesce(succeeded_at, started_at)) as succeeded from dispatcher_loops group by loop
        ) as best
    """,
    ),
}
