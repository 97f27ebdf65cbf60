"""Dry runs: job runs that find out what an ingestion would do, and write nothing but a report of it.

They have a source of their own, so that they go through a flow of their own; `job_config.JobConfig.dry_run` names the
one that is tried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, LiteralString

from psycopg import Connection

from retrieval import ids, job_config, origin
from retrieval.database import scopes
from retrieval.database.database import Database, Row
from retrieval.job_config import Ingestion, JobConfig
from retrieval.jobs import acceptance, batches
from retrieval.jobs.batches import Lease
from retrieval.jobs.runs import Receipt
from retrieval.namespaces import namespaces
from retrieval.ports import Scope

SOURCE = "DRY_RUN"

_OPEN: LiteralString = f"""
    select r.id, {job_config.ASKED} as config, i.content from job_runs r join jobs j on j.id = r.job_id
    left join inbox i on i.job_run_id = r.id
    where r.batch_id = %(batch)s and r.finished_at is null and not r.cancel_requested order by r.number
"""


async def accept(
    db: Database,
    scope: Scope,
    *,
    source: str,
    request: Mapping[str, Any],
    ingestion: Ingestion,
    connection_id: str | None = None,
    content: str | None = None,
) -> Receipt:
    """Record a dry run of `source`. `content`: the text where that is what would be ingested."""
    values = {
        **scopes.params(scope),
        "job": ids.job_id(),
        "run": ids.job_run_id(),
        "source": SOURCE,
        "config": JobConfig(ingestion, request, connection_id, dry_run=source).dump(),
        "document": ids.document_id(),
        "content": content,
        **origin.values(),
    }
    for _ in range(2):
        row = await db.async_row(acceptance.DRY_RUN, values)
        if row is not None:
            return Receipt(row["job_run_id"])
    raise namespaces.not_found()


def waiting(db: Database, lease: Lease) -> list[Row]:
    """The batch's runs that have no report yet: `id`, `config` and, of a text, `content`."""
    return db.rows(_OPEN, {"batch": lease.batch_id})


def begin(db: Database, lease: Lease, job_run_id: str, *, status: str) -> None:
    """PRE_PROCESSING while it lists, PROCESSING from then on."""
    with db.transaction() as connection:
        batches.guard(connection, lease)
        connection.execute(
            "update job_runs set status = %(status)s, started_at = coalesce(started_at, now()), updated_at = now()"
            " where id = %(run)s and status in ('QUEUED', 'PRE_PROCESSING') and status <> %(status)s",
            {"run": job_run_id, "status": status},
        )


def finish(db: Database, lease: Lease, job_run_id: str, found: Mapping[str, Any]) -> None:
    """The run is at its end. `found`: `report`, or the `verdict` that none could be made, for its progress."""
    with db.transaction() as connection:
        batches.guard(connection, lease)
        _forget_text(connection, job_run_id)
        connection.execute(
            "update job_runs set progress = progress || %(found)s::jsonb, status = 'COMPLETED', to_discover = false,"
            " finished_at = now(), updated_at = now()"
            " where id = %(run)s and finished_at is null and not cancel_requested",
            {"run": job_run_id, "found": json.dumps(dict(found))},
        )


def close_cancelled(db: Database, lease: Lease) -> None:
    """End the batch's runs that were cancelled meanwhile."""
    with db.transaction() as connection:
        batches.guard(connection, lease)
        rows = connection.execute(
            "update job_runs set status = 'COMPLETED', finished_at = now(), updated_at = now()"
            " where batch_id = %(batch)s and finished_at is null and cancel_requested returning id",
            {"batch": lease.batch_id},
        ).fetchall()
        for row in rows:
            _forget_text(connection, row["id"])


def _forget_text(connection: Connection[Row], job_run_id: str) -> None:
    connection.execute("delete from inbox where job_run_id = %(run)s", {"run": job_run_id})
