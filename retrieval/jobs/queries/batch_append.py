"""Job runs that join a running batch of their scope instead of a separate flow run each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString, NamedTuple

from retrieval.database.database import Database
from retrieval.jobs import names
from retrieval.jobs.queries import job_queue
from retrieval.jobs.queries.batches import Lease, Superseded
from retrieval.jobs.queries.job_queue import QueuedRun


def append_waiting(db: Database, lease: Lease, *, size: int) -> Sequence[QueuedRun]:
    """Add waiting job runs up to `size` to this batch; return them, oldest first. Superseded if another worker has the
    batch."""
    with db.transaction() as connection:
        batch = connection.fetch_one(
            _BatchState, _READ_QUEUE_STATEMENT, {"batch": lease.batch_id, "fence": lease.fence}
        )
        if batch is None:
            raise Superseded("Another worker has taken over this batch.")
        remaining = size - batch.size
        # No additions while the whole scope waits for a breaker.
        if remaining <= 0 or batch.is_blocked:
            return []
        joined = job_queue.lock_waiting(connection, lease.partition, lease.source, size=remaining, new_only=True)
        if joined:
            connection.execute(
                "update batches set size = size + %(runs)s where id = %(batch)s",
                {"batch": lease.batch_id, "runs": len(joined)},
            )
            job_queue.add_to_batch(connection, lease.batch_id, joined)
    return joined


def describe_batch(db: Database, lease: Lease) -> str:
    """Return the display name of the batch with its current size."""
    row = db.fetch_one(
        _NamedBatch,
        "select b.size, n.name from batches b join partitions p on p.id = b.partition_id"
        " join namespaces n on n.id = p.namespace_id where b.id = %(batch)s",
        {"batch": lease.batch_id},
    )
    return names.name_of_several(lease.source, row.size, row.name) if row else ""


class _BatchState(NamedTuple):
    size: int
    is_blocked: bool


class _NamedBatch(NamedTuple):
    size: int
    name: str


# New job runs of the scope wait shortly for a batch with a recent read (`fair_queue`).
_READ_QUEUE_STATEMENT: LiteralString = """
    update batches b set looked_at = clock_timestamp()
    where id = %(batch)s and fence = %(fence)s and finished_at is null
    returning size, exists (select from breakers k where b.partition_id = any(k.partitions)) as is_blocked
"""
