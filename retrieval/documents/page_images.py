"""Data for rendering a page of a document: its raw file, the position of its text, a chunk to highlight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval.access.reading import reading
from retrieval.database import scopes
from retrieval.database.database import Database
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces import namespaces
from retrieval.ports import Scope
from retrieval.principals import Viewer


@dataclass(frozen=True, slots=True)
class PagedDocument:
    """`pages`: the offset in the parsed text at which each page starts; empty if unknown.

    `start`, `end`: the chunk's offsets in that text; None if no chunk was requested or it does not exist.
    """

    media_type: str
    raw_key: str | None
    parsed_key: str | None
    pages: Sequence[int]
    start: int | None
    end: int | None


_READ: LiteralString = """
    select coalesce(d.properties ->> 'mimeType', '') as media_type, d.raw_key, d.parsed_key,
           coalesce(m.pages, '{}') as pages, c.start, c."end"
    from documents d
    join partitions p on p.id = d.partition_id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    left join lateral (
        select m.pages from run_documents m where m.document_id = d.id and m.generation = d.active_generation limit 1
    ) m on true
    left join chunks c on c.document_id = d.id and c.generation = d.active_generation and c.index = %(chunk)s::int
    where d.id = %(document)s and d.deleted_at is null
"""


async def find(db: Database, scope: Scope, document_id: str, chunk: int | None, viewer: Viewer | None) -> PagedDocument:
    """Return the document's visible version. NAMESPACE_NOT_FOUND; DOCUMENTS_NOT_FOUND, also for a hidden document."""
    values = {**scopes.params(scope), "document": document_id, "chunk": chunk}
    document = await reading(db, viewer).async_fetch_one(PagedDocument, _READ, values)
    if document is None:
        await namespaces.require(db, scope.organization, scope.namespace)
        raise ServiceError(ErrorCode.DOCUMENTS_NOT_FOUND, "There is no such document in this namespace.")
    return document
