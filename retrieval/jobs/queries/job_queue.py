"""Waiting job runs: readiness, formation of batches and groups for the fair queue."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from retrieval import ids, job_config
from retrieval.accounts.queries.organizations import WORKER_SHARES, Plan
from retrieval.database.blocked_runs import NOT_BLOCKED
from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.jobs import levers, names
from retrieval.jobs.fair_queue import JOIN_WAIT_SECONDS, MAX_SHORT_BYTES, MAX_SHORT_RUNS, OpenBatchCounts, QueueGroup
from retrieval.jobs.queries import breakers, progress
from retrieval.jobs.queries.breakers import BLOCKED_PARTITIONS, MAX_PROBING_ORGANIZATIONS
from retrieval.sources import CONNECTED_SOURCES, STORED_SOURCES

_EARLIER_RUN_CONDITION: LiteralString = f"""exists (
        select from job_runs earlier join jobs before on before.id = earlier.job_id join jobs j on j.id = r.job_id
        where earlier.partition_id = r.partition_id and earlier.source = r.source and earlier.number < r.number
          and earlier.finished_at is null
          and {job_config.connection_id_sql("before")} = {job_config.connection_id_sql()}
    )
"""
# Job run `r` waits, and neither an earlier run of its connection nor an open breaker blocks it.
READY_CONDITION: LiteralString = f"""
    r.batch_id is null and r.finished_at is null and {NOT_BLOCKED}
    and (r.source <> all(%(connected)s) or not {_EARLIER_RUN_CONDITION})
"""


# Batches whose newest attempt has no flow run, with the description of their first job run.
UNDISPATCHED_QUERY: LiteralString = (
    """
    with open_batches as (
        select b.id as batch, b.attempt, b.queue, b.created_at, array_agg(r.id order by r.number) as job_runs,
               case when b.resumes then b.flow_run_id end as resumes
        from batches b join job_runs r on r.batch_id = b.id
        where b.finished_at is null and b.dispatched_at is null
        group by b.id order by b.created_at limit 200
    )
    select o.batch as id, o.attempt, o.queue, o.resumes, o.job_runs, p.namespace_id, n.name as namespace, """
    + names.DESCRIPTION_COLUMNS
    + """
    from open_batches o join job_runs r on r.id = o.job_runs[1] join jobs j on j.id = r.job_id
    join partitions p on p.id = r.partition_id join namespaces n on n.id = p.namespace_id
    """
    + progress.COUNTED_DOCUMENTS
    + " order by o.created_at"
)


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """Job run waiting for a batch."""

    id: str
    request_id: str | None
    traceparent: str | None
    created_at: datetime
    resumes_batch: str | None = None


def form_batch(connection: ThreadConnection, group: QueueGroup, queue: str, *, size: int, worker_slots: int) -> int:
    """Form a batch of at most `size` ready job runs, oldest first; return 0 or 1."""
    # Each batch has its own transaction: waiting for locks of one scope does not delay another.
    partition, source = group.partition, group.source
    share = _share_of_waiting(connection, partition, source, size, worker_slots) if source in STORED_SOURCES else 1
    queued = lock_waiting(connection, partition, source, size=share)
    if not queued:
        return 0
    resumed = queued[0].resumes_batch
    queued = [run for run in queued if run.resumes_batch == resumed]
    # Job runs of a suspended flow run continue in its batch.
    batch_id = resumed or ids.batch_id()
    is_probe = source != "REEMBED" and breakers.become_probe(connection, batch_id, partition)
    if is_probe is None:
        return 0
    # A probing batch has one job run.
    queued = queued[:1] if is_probe else queued
    values = {"id": batch_id, "partition": partition, "source": source, "queue": queue, "runs": len(queued)}
    if resumed is None or not connection.execute(_RESUME_STATEMENT, values).rowcount:
        values["id"] = batch_id if resumed is None else ids.batch_id()
        connection.execute(
            "insert into batches (id, partition_id, source, queue, size)"
            " values (%(id)s, %(partition)s, %(source)s, %(queue)s, %(runs)s)",
            values,
        )
    add_to_batch(connection, str(values["id"]), queued)
    return 1


def reopen_batch(connection: ThreadConnection, batch_id: str, attempt: int) -> None:
    """Return waiting job runs to a suspended batch whose flow run a person resumed early."""
    values = {"id": batch_id, "attempt": attempt, "queue": None, "runs": 0}
    if connection.execute(_RESUME_STATEMENT + " and attempt = %(attempt)s", values).rowcount:
        connection.execute(
            "update batches set resumes = false, dispatched_at = now() where id = %(id)s", {"id": batch_id}
        )
        connection.execute(
            "update job_runs set batch_id = %(id)s, resumes_batch = null"
            " where resumes_batch = %(id)s and batch_id is null and finished_at is null",
            {"id": batch_id},
        )


_RESUME_STATEMENT: LiteralString = """
    update batches set finished_at = null, suspended_at = null, resumes = true, dispatched_at = null,
                       lease_until = null, released = false, at_work = null, queue = coalesce(%(queue)s, queue),
                       size = greatest(size, %(runs)s)
    where id = %(id)s and finished_at is not null and suspended_at is not null and flow_run_id is not null
"""


def _share_of_waiting(connection: ThreadConnection, partition: int, source: str, size: int, worker_slots: int) -> int:
    """Return the number of waiting job runs per batch that occupies all worker slots, at most `size`."""
    statement: LiteralString = (
        "select count(*) from (select from job_runs where partition_id = %(partition)s and source = %(source)s"
        " and batch_id is null and finished_at is null limit %(limit)s) waiting"
    )
    values = {"partition": partition, "source": source, "limit": size * worker_slots}
    waiting = connection.fetch_one(int, statement, values) or 0
    # A flow run costs most of a second of processor time: it takes at least as many as a short batch.
    return min(size, max(MAX_SHORT_RUNS, math.ceil(waiting / worker_slots)))


def lock_waiting(
    connection: ThreadConnection, partition: int, source: str, *, size: int, new_only: bool = False
) -> list[QueuedRun]:
    """Lock and return at most `size` ready job runs, oldest first. `new_only`: without those of suspended flow runs."""
    values = {
        "partition": partition,
        "source": source,
        "size": size,
        "connected": list(CONNECTED_SOURCES),
        "new": new_only,
    }
    return connection.fetch(QueuedRun, _LOCK_WAITING_QUERY, values)


def add_to_batch(connection: ThreadConnection, batch_id: str, members: Sequence[QueuedRun]) -> None:
    connection.execute(
        "update job_runs set batch_id = %(batch)s, resumes_batch = null where id = any(%(members)s)",
        {"batch": batch_id, "members": [run.id for run in members]},
    )


_LOCK_WAITING_QUERY: LiteralString = (
    "select r.id, r.request_id, r.traceparent, r.created_at, r.resumes_batch from job_runs r"
    " where r.partition_id = %(partition)s and r.source = %(source)s"
    " and (not %(new)s or r.resumes_batch is null) and "
    + READY_CONDITION
    + " order by r.number limit %(size)s for update of r skip locked"
)


@dataclass(frozen=True, slots=True)
class _GroupRow:
    partition: int
    source: str
    organization: str
    plan: str
    runs: int
    first: float
    waited: float
    local: bool
    bytes: int | None

    def group(self) -> QueueGroup:
        short = self.runs <= MAX_SHORT_RUNS and self.local and self.bytes is not None and self.bytes <= MAX_SHORT_BYTES
        weight = WORKER_SHARES[Plan(self.plan)]
        return QueueGroup(self.partition, self.source, self.organization, weight, self.first, short, self.waited)


@dataclass(frozen=True, slots=True)
class _OpenBatchRow:
    organization: str
    partition: int
    source: str
    queue: str
    batches: int
    growing: int
    looking: bool | None


def list_groups(db: Database) -> list[QueueGroup]:
    """Return the groups with a ready job run."""
    return [row.group() for row in db.fetch(_GroupRow, _WAITING_GROUPS_QUERY, _GROUP_PARAMS)]


def count_open(db: Database, *, size: int) -> OpenBatchCounts:
    """Return the open batches. `size`: limit of job runs in a batch."""
    open_counts = OpenBatchCounts()
    for row in db.fetch(
        _OpenBatchRow, _OPEN_BATCHES_QUERY, {"stored": sorted(STORED_SOURCES), "size": size, "grow": JOIN_WAIT_SECONDS}
    ):
        open_counts.add(row.organization, row.partition, row.queue, row.batches)
        key = row.partition, row.source
        if row.growing:
            open_counts.growing[key] += row.growing
        if row.looking:
            open_counts.polling.add(key)
    return open_counts


def should_yield(db: Database, batch_id: str, *, seconds: float) -> bool:
    """Check if a batch unclaimed for `seconds` should replace this batch."""
    # Of another organization, of another scope if this organization has several batches at work, or of stored content
    # while this batch fetches from elsewhere.
    values = {"batch": batch_id, "seconds": seconds, "stored": sorted(STORED_SOURCES)}
    return bool(db.fetch_one(bool, _OTHERS_WAIT_QUERY, values))


def is_behind_others(db: Database, batch_id: str) -> bool:
    """Check if this batch yielded to a batch still waiting."""
    # A resumed flow run keeps its work queue, whose priority may be higher than theirs.
    return bool(db.fetch_one(bool, _IS_BEHIND_QUERY, {"batch": batch_id}))


def is_behind_its_connection(db: Database, batch_id: str) -> bool:
    """Return whether an earlier job run of the batch's connection is unfinished."""
    statement: LiteralString = (
        "select exists (select from job_runs r where r.batch_id = %(batch)s and " + _EARLIER_RUN_CONDITION + ")"
    )
    return bool(db.fetch_one(bool, statement, {"batch": batch_id}))


def has_unfinished_work(db: Database) -> bool:
    """Return whether a job run waits for a batch, or a batch is unfinished."""
    return bool(
        db.fetch_one(
            bool,
            "select exists (select from batches where finished_at is null)"
            " or exists (select from job_runs where batch_id is null and finished_at is null)",
        )
    )


def has_waiting_work(db: Database) -> bool:
    """Return whether a job run waits for a batch, or a batch for a worker."""
    return bool(
        db.fetch_one(
            bool,
            "select exists (select from batches where finished_at is null and lease_until is null)"
            " or exists (select from job_runs where batch_id is null and finished_at is null)",
        )
    )


def has_open_batch(db: Database) -> bool:
    """Return whether a batch is unfinished."""
    return bool(db.fetch_one(bool, "select exists (select from batches where finished_at is null)"))


_GROUP_PARAMS: dict[str, Sequence[str] | int] = {
    "connected": list(CONNECTED_SOURCES),
    "stored": sorted(STORED_SOURCES),
    "runs": MAX_SHORT_RUNS,
    "probes": MAX_PROBING_ORGANIZATIONS,
}
# Scopes and sources with waiting job runs, by index scan from one to the next.
GROUPS_CTE: LiteralString = """
    with recursive groups as (
        (select partition_id, source from job_runs where batch_id is null and finished_at is null
         order by partition_id, source limit 1)
        union all
        select next.partition_id, next.source from groups g cross join lateral (
            select partition_id, source from job_runs
            where batch_id is null and finished_at is null and (partition_id, source) > (g.partition_id, g.source)
            order by partition_id, source limit 1
        ) next
    )
"""

# The cost grows with the number of groups, not of job runs.
_WAITING_GROUPS_QUERY: LiteralString = (
    GROUPS_CTE
    + """
    select g.partition_id as partition, g.source, o.id as organization, o.plan, w.runs, w.first, w.waited,
           coalesce(n.config -> 'embeddingModelConfig' ->> 'provider' = 'LOCAL'
                    and n.config -> 'vectorStorageConfig' ->> 'provider' = 'PGVECTOR'
                    and n.config -> 'fileStorageConfig' ->> 'type' = 'LOCAL', false) as local,
           case when w.runs <= %(runs)s and g.source = any(%(stored)s) then (
               select case when bool_and(d.media_type like 'text/%%')
                           then coalesce(sum(coalesce(d.raw_size, octet_length(i.content), 0)), 0)::bigint end
               from run_documents d left join inbox i on i.job_run_id = d.job_run_id and i.document_id = d.document_id
               where d.job_run_id = any(w.members)
           ) end as bytes
    from groups g
    join partitions p on p.id = g.partition_id join namespaces n on n.id = p.namespace_id
    join organizations o on o.id = n.organization_id
    cross join lateral (
        select count(*) as runs, extract(epoch from min(updated_at))::float8 as first,
               extract(epoch from clock_timestamp() - min(updated_at))::float8 as waited, array_agg(id) as members
        from (
            select r.id, r.updated_at from job_runs r where r.partition_id = g.partition_id and r.source = g.source and
    """
    + READY_CONDITION
    + """
            order by r.number limit %(runs)s + 1
        ) leaving
    ) w
    where w.runs > 0 and (g.source = 'REEMBED' or g.partition_id <> all("""
    + BLOCKED_PARTITIONS
    + """))
"""
)
_OPEN_BATCHES_QUERY: LiteralString = """
    select n.organization_id as organization, b.partition_id as partition, b.source, b.queue, count(*) as batches,
           count(*) filter (where g.growing) as growing,
           bool_or(g.growing and (b.lease_until is null or b.looked_at > now() - make_interval(secs => %(grow)s)))
               as looking
    from batches b join partitions p on p.id = b.partition_id join namespaces n on n.id = p.namespace_id
    cross join lateral (
        select b.source = any(%(stored)s) and b.queue <> 'short' and b.attempt = 1 and b.size < %(size)s
               and not b.released and coalesce(b.lease_until > now(), true) as growing
    ) g
    where b.finished_at is null and b.suspended_at is null group by n.organization_id, b.partition_id, b.source, b.queue
"""
_IS_BEHIND_QUERY: LiteralString = (
    """
    select exists (
        select from batches w where w.finished_at is null and w.lease_until is null and w.suspended_at is null
          and w.queue <> 'short'
          and w.dispatched_at < (select min(r.updated_at) from job_runs r where r.batch_id = %(batch)s)
          and not exists (select from jsonb_array_elements("""
    + levers.CURRENT_LEVERS
    + """) lever where lever ->> 'queue' = w.queue or lever ->> 'source' = w.source)
    )
"""
)
# A batch does not yield to batches of a paused queue or deployment.
_OTHERS_WAIT_QUERY: LiteralString = (
    """
    with mine as (
        select b.id, b.partition_id, b.source, n.organization_id from batches b
        join partitions p on p.id = b.partition_id join namespaces n on n.id = p.namespace_id where b.id = %(batch)s
    )
    select true from mine, batches w
    join partitions p on p.id = w.partition_id join namespaces n on n.id = p.namespace_id
    where w.finished_at is null and w.lease_until is null and w.suspended_at is null and w.queue <> 'short'
      and not exists (select from jsonb_array_elements("""
    + levers.CURRENT_LEVERS
    + """) lever where lever ->> 'queue' = w.queue or lever ->> 'source' = w.source)
      and abs(extract(epoch from now() - w.dispatched_at)) > %(seconds)s
      and (n.organization_id <> mine.organization_id
           or (w.source = any(%(stored)s) and mine.source <> all(%(stored)s))
           or (w.partition_id <> mine.partition_id and exists (
               select from batches sibling where sibling.partition_id = mine.partition_id and sibling.id <> mine.id
                 and sibling.finished_at is null and sibling.lease_until > now())))
    limit 1
    """
)
