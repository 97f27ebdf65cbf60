"""Deletes documents: for clients on the event loop, for listings and flows in threads, by the same statements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import LiteralString

from psycopg import AsyncConnection, Connection

from retrieval import job_config
from retrieval.database import sync_async
from retrieval.database.database import Row
from retrieval.database.sync_async import Statements
from retrieval.documents import archive_members
from retrieval.keywords.queries import DELETE_POSTINGS

_PART = 20_000
"""Chunks that one statement takes out of the keyword side."""
_LISTED: LiteralString = f"""
    select d.id from documents d join job_runs r on r.id = %(run)s join jobs j on j.id = r.job_id
    where d.partition_id = r.partition_id and d.source = r.source and d.external_id = any(%(external_ids)s)
      and d.connection_id is not distinct from {job_config.connection_of()} and d.deleted_at is null
"""
_LOCK: LiteralString = """
    select id from documents where id = any(%(ids)s) and deleted_at is null order by id for no key update
"""
_DELETE: LiteralString = """
    with gone as (
        update documents set deleted_at = now(), updated_at = now() where id = any(%(ids)s)
        returning id, partition_id
    ),
    settled as (delete from departures where document_id = any(%(ids)s))
    insert into sweeps (partition_id, kind, document_id, deletion_id)
    select partition_id, 'document', id, %(deletion)s::text from gone
"""
_CHUNKS: LiteralString = """
    select c.id, d.partition_id from documents d
    join chunks c on c.document_id = d.id and c.generation = d.active_generation where d.id = any(%(ids)s)
    order by d.partition_id, c.id
"""
_COUNT: LiteralString = """
    update partitions set chunks = chunks - %(chunks)s, terms = terms - %(terms)s where id = %(partition)s
"""


def delete_listed(connection: Connection[Row], job_run_id: str, external_ids: Sequence[str]) -> None:
    """Delete documents that a listing reports as removed, of the run's source, partition and connection. Unknown ids
    are ignored."""
    if external_ids:
        rows = connection.execute(_LISTED, {"run": job_run_id, "external_ids": list(external_ids)}).fetchall()
        delete(connection, [row["id"] for row in rows])


def delete(connection: Connection[Row], document_ids: Sequence[str]) -> list[str]:
    """Delete these and what was packed into them, within the caller's transaction; the ids of all that were deleted.

    They are out of every answer at once, and a run under way cannot bring them back. Garbage collection clears the
    stores. Unknown and deleted ids are no error.
    """
    return sync_async.run(connection, _delete(document_ids))


async def async_delete(
    connection: AsyncConnection[Row], document_ids: Sequence[str], deletion_id: str | None = None
) -> list[str]:
    """Delete documents for a client, on the event loop.

    `deletion_id`: the receipt that waits for the stores (`documents.receipts`). The file of an archive still contains a
    deleted member: users without access to the member cannot download it.
    """
    return await sync_async.async_run(connection, _delete(document_ids, deletion_id, withhold=True))


def _delete(
    document_ids: Sequence[str], deletion_id: str | None = None, *, withhold: bool = False
) -> Statements[list[str]]:
    deleted = [row["id"] for row in (yield _LOCK, {"ids": list(document_ids)})]
    # Once an archive is locked nothing more is packed into it, so the look that finds no further member is final.
    while members := (yield archive_members.MEMBERS, {"ids": deleted}):
        deleted += [row["id"] for row in members]
    if not deleted:
        return []
    if withhold:
        yield archive_members.WITHHOLD, {"ids": deleted}
    yield _DELETE, {"ids": deleted, "deletion": deletion_id}
    # A statement after the documents are locked sees all of their chunks.
    chunks = yield _CHUNKS, {"ids": deleted}
    for partition, rows in groupby(chunks, key=lambda row: row["partition_id"]):
        ids = [row["id"] for row in rows]
        parts = [ids[start : start + _PART] for start in range(0, len(ids), _PART)]
        fewer = []
        for part in parts:
            fewer += yield DELETE_POSTINGS, {"chunks": part}
        sums = {name: sum(int(row[name]) for row in fewer) for name in ("chunks", "terms")}
        yield _COUNT, {**sums, "partition": partition}
    return deleted
