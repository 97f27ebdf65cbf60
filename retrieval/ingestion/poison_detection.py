"""Recovery of batches whose flow run was lost. Interruptions fail no document; one that kills its process fails alone.

An orderly interruption, such as a worker's restart, returns the lease and does not count. Other losses are attributed
to the work in progress, until it makes progress: with a high weight if its process died, a low one if the whole worker
was lost. From `items.ALONE` on a document runs alone, and fails alone if its process keeps dying.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.ingestion import discover
from retrieval.ingestion.queries import poison
from retrieval.jobs.queries import batches, breakers
from retrieval.jobs.queries.batches import DocumentKey, Lease, Open
from retrieval.metrics import catalog, counts
from retrieval.statuses import DocumentStatus

DEATH = 10
"""Held against the work whose process died under a living worker, or whose flow failed."""
LOSS = 1
"""Held against the work whose worker was lost with all its processes, or did not renew its lease in time."""
NOBODY = 10
"""So many times more often a batch may be lost before it fails where nothing that it did can be to blame."""


@contextmanager
def mark_alone(db: Database, lease: Lease, what: str) -> Iterator[None]:
    """While the worker does nothing else than this document, or this job run's listing. `what`: its id."""
    poison.set_at_work(db, lease, what)
    yield
    poison.set_at_work(db, lease, None)


def start_again(db: Database, batch: Open, *, weight: int = 0, attempts: int = 1) -> bool:
    """Fence off the current holder of the batch and let the dispatcher start a new attempt.

    `weight`: how much this attempt counts against the documents in progress, 0 after an orderly interruption. Documents
    that reach `attempts` deaths on their own fail with the reason. False, with nothing changed, if the holder is still
    writing: it is alive.
    """
    with db.transaction() as connection:
        at_work = poison.lock_batch(connection, batch.id, batch.attempt)
        if at_work is None:
            return False
        if weight:
            counts.add_count(catalog.LEASES_LOST)
        hopeless = False
        if weight and at_work.what is not None:
            _blame_alone(connection, batch.id, at_work.what, weight, attempts * DEATH)
        elif weight and not poison.blame_together(connection, batch.id, weight, DEATH):
            hopeless = poison.blame_batch(connection, batch.id, weight) >= attempts * DEATH * NOBODY
        poison.begin_attempt(connection, batch.id)
        breakers.let_go(connection, batch.id)
    if hopeless:
        last = Open(batch.id, batch.attempt + 1, "", claimed=False, lease_lost=False, dispatched=batch.dispatched)
        reason = "The worker died or failed again and again before it could begin; see the flow run in Prefect."
        batches.end_batch(db, last, status=DocumentStatus.FAILED, error=reason)
    return True


def _blame_alone(connection: ThreadConnection, batch_id: str, what: str, weight: int, most: int) -> None:
    suspects = poison.blame_document(connection, batch_id, what, weight)
    reason = "The worker's process died or failed each time it came to this document; see the flow runs in Prefect."
    hopeless = [DocumentKey(suspect.job_run_id, suspect.document_id) for suspect in suspects if suspect.blame >= most]
    batches.close_documents(connection, dict.fromkeys(hopeless, reason), status=DocumentStatus.FAILED)
    blame = poison.blame_listing(connection, batch_id, what, weight)
    if blame is not None and blame >= most:
        reason = "The worker's process died or failed each time it listed this; see the flow runs in Prefect."
        discover.give_up(connection, what, reason)
