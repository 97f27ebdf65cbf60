"""Completion of a batch's documents and job runs, and results for the flow's report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString, NamedTuple

from retrieval.database.database import Database
from retrieval.ingestion.queries import page_removals
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.sources import WEB_SOURCES
from retrieval.statuses import DocumentStatus


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """Counts of a batch's documents."""

    documents: int
    failed: int
    cancelled: int


@dataclass(frozen=True, slots=True)
class DocumentOutcome:
    """Row of the result table."""

    job_run_id: str
    document_id: str
    name: str
    status: str
    stage: str
    error: str | None
    chunks: int


@dataclass(frozen=True, slots=True)
class RemovalCounts:
    """Documents removed by the content service: deleted with the run, or held for confirmation."""

    removed: int
    held: int


NO_REMOVALS = RemovalCounts(0, 0)


def count_removed(db: Database, lease: Lease) -> RemovalCounts:
    """Count the removed documents of the batch's job runs."""
    removals = db.fetch_one(
        RemovalCounts,
        "select coalesce(sum((progress ->> 'removed')::int), 0)::int as removed,"
        " coalesce(max((progress ->> 'awaitingConfirmation')::int), 0) as held"
        " from job_runs where batch_id = %(batch)s",
        {"batch": lease.batch_id},
    )
    return removals or NO_REMOVALS


def count_progress(db: Database, lease: Lease) -> BatchProgress:
    """Count the batch's documents by status."""
    counts = db.fetch_one(
        BatchProgress,
        """
        select count(*) as documents, count(*) filter (where d.status = 'FAILED') as failed,
               count(*) filter (where d.status = 'CANCELLED') as cancelled
        from run_documents d join job_runs r on r.id = d.job_run_id where r.batch_id = %(batch)s
        """,
        {"batch": lease.batch_id},
    )
    return counts or BatchProgress(0, 0, 0)


def list_outcomes(db: Database, lease: Lease) -> list[DocumentOutcome]:
    """Return the status of each document of the batch."""
    return db.fetch(
        DocumentOutcome,
        """
        select d.job_run_id, d.document_id, d.name, d.status, d.stage, d.error,
               coalesce((d.properties ->> 'embeddingCount')::int, 0) as chunks
        from run_documents d join job_runs r on r.id = d.job_run_id
        where r.batch_id = %(batch)s order by r.number, d.position
        """,
        {"batch": lease.batch_id},
    )


def count_skipped(db: Database, lease: Lease) -> dict[str, int]:
    """Count the skipped pages of the batch's job runs, by reason."""
    reasons = db.fetch(
        _SkippedPages,
        "select key as reason, sum(value::int)::int as pages"
        " from job_runs r, jsonb_each_text(coalesce(r.progress -> 'skipped', '{}'))"
        " where r.batch_id = %(batch)s group by key order by key",
        {"batch": lease.batch_id},
    )
    return dict(reasons)


class _SkippedPages(NamedTuple):
    reason: str
    pages: int


def settle_runs(db: Database, lease: Lease) -> None:
    """Cancel documents of cancelled job runs and complete job runs without unfinished documents."""
    # After most steps nothing is due: one read replaces a transaction of six round trips.
    state = db.fetch_one(_BatchState, _BATCH_STATE_QUERY, {"batch": lease.batch_id, "fence": lease.fence})
    if state is not None and not state.is_due:
        return
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        cancelled = connection.fetch(
            DocumentKey,
            """
            select d.job_run_id, d.document_id from run_documents d join job_runs r on r.id = d.job_run_id
            where r.batch_id = %(batch)s and r.cancel_requested and d.status in ('QUEUED', 'PROCESSING')
            """,
            {"batch": lease.batch_id},
        )
        if cancelled:
            batches.close_documents(connection, dict.fromkeys(cancelled), status=DocumentStatus.CANCELLED)
        completed = connection.fetch(
            _CompletedRun,
            """
            update job_runs r set status = 'COMPLETED', finished_at = now(), updated_at = now()
            where r.batch_id = %(batch)s and r.finished_at is null and (r.cancel_requested or not r.to_discover)
              and not exists (select from run_documents d
                              where d.job_run_id = r.id and d.status in ('QUEUED', 'PROCESSING'))
            returning r.id, r.source, r.cancel_requested, not exists (
                select from job_runs o where o.job_id = r.job_id and o.number < r.number
            ) as is_first
            """,
            {"batch": lease.batch_id},
        )
        for run in completed:
            # A resync and a retry run a job again: they remove nothing.
            if run.source in WEB_SOURCES and run.is_first and not run.cancel_requested:
                page_removals.settle_removals(connection, run.id)


class _BatchState(NamedTuple):
    is_due: bool


# No row after another claim. A cancelled job run is due until its documents are closed.
_BATCH_STATE_QUERY: LiteralString = """
    select exists (
        select from job_runs r
        left join lateral (
            select true as found from run_documents d
            where d.job_run_id = r.id and d.status in ('QUEUED', 'PROCESSING') limit 1
        ) open on true
        where r.batch_id = b.id and (r.finished_at is null or r.cancel_requested)
          and case when open.found then r.cancel_requested
                   else r.finished_at is null and (r.cancel_requested or not r.to_discover) end
    ) as is_due
    from batches b where b.id = %(batch)s and b.fence = %(fence)s and b.finished_at is null
"""


class _CompletedRun(NamedTuple):
    id: str
    source: str
    cancel_requested: bool
    is_first: bool
