"""Waiting job runs: which may leave now, how they become a batch, and what the fair queue chooses from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from retrieval import ids, job_config
from retrieval.accounts.queries.organizations import SHARES, Plan
from retrieval.database.database import Database
from retrieval.database.held import NOT_BLOCKED
from retrieval.database.sessions import ThreadConnection
from retrieval.jobs import levers, names
from retrieval.jobs.fair_queue import GROW_SECONDS, SHORT_BYTES, SHORT_RUNS, Group, Taken
from retrieval.jobs.queries import breakers, progress
from retrieval.jobs.queries.breakers import PROBES, RESTING
from retrieval.sources import CONNECTED, STORED

_EARLIER: LiteralString = f"""exists (
        select from job_runs earlier join jobs before on before.id = earlier.job_id join jobs j on j.id = r.job_id
        where earlier.partition_id = r.partition_id and earlier.source = r.source and earlier.number < r.number
          and earlier.finished_at is null and {job_config.connection_of("before")} = {job_config.connection_of()}
    )
"""
MAY_LEAVE: LiteralString = f"""
    r.batch_id is null and r.finished_at is null and {NOT_BLOCKED}
    and (r.source <> all(%(connected)s) or not {_EARLIER})
"""
"""SQL: job run `r` waits, and neither an earlier run of its connection nor an open breaker blocks it."""


UNDISPATCHED: LiteralString = (
    """
    with open_batches as (
        select b.id as batch, b.attempt, b.queue, b.created_at, array_agg(r.id order by r.number) as job_runs,
               case when b.resumes then b.flow_run_id end as resumes
        from batches b join job_runs r on r.batch_id = b.id
        where b.finished_at is null and b.dispatched_at is null
        group by b.id order by b.created_at limit 200
    )
    select o.batch as id, o.attempt, o.queue, o.resumes, o.job_runs, p.namespace_id, n.name as namespace, """
    + names.COLUMNS
    + """
    from open_batches o join job_runs r on r.id = o.job_runs[1] join jobs j on j.id = r.job_id
    join partitions p on p.id = r.partition_id join namespaces n on n.id = p.namespace_id
    """
    + progress.COUNTED
    + " order by o.created_at"
)
"""Batches whose newest attempt has no flow run yet, each with what its first job run is about."""


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A job run that waits for a batch."""

    id: str
    request_id: str | None
    traceparent: str | None
    created_at: datetime
    resumes_batch: str | None = None


def form_batch(connection: ThreadConnection, group: Group, queue: str, *, size: int, places: int) -> int:
    """Make a batch of at most `size` waiting job runs that nothing blocks, oldest first; return the number of batches,
    0 or 1.

    Job runs of a suspended flow run continue in its batch. A batch that probes a breaker has one job run. `places`:
    flow runs that workers execute at once, which share what waits.
    """
    # Each batch has its own transaction: waiting for locks of one scope does not delay another.
    partition, source = group.partition, group.source
    share = _share_of_waiting(connection, partition, source, size, places) if source in STORED else 1
    queued = lock_waiting(connection, partition, source, size=share)
    if not queued:
        return 0
    resumed = queued[0].resumes_batch
    queued = [run for run in queued if run.resumes_batch == resumed]
    batch_id = resumed or ids.batch_id()
    probing = source != "REEMBED" and breakers.become_probe(connection, batch_id, partition)
    if probing is None:
        return 0
    queued = queued[:1] if probing else queued
    values = {"id": batch_id, "partition": partition, "source": source, "queue": queue, "runs": len(queued)}
    if resumed is None or not connection.execute(_RESUME, values).rowcount:
        values["id"] = batch_id if resumed is None else ids.batch_id()
        connection.execute(
            "insert into batches (id, partition_id, source, queue, size)"
            " values (%(id)s, %(partition)s, %(source)s, %(queue)s, %(runs)s)",
            values,
        )
    add_to_batch(connection, str(values["id"]), queued)
    return 1


def reopen_batch(connection: ThreadConnection, batch_id: str, attempt: int) -> None:
    """Give a suspended batch, whose flow run a person resumed before its turn, its waiting job runs back."""
    values = {"id": batch_id, "attempt": attempt, "queue": None, "runs": 0}
    if connection.execute(_RESUME + " and attempt = %(attempt)s", values).rowcount:
        connection.execute(
            "update batches set resumes = false, dispatched_at = now() where id = %(id)s", {"id": batch_id}
        )
        connection.execute(
            "update job_runs set batch_id = %(id)s, resumes_batch = null"
            " where resumes_batch = %(id)s and batch_id is null and finished_at is null",
            {"id": batch_id},
        )


_RESUME: LiteralString = """
    update batches set finished_at = null, suspended_at = null, resumes = true, dispatched_at = null,
                       lease_until = null, released = false, at_work = null, queue = coalesce(%(queue)s, queue),
                       size = greatest(size, %(runs)s)
    where id = %(id)s and finished_at is not null and suspended_at is not null and flow_run_id is not null
"""


def _share_of_waiting(connection: ThreadConnection, partition: int, source: str, size: int, places: int) -> int:
    """Return how many waiting job runs a batch takes so that all places of the workers share them, at most `size`."""
    statement: LiteralString = (
        "select count(*) from (select from job_runs where partition_id = %(partition)s and source = %(source)s"
        " and batch_id is null and finished_at is null limit %(limit)s) waiting"
    )
    values = {"partition": partition, "source": source, "limit": size * places}
    waiting = connection.fetch_one(int, statement, values) or 0
    # A flow run costs most of a second of processor time: it takes at least as many as a short batch.
    return min(size, max(SHORT_RUNS, math.ceil(waiting / places)))


def lock_waiting(
    connection: ThreadConnection, partition: int, source: str, *, size: int, new_only: bool = False
) -> list[QueuedRun]:
    """Return at most `size` waiting job runs that nothing blocks, oldest first, locked until the end of the caller's
    transaction. `new_only`: without those of suspended flow runs."""
    values = {"partition": partition, "source": source, "size": size, "connected": list(CONNECTED), "new": new_only}
    return connection.fetch(QueuedRun, _HOLD, values)


def add_to_batch(connection: ThreadConnection, batch_id: str, members: Sequence[QueuedRun]) -> None:
    """Make these part of the batch."""
    connection.execute(
        "update job_runs set batch_id = %(batch)s, resumes_batch = null where id = any(%(members)s)",
        {"batch": batch_id, "members": [run.id for run in members]},
    )


_HOLD: LiteralString = (
    "select r.id, r.request_id, r.traceparent, r.created_at, r.resumes_batch from job_runs r"
    " where r.partition_id = %(partition)s and r.source = %(source)s"
    " and (not %(new)s or r.resumes_batch is null) and "
    + MAY_LEAVE
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

    def group(self) -> Group:
        short = self.runs <= SHORT_RUNS and self.local and self.bytes is not None and self.bytes <= SHORT_BYTES
        weight = SHARES[Plan(self.plan)]
        return Group(self.partition, self.source, self.organization, weight, self.first, short, self.waited)


@dataclass(frozen=True, slots=True)
class _OpenBatches:
    organization: str
    partition: int
    source: str
    queue: str
    batches: int
    growing: int
    looking: bool | None


def list_groups(db: Database) -> list[Group]:
    """Return all groups with a job run that may be dispatched."""
    return [row.group() for row in db.fetch(_GroupRow, _WAITING, _VALUES)]


def count_open(db: Database, *, size: int) -> Taken:
    """Return the open batches. `size`: limit of job runs in a batch."""
    chosen = Taken()
    for row in db.fetch(_OpenBatches, _TAKEN, {"stored": sorted(STORED), "size": size, "grow": GROW_SECONDS}):
        chosen.add(row.organization, row.partition, row.queue, row.batches)
        key = row.partition, row.source
        if row.growing:
            chosen.growing[key] += row.growing
        if row.looking:
            chosen.looking.add(key)
    return chosen


def others_wait(db: Database, batch_id: str, *, seconds: float) -> bool:
    """Tell if a batch that was dispatched at least `seconds` ago and not claimed should replace this one.

    True for a batch of another organization; for one of another scope if this organization has several at work; and for
    stored content while this batch fetches from elsewhere.
    """
    values = {"batch": batch_id, "seconds": seconds, "stored": sorted(STORED)}
    return bool(db.fetch_one(bool, _OTHERS_WAIT, values))


def is_behind_others(db: Database, batch_id: str) -> bool:
    """Return True while a batch that waited for a worker when this one yielded its slot still waits."""
    # A resumed flow run keeps its work queue, whose priority may be higher than theirs.
    return bool(db.fetch_one(bool, _IS_BEHIND, {"batch": batch_id}))


def is_behind_its_connection(db: Database, batch_id: str) -> bool:
    """Return True while an earlier job run of the batch's connection is unfinished."""
    statement: LiteralString = (
        "select exists (select from job_runs r where r.batch_id = %(batch)s and " + _EARLIER + ")"
    )
    return bool(db.fetch_one(bool, statement, {"batch": batch_id}))


def is_any_unfinished(db: Database) -> bool:
    """Tell if a job run waits for a batch, or a batch is not finished."""
    return bool(
        db.fetch_one(
            bool,
            "select exists (select from batches where finished_at is null)"
            " or exists (select from job_runs where batch_id is null and finished_at is null)",
        )
    )


def is_any_open(db: Database) -> bool:
    """Tell if any batch is not finished."""
    return bool(db.fetch_one(bool, "select exists (select from batches where finished_at is null)"))


_VALUES: dict[str, Sequence[str] | int] = {
    "connected": list(CONNECTED),
    "stored": sorted(STORED),
    "runs": SHORT_RUNS,
    "probes": PROBES,
}
GROUPS: LiteralString = """
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
"""Which scopes and sources have waiting job runs: from one to the next by the index."""

_WAITING: LiteralString = (
    GROUPS
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
    + MAY_LEAVE
    + """
            order by r.number limit %(runs)s + 1
        ) leaving
    ) w
    where w.runs > 0 and (g.source = 'REEMBED' or g.partition_id <> all("""
    + RESTING
    + """))
"""
)
"""From group to group by the index, so that it costs as much as there are groups, not as there are job runs."""
_TAKEN: LiteralString = """
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
_IS_BEHIND: LiteralString = (
    """
    select exists (
        select from batches w where w.finished_at is null and w.lease_until is null and w.suspended_at is null
          and w.queue <> 'short'
          and w.dispatched_at < (select min(r.updated_at) from job_runs r where r.batch_id = %(batch)s)
          and not exists (select from jsonb_array_elements("""
    + levers.CURRENT
    + """) lever where lever ->> 'queue' = w.queue or lever ->> 'source' = w.source)
    )
"""
)
_OTHERS_WAIT: LiteralString = (
    """
    with mine as (
        select b.id, b.partition_id, b.source, n.organization_id from batches b
        join partitions p on p.id = b.partition_id join namespaces n on n.id = p.namespace_id where b.id = %(batch)s
    )
    select true from mine, batches w
    join partitions p on p.id = w.partition_id join namespaces n on n.id = p.namespace_id
    where w.finished_at is null and w.lease_until is null and w.suspended_at is null and w.queue <> 'short'
      and not exists (select from jsonb_array_elements("""
    + levers.CURRENT
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
"""Nobody yields to what a paused queue or deployment in Prefect keeps."""
