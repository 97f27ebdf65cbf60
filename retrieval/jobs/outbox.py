"""Waiting job runs: which may leave now, and how they become a batch."""

from __future__ import annotations

from typing import LiteralString

from psycopg import Connection

from retrieval.database.database import Row
from retrieval.jobs import names, progress

MAY_LEAVE: LiteralString = """
    r.batch_id is null and r.finished_at is null and (r.source <> all(%(connected)s) or not exists (
        select from job_runs earlier join jobs before on before.id = earlier.job_id join jobs j on j.id = r.job_id
        where earlier.partition_id = r.partition_id and earlier.source = r.source and earlier.number < r.number
          and earlier.finished_at is null and before.config ->> 'connectionId' = j.config ->> 'connectionId'
    ))
"""
"""That a job run `r` waits and is not held back by an earlier one of its connection."""


UNDISPATCHED: LiteralString = (
    """
    with open_batches as (
        select b.id as batch, b.attempt, b.created_at, array_agg(r.id order by r.number) as job_runs
        from batches b join job_runs r on r.batch_id = b.id
        where b.finished_at is null and b.dispatched_at is null
        group by b.id order by b.created_at limit 200
    )
    select o.batch as id, o.attempt, o.job_runs, p.namespace_id, n.name as namespace, """
    + names.COLUMNS
    + """
    from open_batches o join job_runs r on r.id = o.job_runs[1] join jobs j on j.id = r.job_id
    join partitions p on p.id = r.partition_id join namespaces n on n.id = p.namespace_id
    """
    + progress.COUNTED
    + " order by o.created_at"
)
"""Batches whose newest attempt has no flow run yet, each with what its first job run is about."""


def gather(connection: Connection[Row], group: Row) -> int:
    """Make a batch of those that still wait and that nobody holds; how many were made.

    A transaction for each batch: while one scope's rows are waited for, none of another's are held.
    """
    held = connection.execute(
        "select id from job_runs where id = any(%(members)s) and batch_id is null and finished_at is null"
        " order by number for update skip locked",
        group,
    ).fetchall()
    if not held:
        return 0
    values = {**group, "members": [row["id"] for row in held]}
    connection.execute(
        "insert into batches (id, partition_id, source) values (%(id)s, %(partition_id)s, %(source)s)", values
    )
    connection.execute("update job_runs set batch_id = %(id)s where id = any(%(members)s)", values)
    return 1
