"""Recovery of batches with a lost flow run: only documents repeatedly crashing the process fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.ingestion import discover
from retrieval.ingestion.queries import crashes
from retrieval.jobs.queries import batches, breakers
from retrieval.jobs.queries.batches import DocumentKey, Lease, OpenBatch
from retrieval.metrics import catalog, counts
from retrieval.statuses import DocumentStatus

# An orderly interruption returns the lease and does not count. Other losses blame the work in progress. From
# `items.ISOLATION_BLAME` on, a document runs in a window of its own and fails at `max_attempts` * `DEATH_BLAME`.

# Blame if the process died under a living worker, or the flow failed.
DEATH_BLAME = 10
# Blame if the worker was lost with all processes, or did not renew its lease in time.
LOSS_BLAME = 1
# A batch without suspects fails at this multiple of a document's limit of blame.
UNATTRIBUTED_LOSS_FACTOR = 10


@contextmanager
def mark_isolated(db: Database, lease: Lease, work_id: str) -> Iterator[None]:
    """Mark this document or job run listing as the only work of the worker during the context."""
    crashes.set_isolated_work(db, lease, work_id)
    yield
    crashes.set_isolated_work(db, lease, None)


def restart_batch(db: Database, batch: OpenBatch, *, blame: int = 0, max_attempts: int = 1) -> bool:
    """Fence off the holder, blame the crash on its documents, fail those over the limit, and queue a new attempt.

    Returns False if the holder is still writing.
    """
    with db.transaction() as connection:
        at_work = crashes.lock_batch(connection, batch.id, batch.attempt)
        if at_work is None:
            return False
        if blame:
            counts.add_count(catalog.LEASES_LOST)
        # A blame of 0 is an orderly interruption.
        is_hopeless = False
        if blame and at_work.work_id is not None:
            _blame_isolated(connection, batch.id, at_work.work_id, blame, max_attempts * DEATH_BLAME)
        elif blame and not crashes.blame_together(connection, batch.id, blame, DEATH_BLAME):
            is_hopeless = (
                crashes.blame_batch(connection, batch.id, blame)
                >= max_attempts * DEATH_BLAME * UNATTRIBUTED_LOSS_FACTOR
            )
        crashes.begin_attempt(connection, batch.id)
        breakers.release_probe(connection, batch.id)
    if is_hopeless:
        final_attempt = OpenBatch(
            batch.id,
            batch.attempt + 1,
            "",
            claimed=False,
            lease_lost=False,
            seconds_since_dispatch=batch.seconds_since_dispatch,
        )
        reason = "The worker died or failed again and again before it could begin; see the flow run in Prefect."
        batches.end_batch(db, final_attempt, status=DocumentStatus.FAILED, error=reason)
    return True


def _blame_isolated(connection: ThreadConnection, batch_id: str, work_id: str, blame: int, max_blame: int) -> None:
    suspects = crashes.blame_document(connection, batch_id, work_id, blame)
    reason = "The worker's process died or failed each time it came to this document; see the flow runs in Prefect."
    hopeless = [
        DocumentKey(suspect.job_run_id, suspect.document_id) for suspect in suspects if suspect.blame >= max_blame
    ]
    batches.close_documents(connection, dict.fromkeys(hopeless, reason), status=DocumentStatus.FAILED)
    listing_blame = crashes.blame_listing(connection, batch_id, work_id, blame)
    if listing_blame is not None and listing_blame >= max_blame:
        reason = "The worker's process died or failed each time it listed this; see the flow runs in Prefect."
        discover.abandon_listing(connection, work_id, reason)
