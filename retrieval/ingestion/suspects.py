"""Documents that may have killed their process (`losses`): which they are, and how they are cleared."""

from __future__ import annotations

from collections.abc import Collection

from psycopg import Connection

from retrieval.database.database import Database, Row
from retrieval.ingestion.items import ALONE, Key
from retrieval.jobs.batches import Lease


def alone(db: Database, lease: Lease) -> list[Key]:
    """What is not at its end and may be to blame for the loss of a process, least of all first."""
    rows = db.rows(
        """
        select d.job_run_id, d.document_id from run_documents d join job_runs r on r.id = d.job_run_id
        where r.batch_id = %(batch)s and d.status in ('QUEUED', 'PROCESSING') and d.blame >= %(alone)s
        order by d.blame, r.number, d.position
        """,
        {"batch": lease.batch_id, "alone": ALONE},
    )
    return [Key(row["job_run_id"], row["document_id"]) for row in rows]


def clear(connection: Connection[Row], lease: Lease, documents: Collection[str]) -> None:
    """These got on since a process was lost: nothing is held against them any more."""
    connection.execute(
        "update run_documents d set blame = 0 from job_runs r where r.id = d.job_run_id and r.batch_id = %(batch)s"
        " and d.document_id = any(%(documents)s) and d.blame > 0",
        {"batch": lease.batch_id, "documents": list(documents)},
    )
