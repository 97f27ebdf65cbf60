"""Dry runs: job runs that report the result of an ingestion without writing anything else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, LiteralString

from retrieval import ids, job_config, origin
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.job_config import Ingestion, JobConfig
from retrieval.jobs.queries import acceptance, batches
from retrieval.jobs.queries.batches import Lease
from retrieval.jobs.runs import RunReceipt
from retrieval.namespaces import namespaces
from retrieval.ports import Scope

# Source of the job run, which selects the flow of dry runs. The source to try is `JobConfig.dry_run`.
DRY_RUN_SOURCE = "DRY_RUN"

_OPEN_RUNS_QUERY: LiteralString = f"""
    select r.id, {job_config.STORED_CONFIG} as config, i.content from job_runs r join jobs j on j.id = r.job_id
    left join inbox i on i.job_run_id = r.id
    where r.batch_id = %(batch)s and r.finished_at is null and not r.cancel_requested order by r.number
"""


async def accept_dry_run(
    db: Database,
    scope: Scope,
    *,
    source: str,
    request: Mapping[str, Any],
    ingestion: Ingestion,
    connection_id: str | None = None,
    content: str | None = None,
) -> RunReceipt:
    """Record a dry run of `source`. `content`: text of a request with a text."""
    values = {
        **partitions.scope_params(scope),
        "job": ids.job_id(),
        "run": ids.job_run_id(),
        "source": DRY_RUN_SOURCE,
        "config": JobConfig(ingestion, request, connection_id, dry_run=source).dump(),
        "document": ids.document_id(),
        "content": content,
        **origin.origin_params(),
    }
    job_run_id = await acceptance.record_run(db, acceptance.DRY_RUN_STATEMENT, values)
    if job_run_id is None:
        raise namespaces.not_found()
    return RunReceipt(job_run_id)


@dataclass(frozen=True, slots=True)
class PendingDryRun:
    """Dry run without a report. `content`: text of a request with a text."""

    id: str
    config: dict[str, Any]
    content: str | None


def pending_dry_runs(db: Database, lease: Lease) -> list[PendingDryRun]:
    """List the batch's runs without a report."""
    return db.fetch(PendingDryRun, _OPEN_RUNS_QUERY, {"batch": lease.batch_id})


def begin_dry_run(db: Database, lease: Lease, job_run_id: str, *, status: str) -> None:
    """Set the status PRE_PROCESSING (listing) or PROCESSING."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        connection.execute(
            "update job_runs set status = %(status)s, started_at = coalesce(started_at, now()), updated_at = now()"
            " where id = %(run)s and status in ('QUEUED', 'PRE_PROCESSING') and status <> %(status)s",
            {"run": job_run_id, "status": status},
        )


def finish_dry_run(db: Database, lease: Lease, job_run_id: str, progress: Mapping[str, Any]) -> None:
    """Complete the run; `progress` holds its `report`, or the `verdict` of a failure."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        _delete_text(connection, job_run_id)
        connection.execute(
            "update job_runs set progress = progress || %(found)s::jsonb, status = 'COMPLETED', to_discover = false,"
            " finished_at = now(), updated_at = now()"
            " where id = %(run)s and finished_at is null and not cancel_requested",
            {"run": job_run_id, "found": json.dumps(dict(progress))},
        )


def close_cancelled(db: Database, lease: Lease) -> None:
    """End the batch's cancelled runs."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        ended = connection.fetch(
            str,
            "update job_runs set status = 'COMPLETED', finished_at = now(), updated_at = now()"
            " where batch_id = %(batch)s and finished_at is null and cancel_requested returning id",
            {"batch": lease.batch_id},
        )
        for job_run_id in ended:
            _delete_text(connection, job_run_id)


def _delete_text(connection: ThreadConnection, job_run_id: str) -> None:
    connection.execute("delete from inbox where job_run_id = %(run)s", {"run": job_run_id})
