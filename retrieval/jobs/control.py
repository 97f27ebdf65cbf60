"""Management of job runs: list, cancel, retry failed documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from retrieval import ids as made_ids
from retrieval import job_config, origin
from retrieval.database import pagination, partitions
from retrieval.database.database import Database
from retrieval.database.pagination import Page
from retrieval.errors import ErrorCode, ServiceError
from retrieval.jobs import names, run_outcome, runs
from retrieval.jobs.queries import batches, passwords, run_lists
from retrieval.jobs.queries.batches import DocumentKey
from retrieval.jobs.queries.passwords import Seal
from retrieval.jobs.queries.retry import OPEN_DOCUMENTS_QUERY, RETRY_STATEMENT, changed_job_params
from retrieval.jobs.queries.run_lists import ListedRun, Sort
from retrieval.jobs.run_outcome import Notice
from retrieval.ports import Scope
from retrieval.statuses import DocumentStatus

RUN_PAGE_SIZE = 50
MAX_RUN_IDS = 100


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Job run without documents."""

    id: str
    number: int
    job_id: str
    source: str
    status: str
    created_at: datetime
    updated_at: datetime
    progress: Mapping[str, int]
    timings: Mapping[str, float]
    flow_run_id: str | None
    name: str
    outcome: str | None
    notices: list[Notice]
    dry_run: bool = False
    trigger: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


def _summarize(run: ListedRun) -> RunSummary:
    return RunSummary(
        run.id,
        run.number,
        run.job_id,
        run.tested_source or run.source,
        run.status,
        run.created_at,
        run.updated_at,
        run.progress,
        run.timings,
        run.flow_run_id,
        names.run_name(run),
        run.outcome,
        run_outcome.run_notices(run.source, run.outcome, run.progress),
        dry_run=bool(run.tested_source),
        trigger=run.trigger,
        started_at=run.started_at,
        finished_at=run.finished_at,
    )


async def list_page(
    db: Database,
    scope: Scope,
    *,
    status: str | None = None,
    outcome: str | None = None,
    source: str | None = None,
    name_part: str | None = None,
    ids: Sequence[str] | None = None,
    cursor: str | None = None,
    size: int = RUN_PAGE_SIZE,
    sort: Sort = "newest",
) -> tuple[Page[RunSummary], int | None]:
    """List a page of the scope's job runs with their number (None if filtered by `outcome` or `name_part`)."""
    # Such a count would compute each run. By age, a page starts after the cursor's run, whatever was accepted later.
    params = {"status": status, "outcome": outcome, "source": source, "about": name_part, "ids": ids and list(ids)}
    values = {**partitions.scope_params(scope), **params, **pagination.number_params(cursor, size)}
    rows = await run_lists.list_runs(db, sort, values)
    by_age = sort in ("newest", "oldest")
    offset = int(cursor or 0) + size
    page = pagination.take_page(list(map(_summarize, rows)), size, lambda run: str(run.number if by_age else offset))
    if outcome is not None or name_part is not None:
        return page, None
    return page, await run_lists.count_runs(db, values)


def cancel_run(db: Database, scope: Scope, job_run_id: str) -> None:
    """Cancel a job run: at once without a worker, else between two steps of its flow. Blocks the thread."""
    with db.transaction() as connection:
        run = connection.fetch_one(_ScopedRun, _FIND_RUN_QUERY, {**partitions.scope_params(scope), "run": job_run_id})
        if run is None:
            raise runs.not_found()
        is_idle = run.batch_id is None or connection.execute(_LOCK_IDLE_BATCH_QUERY, {"batch": run.batch_id}).rowcount
        connection.execute(
            "update job_runs set cancel_requested = true, updated_at = now() where id = %(id)s and finished_at is null",
            {"id": run.id},
        )
        if not is_idle:
            return
        keys = connection.fetch(DocumentKey, OPEN_DOCUMENTS_QUERY, {"id": run.id})
        batches.close_documents(connection, dict.fromkeys(keys), status=DocumentStatus.CANCELLED)
        ended = connection.fetch(
            str,
            "update job_runs set status = 'COMPLETED', finished_at = now() where id = %(id)s and finished_at is null"
            " returning id",
            {"id": run.id},
        )
        batches.sweep_target_stores(connection, ended)


class _ScopedRun(NamedTuple):
    id: str
    batch_id: str | None
    source: str


_FIND_RUN_QUERY: LiteralString = """
    select r.id, r.batch_id, r.source from job_runs r
    join partitions p on p.id = r.partition_id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    where r.id = %(run)s for update of r
"""
# A worker that claims the batch waits until the job run has ended. A locked batch counts as active.
_LOCK_IDLE_BATCH_QUERY: LiteralString = (
    "select from batches where id = %(batch)s and lease_until is null and finished_at is null for update skip locked"
)


async def retry_run(
    db: Database,
    scope: Scope,
    job_run_id: str,
    changes: Mapping[str, Any] | None = None,
    *,
    causes: Sequence[str] | None = None,
    seal: Seal | None = None,
) -> str:
    """Queue the failed documents of a run as a new run of the same job; return its id. INVALID_REQUEST without such
    documents."""
    # Content comes from storage; documents ingested or retried since are skipped. `changes` to the configuration need a
    # copy of the job, impossible for sources that list: the next listing would use the old configuration.
    new = made_ids.job_run_id()
    async with db.async_transaction() as connection:
        values: dict[str, Any] = {
            **partitions.scope_params(scope),
            "run": job_run_id,
            "new": new,
            "causes": list(causes) if causes else None,
            **origin.origin_params(),
        }
        values |= changed_job_params(changes)
        run = await connection.async_fetch_one(_ScopedRun, _FIND_RUN_QUERY, values)
        if run is None:
            raise runs.not_found()
        if changes and run.source not in job_config.CHANGEABLE_SOURCES:
            message = "Only texts, files and URL lists are retried with another ocrConfig or chunkConfig."
            raise ServiceError(ErrorCode.INVALID_REQUEST, message, reason="not_changeable")
        if await connection.async_fetch_one(str, RETRY_STATEMENT, values) is None:
            message = "This job run has no failed document that could be run again."
            raise ServiceError(ErrorCode.INVALID_REQUEST, message, reason="nothing_to_retry")
        if seal:
            await passwords.store_password(connection, [new], seal)
    return new
