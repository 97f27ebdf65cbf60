"""The trial of a new generation: searches that see it while nobody else does, and what came of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg

from retrieval.database.database import Database
from retrieval.database.schema.content import Document
from retrieval.ingestion.reembedding import GATE, row_name
from retrieval.jobs import batches
from retrieval.jobs.batches import Lease
from retrieval.security.secrets import KeyRing
from retrieval.statuses import Stage, sql

_GENERATION = "active_generation"

_FORGET: LiteralString = "deallocate all"
"""Statements that this connection has prepared mean the table."""


def asked(db: Database, keys: KeyRing, lease: Lease) -> dict[str, Any] | None:
    """The gate as it was sent, None where there is none."""
    row = db.row("select id, pending from namespaces where id = %(id)s", {"id": lease.scope.namespace})
    if row is None or row["pending"] is None:
        return None
    found: dict[str, Any] | None = json.loads(keys.open(row["pending"], row=row_name(row["id"], "pending"))).get(GATE)
    return found


@contextmanager
def shadow(db: Database, job_run_id: str) -> Iterator[None]:
    """Within the block this thread's searches find the shadow that the job run has built, in place of what is visible.

    `documents` is a view of this connection alone, which the end of its transaction takes away; nothing is locked.
    """
    columns = ", ".join(
        f"w.generation as {_GENERATION}" if column.name == _GENERATION else f'd."{column.name}"'
        for column in Document.__table__.columns  # type: ignore[attr-defined]
    )
    view = psycopg.sql.SQL(
        f"create temporary view documents as select {columns} from documents d"
        f" join run_documents w on w.document_id = d.id and w.job_run_id = {{run}} and w.stage = {sql(Stage.UPSERTED)}"
    ).format(run=psycopg.sql.Literal(job_run_id))
    with db.together():
        with db.transaction() as connection:
            connection.execute(_FORGET)
            connection.execute(view)
        yield
        raise psycopg.Rollback


def note(db: Database, lease: Lease, job_run_id: str, verdict: Mapping[str, Any]) -> None:
    """Keep with the job run what came out: `passed`, `told` and `questions`."""
    with db.transaction() as connection:
        batches.guard(connection, lease)
        connection.execute(
            "update job_runs set progress = progress || %(progress)s::jsonb, updated_at = now() where id = %(run)s",
            {"run": job_run_id, "progress": json.dumps({"verdict": dict(verdict)})},
        )
