"""SQL of hidden passages, stored in the row of their document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

from retrieval.database import pagination, partitions
from retrieval.database.pagination import PageRequest
from retrieval.database.rows import AsyncExecutor
from retrieval.ports import Scope


@dataclass(frozen=True, slots=True)
class HidingDocument:
    """Document with its entries and the text of the requested chunk."""

    id: str
    name: str
    hidden: Sequence[Mapping[str, Any]]
    created_at: datetime
    content: str | None = None


# DOCUMENT, PASSAGES or null for a document `d`.
HIDDEN_EXTENT: LiteralString = """
    case when d.hidden @> '[{"contentHash": null}]' then 'DOCUMENT' when d.hidden <> '[]' then 'PASSAGES' end
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
        select d.id, d.name, d.hidden, d.created_at, (
            select c.content from chunks c
            where c.document_id = d.id and c.generation = d.active_generation and c.index = %(index)s
        ) as content
        {_IN_SCOPE} and d.id = %(document)s for no key update of d
    """
    params = {**partitions.scope_params(scope), "document": document_id, "index": chunk_index}
    return await connection.async_fetch_one(HidingDocument, statement, params)


async def store_entries(connection: AsyncExecutor, document_id: str, entries: Sequence[Mapping[str, Any]]) -> None:
    """Replace the entries of a document."""
    await connection.async_fetch(
        str,
        "update documents set hidden = %(hidden)s::jsonb where id = %(document)s returning id",
        {"document": document_id, "hidden": json.dumps(list(entries))},
    )


async def list_documents(db: AsyncExecutor, scope: Scope, part: PageRequest | None) -> list[HidingDocument]:
    """List the documents with entries, newest first."""
    statement: LiteralString = f"select d.id, d.name, d.hidden, d.created_at {_IN_SCOPE} and d.hidden <> '[]'"
    return await db.async_fetch(
        HidingDocument,
        statement + pagination.order_by_age("d", oldest_first=False),
        partitions.scope_params(scope) | pagination.page_params(part),
    )
