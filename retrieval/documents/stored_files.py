"""Find the keys of a document's raw file and parsed text."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval.access.hidden_spans import hides_chunk
from retrieval.access.reading import scope_statement, viewed_database
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.documents.queries import archive_members
from retrieval.documents.queries.hidden_passages import HIDDEN_DOCUMENT
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces import namespaces
from retrieval.ports import Scope
from retrieval.principals import Viewer


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """Files of a document's visible generation; a key is None without a file.

    `hidden_spans`: start and end of each hidden passage in the parsed text; None for a hidden document.
    """

    organization_id: str
    namespace_id: str
    name: str
    media_type: str
    raw_key: str | None
    parsed_key: str | None
    hidden_spans: Sequence[Sequence[int]] | None = ()


# Spans of the hidden passages of a document `d`, null if all of it is hidden.
HIDDEN_SPANS: LiteralString = f"""
    case when d.hidden = '[]' then '[]'::jsonb when not d.hidden @> '{HIDDEN_DOCUMENT}' then coalesce((
        select jsonb_agg(jsonb_build_array(h.start, h."end") order by h.start) from chunks h
        where h.document_id = d.id and h.generation = d.active_generation and {hides_chunk("d.hidden", "h.content")}
    ), '[]'::jsonb) end
"""
_FILE_FIELDS: LiteralString = f"""
    select n.organization_id, n.id as namespace_id, d.name, coalesce(d.properties ->> 'mimeType', '') as media_type,
           d.parsed_key, {HIDDEN_SPANS} as hidden_spans, """
_FROM_DOCUMENTS: LiteralString = """
    from documents d join partitions p on p.id = d.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    where d.id = any(%(ids)s) and d.deleted_at is null
    and (%(key)s::text is null or exists (
        select from api_keys k
        where k.id = %(key)s and k.organization_id = n.organization_id and k.revoked_at is null
    ))
"""
_FIND_FILES: LiteralString = f"{_FILE_FIELDS} d.raw_key {_FROM_DOCUMENTS}"
_FIND_FILES_FOR_USER: LiteralString = f"""
    {_FILE_FIELDS} case when d.id in ({archive_members.FIND_HIDING_ARCHIVES}) then null else d.raw_key end as raw_key
    {_FROM_DOCUMENTS}
"""


async def find_files(
    db: Database, document_id: str, viewer: Viewer | None, *, key: str | None = None
) -> StoredFiles | None:
    """Return the files of a document for the holder of a signed link; None if the link is void.

    `key`: id of the API key behind the link. Raw files with members hidden from the viewer are omitted.
    """
    values = {"ids": [document_id], "key": key}
    scoped = scope_statement(_FIND_FILES if viewer is None else _FIND_FILES_FOR_USER, values, viewer)
    return await db.async_fetch_one(StoredFiles, scoped.text, dict(scoped.params))


@dataclass(frozen=True, slots=True)
class PagedDocument:
    """Visible version of a document with the start offsets of its pages in the parsed text.

    `start`, `end`: offsets of the requested chunk; None without such a chunk.
    """

    media_type: str
    raw_key: str | None
    parsed_key: str | None
    pages: Sequence[int]
    start: int | None
    end: int | None
    hidden_spans: Sequence[Sequence[int]] | None

    def hides_page(self, number: int) -> bool:
        """Check page `number`, counted from 1, for hidden passages; True for passages at an unknown place."""
        if self.hidden_spans is None or (self.hidden_spans and not 1 <= number <= len(self.pages)):
            return True
        first, last = [*self.pages, sys.maxsize][number - 1 : number + 1] if self.hidden_spans else (0, 0)
        return any(start < last and end > first for start, end in self.hidden_spans)


_FIND_PAGES: LiteralString = f"""
    select coalesce(d.properties ->> 'mimeType', '') as media_type, d.raw_key, d.parsed_key,
           coalesce(m.pages, '{{}}') as pages, c.start, c."end", {HIDDEN_SPANS} as hidden_spans
    from documents d
    join partitions p on p.id = d.partition_id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    left join lateral (
        select m.pages from run_documents m where m.document_id = d.id and m.generation = d.active_generation limit 1
    ) m on true
    left join chunks c on c.document_id = d.id and c.generation = d.active_generation and c.index = %(chunk)s::int
    where d.id = %(document)s and d.deleted_at is null
"""


async def find_pages(
    db: Database, scope: Scope, document_id: str, chunk: int | None, viewer: Viewer | None
) -> PagedDocument:
    """Return the visible version of a document. Raises NAMESPACE_NOT_FOUND, DOCUMENTS_NOT_FOUND (also if hidden)."""
    values = {**partitions.scope_params(scope), "document": document_id, "chunk": chunk}
    document = await viewed_database(db, viewer).async_fetch_one(PagedDocument, _FIND_PAGES, values)
    if document is None:
        await namespaces.require_namespace(db, scope.organization, scope.namespace)
        raise ServiceError(ErrorCode.DOCUMENTS_NOT_FOUND, "There is no such document in this namespace.")
    return document
