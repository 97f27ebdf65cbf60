"""Statements on documents and listings that may have crashed a process."""

from __future__ import annotations

from collections.abc import Collection
from typing import LiteralString, NamedTuple

from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.ingestion.items import ISOLATION_BLAME
from retrieval.jobs.queries.batches import DocumentKey, Lease


class IsolatedWork(NamedTuple):
    """Isolated work of a batch; None for several documents."""

    work_id: str | None


class Suspect(NamedTuple):
    """Document and the crashes recorded for it."""

    job_run_id: str
    document_id: str
    blame: int


def list_suspects(db: Database, lease: Lease) -> list[DocumentKey]:
    """Return unfinished documents that may have crashed a process, least suspicious first."""
    return db.fetch(
        DocumentKey,
        """
        select d.job_run_id, d.document_id from run_documents d join job_runs r on r.id = d.job_run_id
        where r.batch_id = %(batch)s and d.status in ('QUEUED', 'PROCESSING') and d.blame >= %(isolation_blame)s
        order by d.blame, r.number, d.position
        """,
        {"batch": lease.batch_id, "isolation_blame": ISOLATION_BLAME},
    )


def clear_suspects(connection: ThreadConnection, lease: Lease, documents: Collection[str]) -> None:
    """Reset the crash counts of documents that made progress."""
    connection.execute(
        "update run_documents d set blame = 0 from job_runs r where r.id = d.job_run_id and r.batch_id = %(batch)s"
        " and d.document_id = any(%(documents)s) and d.blame > 0",
        {"batch": lease.batch_id, "documents": list(documents)},
    )


def release_lease(db: Database, lease: Lease) -> None:
    """Return the lease after an orderly interruption, so that another worker may continue at once."""
    db.execute(
        "update batches set released = true where id = %(batch)s and fence = %(fence)s and finished_at is null",
        {"batch": lease.batch_id, "fence": lease.fence},
    )


def set_isolated_work(db: Database, lease: Lease, work_id: str | None) -> None:
    db.execute(
        "update batches set at_work = %(what)s where id = %(batch)s and fence = %(fence)s",
        {"batch": lease.batch_id, "fence": lease.fence, "what": work_id},
    )


def lock_batch(connection: ThreadConnection, batch_id: str, attempt: int) -> IsolatedWork | None:
    """Lock a batch in this attempt; None if the batch has ended or its holder is writing."""
    return connection.fetch_one(
        IsolatedWork,
        "select at_work as work_id from batches where id = %(id)s and attempt = %(attempt)s and finished_at is null"
        " for update skip locked",
        {"id": batch_id, "attempt": attempt},
    )


def begin_attempt(connection: ThreadConnection, batch_id: str) -> None:
    """Fence off the holder and queue the batch again."""
    connection.execute(
        """
        update batches set attempt = attempt + 1, fence = fence + 1, lease_until = null, dispatched_at = null,
                           flow_run_id = null, released = false, at_work = null, suspended_at = null, resumes = false
        where id = %(id)s
        """,
        {"id": batch_id},
    )


def blame_together(connection: ThreadConnection, batch_id: str, weight: int, max_blame: int) -> bool:
    """Add to the crash counts of all documents in progress, up to `max_blame`; False without any."""
    # The limit keeps shared blame from failing a document.
    return bool(
        connection.execute(
            """
            update run_documents d set blame = least(d.blame + %(weight)s, %(max_blame)s) from job_runs r
            where r.id = d.job_run_id and r.batch_id = %(id)s and d.status = 'PROCESSING' and d.blame < %(max_blame)s
            """,
            {"id": batch_id, "weight": weight, "max_blame": max_blame},
        ).rowcount
    )


def blame_batch(connection: ThreadConnection, batch_id: str, weight: int) -> int:
    statement: LiteralString = "update batches set blame = blame + %(weight)s where id = %(id)s returning blame"
    return connection.fetch_one(int, statement, {"id": batch_id, "weight": weight}) or 0


def blame_document(connection: ThreadConnection, batch_id: str, document_id: str, weight: int) -> list[Suspect]:
    """Add to the crash count of a document, in each of its job runs."""
    return connection.fetch(
        Suspect,
        """
        update run_documents d set blame = d.blame + %(weight)s from job_runs r
        where r.id = d.job_run_id and r.batch_id = %(id)s and d.document_id = %(what)s and d.status = 'PROCESSING'
        returning d.job_run_id, d.document_id, d.blame
        """,
        {"id": batch_id, "what": document_id, "weight": weight},
    )


def blame_listing(connection: ThreadConnection, batch_id: str, job_run_id: str, weight: int) -> int | None:
    """Add to the crash count of a job run's listing; None if the job run does not list."""
    statement: LiteralString = (
        "update job_runs set blame = blame + %(weight)s where id = %(what)s and batch_id = %(id)s and to_discover"
        " and finished_at is null returning blame"
    )
    return connection.fetch_one(int, statement, {"id": batch_id, "what": job_run_id, "weight": weight})
