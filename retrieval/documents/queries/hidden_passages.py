"""SQL of hidden passages, stored in the row of their document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString

from retrieval.database import pagination, partitions
from retrieval.database.pagination import PageRequest
from retrieval.database.rows import AsyncExecutor, Executor
from retrieval.ports import Scope


@dataclass(frozen=True, slots=True)
class HidingDocument:
    """Document with its entries and the text of the requested chunk."""

    id: str
    name: str
    hidden: Sequence[Mapping[str, Any]]
    created_at: datetime
    content: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VersionChunk:
    """Chunk of a document's searchable version."""

    document_id: str
    content: str


HIDDEN_DOCUMENT: LiteralString = '[{"contentHash": null}]'
# DOCUMENT, PASSAGES or null for a document `d`.
HIDDEN_EXTENT: LiteralString = f"""
    case when d.hidden @> '{HIDDEN_DOCUMENT}' then 'DOCUMENT' when d.hidden <> '[]' then 'PASSAGES' end
"""


_IN_SCOPE: LiteralString = """
    from documents d
    join partitions p on p.id = d.partition_id and p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    where d.deleted_at is null
"""


async def lock_document(
    connection: AsyncExecutor, scope: Scope, document_id: str, chunk_index: int | None
) -> HidingDocument | None:
    """Lock a document and read a chunk of its searchable version."""
    statement: LiteralString = f"""
        select d.id, d.name, d.hidden, d.hidden_texts as texts, d.created_at, (
            select c.content from chunks c
            where c.document_id = d.id and c.generation = d.active_generation and c.index = %(index)s
        ) as content
        {_IN_SCOPE} and d.id = %(document)s for no key update of d
    """
    params = {**partitions.scope_params(scope), "document": document_id, "index": chunk_index}
    return await connection.async_fetch_one(HidingDocument, statement, params)


_STORE_STATEMENT: LiteralString = (
    "update documents set hidden = %(hidden)s::jsonb, hidden_texts = %(texts)s::jsonb where id = %(document)s"
    " returning id"
)


async def store_entries(
    connection: AsyncExecutor, document_id: str, entries: Sequence[Mapping[str, Any]], texts: Mapping[str, str]
) -> None:
    """Replace the entries of a document and their texts."""
    await connection.async_fetch(str, _STORE_STATEMENT, _entry_params(document_id, entries, texts))


def replace_entries(
    connection: Executor, document_id: str, entries: Sequence[Mapping[str, Any]], texts: Mapping[str, str]
) -> None:
    """Replace the entries of a document and their texts."""
    connection.fetch(str, _STORE_STATEMENT, _entry_params(document_id, entries, texts))


def _entry_params(document_id: str, entries: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> dict[str, str]:
    return {"document": document_id, "hidden": json.dumps(list(entries)), "texts": json.dumps(dict(texts))}


def note_unmatched(connection: Executor, document_id: str, passages: Sequence[str]) -> None:
    """Add an event for webhooks: hidden passages that the searchable version does not have."""
    statement: LiteralString = """
        insert into webhook_outbox (partition_id, type, lane, data)
        select partition_id, 'HIDDEN_PASSAGES_UNMATCHED', id, jsonb_build_object(
            'documentId', id, 'externalId', external_id, 'hiddenPassageIds', %(passages)s::text[])
        from documents where id = %(document)s and webhooks_hear(partition_id, 'HIDDEN_PASSAGES_UNMATCHED')
    """
    connection.execute(statement, {"document": document_id, "passages": list(passages)})


async def count_unmatched(db: AsyncExecutor, scope: Scope) -> int:
    """Count the documents with a hidden passage that their searchable version does not have."""
    statement: LiteralString = f"""
        select count(*) {_IN_SCOPE} and d.hidden <> '[]' and d.hidden @> '[{{"isUnmatched": true}}]'
    """
    return await db.async_fetch_one(int, statement, partitions.scope_params(scope)) or 0


def list_hiding_documents(connection: Executor, documents: Sequence[str]) -> list[HidingDocument]:
    """List the documents with hidden passages among `documents`."""
    statement: LiteralString = """
        select id, name, hidden, created_at, hidden_texts as texts from documents
        where id = any(%(documents)s) and hidden <> '[]'
    """
    return connection.fetch(HidingDocument, statement, {"documents": list(documents)})


def list_version_chunks(connection: Executor, documents: Sequence[str]) -> list[VersionChunk]:
    """List the chunks of the searchable versions."""
    statement: LiteralString = """
        select c.document_id, c.content from documents d
        join chunks c on c.document_id = d.id and c.generation = d.active_generation
        where d.id = any(%(documents)s) order by c.document_id, c.index
    """
    return connection.fetch(VersionChunk, statement, {"documents": list(documents)})


async def list_documents(db: AsyncExecutor, scope: Scope, part: PageRequest | None) -> list[HidingDocument]:
    """List the documents with entries, newest first."""
    statement: LiteralString = f"select d.id, d.name, d.hidden, d.created_at {_IN_SCOPE} and d.hidden <> '[]'"
    return await db.async_fetch(
        HidingDocument,
        statement + pagination.order_by_age("d", oldest_first=False),
        partitions.scope_params(scope) | pagination.page_params(part),
    )
