"""Recovery of batches whose flow run was lost. Interruptions fail no document; one that kills its process fails alone.

An orderly interruption, such as a worker's restart, returns the lease and does not count. Other losses are attributed
to the work in progress, until it makes progress: with a high weight if its process died, a low one if the whole worker
was lost. From `items.ALONE` on a document runs alone, and fails alone if its process keeps dying.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString, NamedTuple

from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.ingestion import discover
from retrieval.ingestion.items import ALONE
from retrieval.jobs.queries import batches, breakers
from retrieval.jobs.queries.batches import DocumentKey, Lease, Open
from retrieval.metrics import catalog, counts
from retrieval.statuses import DocumentStatus


def list_suspects(db: Database, lease: Lease) -> list[DocumentKey]:
    """Return unfinished documents that may have crashed a process, the least suspicious first."""
    return db.fetch(
        DocumentKey,
        """
        select d.job_run_id, d.document_id from run_documents d join job_runs r on r.id = d.job_run_id
        where r.batch_id = %(batch)s and d.status in ('QUEUED', 'PROCESSING') and d.blame >= %(alone)s
        order by d.blame, r.number, d.position
        """,
        {"batch": lease.batch_id, "alone": ALONE},
    )


def clear_suspects(connection: ThreadConnection, lease: Lease, documents: Collection[str]) -> None:
    """Reset the crash counts of documents that made progress since."""
    connection.execute(
        "update run_documents d set blame = 0 from job_runs r where r.id = d.job_run_id and r.batch_id = %(batch)s"
        " and d.document_id = any(%(documents)s) and d.blame > 0",
        {"batch": lease.batch_id, "documents": list(documents)},
    )


DEATH = 10
"""Held against the work whose process died under a living worker, or whose flow failed."""
LOSS = 1
"""Held against the work whose worker was lost with all its processes, or did not renew its lease in time."""
NOBODY = 10
"""So many times more often a batch may be lost before it fails where nothing that it did can be to blame."""


def release_lease(db: Database, lease: Lease) -> None:
    """Hand the lease back: the work was interrupted in good order and may go on elsewhere at once."""
    db.execute(
        "update batches set released = true where id = %(batch)s and fence = %(fence)s and finished_at is null",
        {"batch": lease.batch_id, "fence": lease.fence},
    )


@contextmanager
def mark_alone(db: Database, lease: Lease, what: str) -> Iterator[None]:
    """While the worker does nothing else than this document, or this job run's listing. `what`: its id."""
    _at_work(db, lease, what)
    yield
    _at_work(db, lease, None)


def _at_work(db: Database, lease: Lease, what: str | None) -> None:
    db.execute(
        "update batches set at_work = %(what)s where id = %(batch)s and fence = %(fence)s",
        {"batch": lease.batch_id, "fence": lease.fence, "what": what},
    )


def start_again(db: Database, batch: Open, *, weight: int = 0, attempts: int = 1) -> bool:
    """Fence off the current holder of the batch and let the dispatcher start a new attempt.

    `weight`: how much this attempt counts against the documents in progress, 0 after an orderly interruption. Documents
    that reach `attempts` deaths on their own fail with the reason. False, with nothing changed, if the holder is still
    writing: it is alive.
    """
    values = {"id": batch.id, "attempt": batch.attempt, "weight": weight}
    with db.transaction() as connection:
        at_work = connection.fetch_one(
            _AtWork,
            "select at_work as what from batches where id = %(id)s and attempt = %(attempt)s and finished_at is null"
            " for update skip locked",
            values,
        )
        if at_work is None:
            return False
        if weight:
            counts.add_count(catalog.LEASES_LOST)
        hopeless = False
        if weight and at_work.what is not None:
            _blame_alone(connection, batch.id, at_work.what, weight, attempts * DEATH)
        elif weight and not connection.execute(_BLAME_TOGETHER, {**values, "most": DEATH}).rowcount:
            hopeless = _blame_batch(connection, batch.id, weight) >= attempts * DEATH * NOBODY
        connection.execute(_NEXT_ATTEMPT, values)
        breakers.let_go(connection, batch.id)
    if hopeless:
        last = Open(batch.id, batch.attempt + 1, "", claimed=False, lease_lost=False, dispatched=batch.dispatched)
        reason = "The worker died or failed again and again before it could begin; see the flow run in Prefect."
        batches.end_batch(db, last, status=DocumentStatus.FAILED, error=reason)
    return True


class _AtWork(NamedTuple):
    what: str | None


class _Suspect(NamedTuple):
    job_run_id: str
    document_id: str
    blame: int


_NEXT_ATTEMPT: LiteralString = """
    update batches set attempt = attempt + 1, fence = fence + 1, lease_until = null, dispatched_at = null,
                       flow_run_id = null, released = false, at_work = null where id = %(id)s
"""
_BLAME_TOGETHER: LiteralString = """
    update run_documents d set blame = least(d.blame + %(weight)s, %(most)s) from job_runs r
    where r.id = d.job_run_id and r.batch_id = %(id)s and d.status = 'PROCESSING' and d.blame < %(most)s
"""
"""Several at once: one of them may be to blame. That alone makes none of them fail."""


def _blame_batch(connection: ThreadConnection, batch_id: str, weight: int) -> int:
    statement: LiteralString = "update batches set blame = blame + %(weight)s where id = %(id)s returning blame"
    return connection.fetch_one(int, statement, {"id": batch_id, "weight": weight}) or 0


def _blame_alone(connection: ThreadConnection, batch_id: str, what: str, weight: int, most: int) -> None:
    values: dict[str, Any] = {"id": batch_id, "what": what, "weight": weight}
    suspects = connection.fetch(
        _Suspect,
        """
        update run_documents d set blame = d.blame + %(weight)s from job_runs r
        where r.id = d.job_run_id and r.batch_id = %(id)s and d.document_id = %(what)s and d.status = 'PROCESSING'
        returning d.job_run_id, d.document_id, d.blame
        """,
        values,
    )
    reason = "The worker's process died or failed each time it came to this document; see the flow runs in Prefect."
    hopeless = [DocumentKey(suspect.job_run_id, suspect.document_id) for suspect in suspects if suspect.blame >= most]
    batches.close_documents(connection, dict.fromkeys(hopeless, reason), status=DocumentStatus.FAILED)
    blame = connection.fetch_one(
        int,
        "update job_runs set blame = blame + %(weight)s where id = %(what)s and batch_id = %(id)s and to_discover"
        " and finished_at is null returning blame",
        values,
    )
    if blame is not None and blame >= most:
        reason = "The worker's process died or failed each time it listed this; see the flow runs in Prefect."
        discover.give_up(connection, what, reason)
