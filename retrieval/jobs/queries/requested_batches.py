"""Batches created by a flow run that a person or a schedule in Prefect started."""

from __future__ import annotations

from typing import LiteralString, NamedTuple

from retrieval import ids
from retrieval.database.database import Database


class RequestedBatch(NamedTuple):
    """Batch with its first job run. `attempt`: 0 if another flow run executes the batch."""

    id: str
    attempt: int
    job_run_id: str
    namespace: str


async def make_batch(db: Database, job_run_id: str, flow_run_id: str, *, size: int, seconds: float) -> None:
    """Create the batch of an accepted job run for this flow run in the caller's transaction; claim within `seconds`."""
    # At the limit `size`, no other job run joins the batch.
    values = {
        "run": job_run_id,
        "batch": ids.batch_id(),
        "size": size,
        "flow_run": flow_run_id,
        "seconds": seconds,
    }
    # A released lease: the reconciler executes this flow run again if its process ends before it claims the batch.
    await db.async_execute(
        "insert into batches (id, partition_id, source, size, flow_run_id, dispatched_at, lease_until, released)"
        " select %(batch)s, partition_id, source, %(size)s, %(flow_run)s, now(),"
        " now() + make_interval(secs => %(seconds)s), true from job_runs where id = %(run)s",
        values,
    )
    await db.async_execute("update job_runs set batch_id = %(batch)s where id = %(run)s", values)


_FIND_BATCH_QUERY: LiteralString = (
    "select b.id, case when b.flow_run_id = %(flow_run)s then b.attempt else 0 end as attempt, r.id as job_run_id,"
    " p.namespace_id as namespace from batches b join partitions p on p.id = b.partition_id"
    " join job_runs r on coalesce(r.batch_id, r.resumes_batch) = b.id"
)


async def find_by_flow_run(db: Database, flow_run_id: str) -> RequestedBatch | None:
    """Return the first batch of a flow run; None before its request is accepted."""
    statement: LiteralString = (
        _FIND_BATCH_QUERY + " where b.flow_run_id = %(flow_run)s order by b.created_at, r.number limit 1"
    )
    return await db.async_fetch_one(RequestedBatch, statement, {"flow_run": flow_run_id})


async def find_by_job_run(db: Database, job_run_id: str, flow_run_id: str) -> RequestedBatch | None:
    """Return the batch of a job run requested by this flow run; None if the job run was deleted."""
    values = {"run": job_run_id, "flow_run": flow_run_id}
    return await db.async_fetch_one(RequestedBatch, _FIND_BATCH_QUERY + " where r.id = %(run)s", values)
