"""Suspended flow runs: by a person, or waiting for their turn or a vendor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from retrieval.database.database import Database
from retrieval.jobs.queries import breakers
from retrieval.jobs.queries.batches import (
    Batch,
    DocumentKey,
    Lease,
    OpenBatch,
    close_documents,
    guard_lease,
    sweep_target_stores,
)
from retrieval.statuses import DocumentStatus


@dataclass(frozen=True, slots=True)
class SuspendedBatch:
    """Batch with a suspended flow run, and the number of waiting job runs."""

    id: str
    flow_run_id: str
    unfinished_runs: int


def record_suspension(db: Database, batch: OpenBatch) -> None:
    """Record the suspension of an open batch by a person; the worker stops and returns the lease."""
    db.execute(
        "update batches set suspended_at = now() where id = %(id)s and attempt = %(attempt)s and finished_at is null",
        {"id": batch.id, "attempt": batch.attempt},
    )


def record_resumption(db: Database, batch: OpenBatch) -> None:
    """Record the resumption of an open batch by a person; it waits for a worker again."""
    db.execute(
        "update batches set suspended_at = null, dispatched_at = now()"
        " where id = %(id)s and attempt = %(attempt)s and finished_at is null and suspended_at is not null",
        {"id": batch.id, "attempt": batch.attempt},
    )


def is_suspended(db: Database, lease: Lease) -> bool:
    """Return whether a person suspended the flow run."""
    statement: LiteralString = (
        "select suspended_at is not null from batches where id = %(batch)s and finished_at is null"
    )
    return bool(db.fetch_one(bool, statement, {"batch": lease.batch_id}))


def leave_suspended(db: Database, lease: Lease) -> None:
    """Return the lease of a batch that a person suspended."""
    with db.transaction() as connection:
        guard_lease(connection, lease)
        connection.execute(
            "update batches set lease_until = null, at_work = null where id = %(id)s", {"id": lease.batch_id}
        )
        breakers.release_probe(connection, lease.batch_id, lease.partition)


def suspended_batches(db: Database) -> list[SuspendedBatch]:
    """List batches whose suspended flow runs wait for their turn."""
    return db.fetch(
        SuspendedBatch,
        """
        select b.id, b.flow_run_id, (
            select count(*) from job_runs r where r.resumes_batch = b.id and r.finished_at is null
        ) as unfinished_runs
        from batches b
        where b.finished_at is not null and b.suspended_at is not null and b.flow_run_id is not null
        order by b.suspended_at limit 1000
        """,
    )


def cancel_suspended(db: Database, batch_id: str, error: str | None) -> None:
    """Cancel the waiting job runs of a suspended flow run that ended in Prefect."""
    values = {"id": batch_id}
    with db.transaction() as connection:
        runs = connection.fetch(
            str,
            "select id from job_runs where resumes_batch = %(id)s and finished_at is null order by number for update",
            values,
        )
        documents = connection.fetch(
            DocumentKey,
            "select job_run_id, document_id from run_documents"
            " where job_run_id = any(%(runs)s) and status in ('QUEUED', 'PROCESSING')",
            {"runs": runs},
        )
        close_documents(connection, dict.fromkeys(documents, error), status=DocumentStatus.CANCELLED)
        connection.execute(
            "update job_runs set status = 'COMPLETED', finished_at = now(), updated_at = now(), cancel_requested = true"
            " where id = any(%(runs)s)",
            {"runs": runs},
        )
        sweep_target_stores(connection, runs)
        connection.execute("update batches set suspended_at = null where id = %(id)s", values)


def forget_suspended(db: Database, batch_id: str) -> None:
    """Record the end of a suspended flow run; waiting job runs get a new flow run."""
    with db.transaction() as connection:
        connection.execute("update job_runs set resumes_batch = null where resumes_batch = %(id)s", {"id": batch_id})
        connection.execute(
            "update batches set suspended_at = null where id = %(id)s and finished_at is not null", {"id": batch_id}
        )


def begin_without_flow_run(db: Database, batch: Batch) -> None:
    """Begin a new attempt of a batch whose suspended flow run cannot be resumed."""
    db.execute(
        "update batches set attempt = attempt + 1, fence = fence + 1, flow_run_id = null, resumes = false"
        " where id = %(id)s and attempt = %(attempt)s and dispatched_at is null and finished_at is null",
        {"id": batch.id, "attempt": batch.attempt},
    )
