"""Job runs that join a batch at work: sent meanwhile to the same scope, they would each be a flow run of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString, NamedTuple

from retrieval.database.database import Database
from retrieval.jobs import names
from retrieval.jobs.queries import job_queue
from retrieval.jobs.queries.batches import Lease, Superseded
from retrieval.jobs.queries.job_queue import QueuedRun


def append_waiting(db: Database, lease: Lease, *, size: int) -> Sequence[QueuedRun]:
    """Add waiting job runs to this batch until it holds `size`; return them, oldest first.

    Adds none while a breaker that the whole scope needs exists. Superseded if another worker has the batch.
    """
    with db.transaction() as connection:
        batch = connection.fetch_one(_Batch, _LOOK, {"batch": lease.batch_id, "fence": lease.fence})
        if batch is None:
            raise Superseded("Another worker has taken over this batch.")
        room = size - batch.size
        if room <= 0 or batch.rests:
            return []
        joined = job_queue.lock_waiting(connection, lease.partition, lease.source, size=room, new_only=True)
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
        _Named,
        "select b.size, n.name from batches b join partitions p on p.id = b.partition_id"
        " join namespaces n on n.id = p.namespace_id where b.id = %(batch)s",
        {"batch": lease.batch_id},
    )
    return names.name_of_several(lease.source, row.size, row.name) if row else ""


class _Batch(NamedTuple):
    size: int
    rests: bool


class _Named(NamedTuple):
    size: int
    name: str


_LOOK: LiteralString = """
    update batches b set looked_at = clock_timestamp()
    where id = %(batch)s and fence = %(fence)s and finished_at is null
    returning size, exists (select from breakers k where b.partition_id = any(k.partitions)) as rests
"""
"""That it has looked is what others of its scope wait for, for a moment (`fair_queue`)."""
