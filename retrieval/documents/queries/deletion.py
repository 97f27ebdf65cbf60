"""Deletes documents: for clients on the event loop, for listings and flows in threads, by the same statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import LiteralString

from retrieval import job_config
from retrieval.database import partitions
from retrieval.database.pagination import ListPosition
from retrieval.database.rows import AsyncExecutor, Executor
from retrieval.documents.queries import archive_members, uploads
from retrieval.keywords.queries import DELETE_POSTINGS
from retrieval.ports import Scope

LEAVING_SHARE_LIMIT = 0.2
"""Of the documents of a connection or site: more than this do not leave at once without a person."""
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
_DELETE: LiteralString = f"""
    with gone as (
        update documents set deleted_at = now(), updated_at = now() where id = any(%(ids)s)
        returning id, partition_id, source, external_id, created_at
    ),
    settled as (delete from departures where document_id = any(%(ids)s)),
    found as (delete from page_misses where document_id = any(%(ids)s)),
    renamed as (delete from document_aliases where document_id = any(%(ids)s)),
    places as (
        insert into deleted_places (partition_id, name, document_id, created_at)
        select partition_id, case when source = '{uploads.SOURCE}' and starts_with(external_id, '{uploads.PREFIX}')
                                  then external_id else id end, id, created_at
        from gone
        on conflict (partition_id, name) do update set document_id = excluded.document_id,
                                                       created_at = excluded.created_at, deleted_at = now()
    )
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


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of a visible version."""

    id: int
    partition_id: int


@dataclass(frozen=True, slots=True)
class Removed:
    """Chunks and terms that a partition loses with removed chunks."""

    chunks: int
    terms: int


def needs_confirmation(leaving: int, documents: int) -> bool:
    """Tell whether a person must confirm that so many of the documents leave at once. One always may."""
    return leaving > 1 and leaving > LEAVING_SHARE_LIMIT * documents


def delete_listed(connection: Executor, job_run_id: str, external_ids: Sequence[str]) -> None:
    """Delete documents that a listing reports as removed, of the run's source, partition and connection. Unknown ids
    are ignored."""
    if external_ids:
        values = {"run": job_run_id, "external_ids": list(external_ids)}
        delete_documents(connection, connection.fetch(str, _LISTED, values))


def delete_documents(connection: Executor, document_ids: Sequence[str]) -> list[str]:
    """Delete these and what was packed into them, within the caller's transaction; the ids of all that were deleted.

    They are out of every answer at once, and a run under way cannot bring them back. Garbage collection clears the
    stores. Unknown and deleted ids are no error.
    """
    deleted = connection.fetch(str, _LOCK, {"ids": list(document_ids)})
    # Once an archive is locked nothing more is packed into it, so the look that finds no further member is final.
    while members := connection.fetch(str, archive_members.MEMBERS, {"ids": deleted}):
        deleted += members
    if not deleted:
        return []
    connection.execute(_DELETE, {"ids": deleted, "deletion": None})
    # A statement after the documents are locked sees all of their chunks.
    for partition, parts in _list_parts(connection.fetch(Chunk, _CHUNKS, {"ids": deleted})):
        removed = [connection.fetch_one(Removed, DELETE_POSTINGS, {"chunks": part}) for part in parts]
        connection.execute(_COUNT, _count_values(partition, removed))
    return deleted


async def async_delete(
    connection: AsyncExecutor, document_ids: Sequence[str], deletion_id: str | None = None
) -> list[str]:
    """Delete documents for a client, on the event loop.

    `deletion_id`: the receipt that waits for the stores (`documents.receipts`). The file of an archive still contains a
    deleted member: users without access to the member cannot download it.
    """
    deleted = await connection.async_fetch(str, _LOCK, {"ids": list(document_ids)})
    while members := await connection.async_fetch(str, archive_members.MEMBERS, {"ids": deleted}):
        deleted += members
    if not deleted:
        return []
    await connection.async_execute(archive_members.WITHHOLD, {"ids": deleted})
    await connection.async_execute(_DELETE, {"ids": deleted, "deletion": deletion_id})
    for partition, parts in _list_parts(await connection.async_fetch(Chunk, _CHUNKS, {"ids": deleted})):
        removed = [await connection.async_fetch_one(Removed, DELETE_POSTINGS, {"chunks": part}) for part in parts]
        await connection.async_execute(_COUNT, _count_values(partition, removed))
    return deleted


async def find_place(db: AsyncExecutor, scope: Scope, name: str) -> ListPosition | None:
    """Return the former place of a document that was deleted within a day, by the id that OpenAI's clients know."""
    statement: LiteralString = """
        select f.document_id as id, f.created_at from deleted_places f
        join partitions p on p.id = f.partition_id and p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
        join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
        where f.name = %(name)s
    """
    return await db.async_fetch_one(ListPosition, statement, {**partitions.scope_params(scope), "name": name})


def _list_parts(chunks: Sequence[Chunk]) -> list[tuple[int, list[list[int]]]]:
    """Return each partition with its chunk ids, in parts that one statement removes."""
    partitions = [(key, [chunk.id for chunk in group]) for key, group in groupby(chunks, attrgetter("partition_id"))]
    return [(key, [ids[start : start + _PART] for start in range(0, len(ids), _PART)]) for key, ids in partitions]


def _count_values(partition: int, removed: Sequence[Removed | None]) -> dict[str, int]:
    """Return the values of `_COUNT`. It runs after all parts, since activations of the partition wait for its row."""
    parts = [part for part in removed if part is not None]
    return {
        "partition": partition,
        "chunks": sum(part.chunks for part in parts),
        "terms": int(sum(part.terms for part in parts)),
    }
