"""The visible chunks of a document, in their order, page by page (D61)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from retrieval import cursors, scopes
from retrieval.database import Database
from retrieval.errors import ErrorCode, ServiceError
from retrieval.ports import Scope

PAGE = 50


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A piece of the parsed document; `tokens` as the embedding model counts them."""

    index: int
    start: int
    end: int
    page: int | None
    tokens: int
    content: str


@dataclass(frozen=True, slots=True)
class Page:
    """`cursor` leads to the next page and is None at the end."""

    items: list[ChunkRow]
    cursor: str | None


_DOCUMENT: LiteralString = """
    select d.id, d.active_generation from documents d
    join partitions p on p.id = d.partition_id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    where d.id = %(document)s and d.deleted_at is null
"""
_CHUNKS: LiteralString = """
    select index, start, "end", page, tokens, content from chunks
    where document_id = %(id)s and generation = %(active_generation)s and index > %(after)s
    order by index limit %(limit)s
"""


async def list_page(
    db: Database, scope: Scope, document_id: str, *, cursor: str | None = None, first: int = 0, size: int = PAGE
) -> Page | None:
    """From the chunk `first` on, or from the cursor. Empty while nothing of the document is searchable.

    None if the scope has no such document.
    """
    listing = f"documents/{document_id}/chunks"
    after = first - 1 if cursor is None else cursors.read(scope, listing, cursor, ErrorCode.INVALID_FILTER_CONFIG)
    document = await db.async_row(_DOCUMENT, {**scopes.params(scope), "document": document_id})
    if document is None:
        return None
    rows = await db.async_rows(_CHUNKS, {**document, "after": after, "limit": size + 1})
    items = [ChunkRow(**row) for row in rows[:size]]
    return Page(items, cursors.write(scope, listing, items[-1].index) if len(rows) > size else None)


def not_found() -> ServiceError:
    return ServiceError(ErrorCode.DOCUMENTS_NOT_FOUND, "There is no such document in this namespace.")
