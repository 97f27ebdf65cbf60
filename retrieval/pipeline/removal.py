"""Removal: documents that are gone at their source leave every answer with the page that says so."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection

from retrieval import keyword
from retrieval.database import Row


def remove(connection: Connection[Row], job_run_id: str, external_ids: Sequence[str]) -> None:
    """Those of the run's source, partition and connection; unknown ones are no error. The sweep clears the stores."""
    if not external_ids:
        return
    gone = connection.execute(
        """
        select d.id, d.partition_id, d.active_generation from documents d join job_runs r on r.id = %(run)s
        join jobs j on j.id = r.job_id
        where d.partition_id = r.partition_id and d.source = r.source and d.external_id = any(%(external_ids)s)
          and d.connection_id is not distinct from (j.config ->> 'connectionId') and d.deleted_at is null
        order by d.id for no key update of d
        """,
        {"run": job_run_id, "external_ids": list(external_ids)},
    ).fetchall()
    names = {"ids": [row["id"] for row in gone]}
    connection.execute(
        """
        with gone as (
            update documents set deleted_at = now(), updated_at = now() where id = any(%(ids)s)
            returning id, partition_id
        )
        insert into sweeps (partition_id, kind, document_id) select partition_id, 'document', id from gone
        """,
        names,
    )
    for row in gone:
        _unindex(connection, row)


def _unindex(connection: Connection[Row], row: Row) -> None:
    chunks = connection.execute(
        "select id from chunks where document_id = %(id)s and generation = %(active_generation)s order by id", row
    ).fetchall()
    if not chunks:
        return
    removed = connection.execute(keyword.REMOVE, {"chunks": [chunk["id"] for chunk in chunks]}).fetchone()
    if removed:
        connection.execute(
            "update partitions set chunks = chunks - %(chunks)s, terms = terms - %(terms)s where id = %(partition)s",
            {**removed, "partition": row["partition_id"]},
        )
