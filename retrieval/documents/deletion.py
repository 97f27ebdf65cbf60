"""Deletes documents that are gone at their source, in the transaction that saves the listing's page."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection

from retrieval.database.database import Row
from retrieval.documents import archive_members
from retrieval.search import bm25


def remove(connection: Connection[Row], job_run_id: str, external_ids: Sequence[str]) -> None:
    """Those of the run's source, partition and connection; unknown ones are no error. The sweep clears the stores."""
    if not external_ids:
        return
    rows = connection.execute(
        """
        select d.id from documents d join job_runs r on r.id = %(run)s join jobs j on j.id = r.job_id
        where d.partition_id = r.partition_id and d.source = r.source and d.external_id = any(%(external_ids)s)
          and d.connection_id is not distinct from (j.config ->> 'connectionId') and d.deleted_at is null
        """,
        {"run": job_run_id, "external_ids": list(external_ids)},
    ).fetchall()
    take_away(connection, [row["id"] for row in rows])


def take_away(connection: Connection[Row], document_ids: Sequence[str]) -> None:
    """Out of every answer at once, and all that was packed into them; a run under way cannot bring them back."""
    gone = connection.execute(
        "select id, partition_id, active_generation from documents where id = any(%(ids)s) and deleted_at is null"
        " order by id for no key update",
        {"ids": list(document_ids)},
    ).fetchall()
    while packed := connection.execute(archive_members.MEMBERS, {"ids": [row["id"] for row in gone]}).fetchall():
        gone += packed
    connection.execute(
        """
        with gone as (
            update documents set deleted_at = now(), updated_at = now() where id = any(%(ids)s)
            returning id, partition_id
        ),
        settled as (delete from departures where document_id = any(%(ids)s))
        insert into sweeps (partition_id, kind, document_id) select partition_id, 'document', id from gone
        """,
        {"ids": [row["id"] for row in gone]},
    )
    for row in gone:
        _unindex(connection, row)


def _unindex(connection: Connection[Row], row: Row) -> None:
    chunks = connection.execute(
        "select id from chunks where document_id = %(id)s and generation = %(active_generation)s order by id", row
    ).fetchall()
    if not chunks:
        return
    removed = connection.execute(bm25.REMOVE, {"chunks": [chunk["id"] for chunk in chunks]}).fetchone()
    if removed:
        connection.execute(
            "update partitions set chunks = chunks - %(chunks)s, terms = terms - %(terms)s where id = %(partition)s",
            {**removed, "partition": row["partition_id"]},
        )
