"""Delete documents, from the event loop for clients and from threads for flows, with the same statements."""

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

# Share of a connection's or site's documents that may be deleted without a confirmation.
LEAVING_SHARE_LIMIT = 0.2
# Chunks per statement on the keyword index.
_CHUNKS_PER_STATEMENT = 20_000
_FIND_LISTED: LiteralString = f"""
    select d.id from documents d join job_runs r on r.id = %(run)s join jobs j on j.id = r.job_id
    where d.partition_id = r.partition_id and d.source = r.source and d.external_id = any(%(external_ids)s)
      and d.connection_id is not distinct from {job_config.connection_id_sql()} and d.deleted_at is null
"""
LOCK_DOCUMENTS: LiteralString = """
    select id from documents where id = any(%(ids)s) and deleted_at is null order by id for no key update
"""
_DELETE_DOCUMENTS: LiteralString = f"""
    with gone as (
        update documents set deleted_at = now(), updated_at = now() where id = any(%(ids)s)
        returning id, partition_id, source, external_id, created_at
    ),
    settled as (delete from departures where document_id = any(%(ids)s)),
    found as (delete from page_misses where document_id = any(%(ids)s)),
    renamed as (delete from document_aliases where document_id = any(%(ids)s)),
    places as (
        insert into deleted_places (partition_id, name, document_id, created_at)
        select partition_id, case when source = '{uploads.UPLOAD_SOURCE}'
                                   and starts_with(external_id, '{uploads.UPLOAD_ID_PREFIX}')
                                  then external_id else id end, id, created_at
        from gone
        on conflict (partition_id, name) do update set document_id = excluded.document_id,
                                                       created_at = excluded.created_at, deleted_at = now()
    )
    insert into sweeps (partition_id, kind, document_id, deletion_id)
    select partition_id, 'document', id, %(deletion)s::text from gone
"""
_FIND_CHUNKS: LiteralString = """
    select c.id, d.partition_id from documents d
    join chunks c on c.document_id = d.id and c.generation = d.active_generation where d.id = any(%(ids)s)
    order by d.partition_id, c.id
"""
_SUBTRACT_COUNTS: LiteralString = """
    update partitions set chunks = chunks - %(chunks)s, terms = terms - %(terms)s where id = %(partition)s
"""


@dataclass(frozen=True, slots=True)
class VisibleChunk:
    """Chunk of a visible version."""

    id: int
    partition_id: int


@dataclass(frozen=True, slots=True)
class RemovedPostings:
    """Chunks and terms removed from a partition."""

    chunks: int
    terms: int


def needs_confirmation(leaving: int, documents: int) -> bool:
    """Return True if removals wait for a person: more than one, and over `LEAVING_SHARE_LIMIT` of the documents."""
    return leaving > 1 and leaving > LEAVING_SHARE_LIMIT * documents


def delete_listed(connection: Executor, job_run_id: str, external_ids: Sequence[str]) -> None:
    """Delete documents that a listing reports as removed; ignore unknown ids."""
    if external_ids:
        values = {"run": job_run_id, "external_ids": list(external_ids)}
        delete_documents(connection, connection.fetch(str, _FIND_LISTED, values))


def delete_documents(connection: Executor, document_ids: Sequence[str]) -> list[str]:
    """Delete the documents and their members in the caller's transaction; return all deleted ids."""
    deleted = connection.fetch(str, LOCK_DOCUMENTS, {"ids": list(document_ids)})
    # A locked archive gets no new members, so an empty result is final.
    while members := connection.fetch(str, archive_members.LOCK_MEMBERS, {"ids": deleted}):
        deleted += members
    if not deleted:
        return []
    connection.execute(_DELETE_DOCUMENTS, {"ids": deleted, "deletion": None})
    # A statement after the documents are locked sees all of their chunks.
    for partition, parts in _group_chunks(connection.fetch(VisibleChunk, _FIND_CHUNKS, {"ids": deleted})):
        removed = [connection.fetch_one(RemovedPostings, DELETE_POSTINGS, {"chunks": part}) for part in parts]
        connection.execute(_SUBTRACT_COUNTS, _count_values(partition, removed))
    return deleted


async def async_delete_documents(
    connection: AsyncExecutor, document_ids: Sequence[str], deletion_id: str | None = None
) -> list[str]:
    """Delete documents for a client, with `deletion_id` as the receipt; return all deleted ids."""
    deleted = await connection.async_fetch(str, LOCK_DOCUMENTS, {"ids": list(document_ids)})
    while members := await connection.async_fetch(str, archive_members.LOCK_MEMBERS, {"ids": deleted}):
        deleted += members
    if not deleted:
        return []
    # The archive's file still contains the member: withhold it from users without access to the member.
    await connection.async_execute(archive_members.WITHHOLD_FILES, {"ids": deleted})
    await connection.async_execute(_DELETE_DOCUMENTS, {"ids": deleted, "deletion": deletion_id})
    for partition, parts in _group_chunks(await connection.async_fetch(VisibleChunk, _FIND_CHUNKS, {"ids": deleted})):
        removed = [
            await connection.async_fetch_one(RemovedPostings, DELETE_POSTINGS, {"chunks": part}) for part in parts
        ]
        await connection.async_execute(_SUBTRACT_COUNTS, _count_values(partition, removed))
    return deleted


async def find_place(db: AsyncExecutor, scope: Scope, name: str) -> ListPosition | None:
    """Return the former list position of a document deleted within a day, by its OpenAI file id."""
    statement: LiteralString = """
        select f.document_id as id, f.created_at from deleted_places f
        join partitions p on p.id = f.partition_id and p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
        join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
        where f.name = %(name)s
    """
    return await db.async_fetch_one(ListPosition, statement, {**partitions.scope_params(scope), "name": name})


def _group_chunks(chunks: Sequence[VisibleChunk]) -> list[tuple[int, list[list[int]]]]:
    """Return the chunk ids of each partition in groups for one statement."""
    partitions = [(key, [chunk.id for chunk in group]) for key, group in groupby(chunks, attrgetter("partition_id"))]
    return [
        (key, [ids[start : start + _CHUNKS_PER_STATEMENT] for start in range(0, len(ids), _CHUNKS_PER_STATEMENT)])
        for key, ids in partitions
    ]


def _count_values(partition: int, removed: Sequence[RemovedPostings | None]) -> dict[str, int]:
    # `_SUBTRACT_COUNTS` runs after all groups, since activations wait for the partition's row.
    parts = [part for part in removed if part is not None]
    return {
        "partition": partition,
        "chunks": sum(part.chunks for part in parts),
        "terms": int(sum(part.terms for part in parts)),
    }
