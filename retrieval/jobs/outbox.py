"""Waiting job runs: which may leave now, and how they become a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from retrieval import job_config
from retrieval.database.held import NOT_HELD
from retrieval.database.sessions import ThreadConnection
from retrieval.jobs import breakers, names, progress
from retrieval.sources import APPS

MAY_LEAVE: LiteralString = f"""
    r.batch_id is null and r.finished_at is null and {NOT_HELD} and (r.source <> all(%(connected)s) or not exists (
        select from job_runs earlier join jobs before on before.id = earlier.job_id join jobs j on j.id = r.job_id
        where earlier.partition_id = r.partition_id and earlier.source = r.source and earlier.number < r.number
          and earlier.finished_at is null and {job_config.connection_of("before")} = {job_config.connection_of()}
    ))
"""
"""That a job run `r` waits, not held back by an earlier one of its connection nor by somebody who does not answer."""


UNDISPATCHED: LiteralString = (
    """
    with open_batches as (
        select b.id as batch, b.attempt, b.queue, b.created_at, array_agg(r.id order by r.number) as job_runs
        from batches b join job_runs r on r.batch_id = b.id
        where b.finished_at is null and b.dispatched_at is null
        group by b.id order by b.created_at limit 200
    )
    select o.batch as id, o.attempt, o.queue, o.job_runs, p.namespace_id, n.name as namespace, """
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


def gather(connection: ThreadConnection, batch_id: str, partition: int, source: str, queue: str, *, size: int) -> int:
    """Make a batch of at most `size` waiting job runs that nothing blocks, oldest first; return the number of batches,
    0 or 1.

    A batch that probes a breaker has one job run.

    Each batch has its own transaction: waiting for locks of one scope does not delay another.
    """
    values = {"id": batch_id, "partition": partition, "source": source, "queue": queue}
    queued = waiting(connection, partition, source, size=size)
    probing = bool(queued) and source != "REEMBED" and breakers.probing(connection, batch_id, partition)
    if not queued or probing is None:
        return 0
    queued = queued[:1] if probing else queued
    connection.execute(
        "insert into batches (id, partition_id, source, queue, size)"
        " values (%(id)s, %(partition)s, %(source)s, %(queue)s, %(runs)s)",
        {**values, "runs": len(queued)},
    )
    move(connection, batch_id, queued)
    return 1


def waiting(connection: ThreadConnection, partition: int, source: str, *, size: int) -> list[QueuedRun]:
    """Return at most `size` waiting job runs that nothing blocks, oldest first, locked until the end of the caller's
    transaction."""
    values = {"partition": partition, "source": source, "size": size, "connected": list(APPS)}
    return connection.fetch(QueuedRun, _HOLD, values)


def move(connection: ThreadConnection, batch_id: str, members: Sequence[QueuedRun]) -> None:
    """Make these part of the batch."""
    connection.execute(
        "update job_runs set batch_id = %(batch)s where id = any(%(members)s)",
        {"batch": batch_id, "members": [run.id for run in members]},
    )


_HOLD: LiteralString = (
    "select r.id, r.request_id, r.traceparent, r.created_at from job_runs r"
    " where r.partition_id = %(partition)s and r.source = %(source)s and "
    + MAY_LEAVE
    + " order by r.number limit %(size)s for update of r skip locked"
)
