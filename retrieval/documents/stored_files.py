"""Keys of a document's raw file and of its parsed text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import LiteralString

from retrieval.access.reading import reading
from retrieval.database.database import Database
from retrieval.documents import archive_members
from retrieval.principals import Viewer


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """The files of a document's visible generation; a key is None while there is no such file."""

    organization_id: str
    namespace_id: str
    name: str
    media_type: str
    raw_key: str | None
    parsed_key: str | None


async def find(db: Database, document_id: str, viewer: Viewer | None, *, key: str | None = None) -> StoredFiles | None:
    """By the document's id alone: only for those who hold a signed link to it.

    `key`: the id of the API key that the link was made for. None if the document is not there any more, is hidden from
    the viewer that the link was made for, or the key was revoked. There is no raw file for a
    viewer from whom something is hidden that lies in it.
    """
    row = await db.async_row(_FIND, {"document": document_id, "key": key})
    if row is None:
        return None
    stored = StoredFiles(**row)
    if viewer is None:
        return stored
    if not await reading(db, viewer).async_rows(_VISIBLE, {"document": document_id}):
        return None
    hides = await db.async_rows(*archive_members.hiding(viewer, [document_id]))
    return replace(stored, raw_key=None) if hides else stored


_VISIBLE: LiteralString = "select 1 as is_there from documents where id = %(document)s"
_FIND: LiteralString = """
        select n.organization_id, n.id as namespace_id, d.name, coalesce(d.properties ->> 'mimeType', '') as media_type,
               d.raw_key, d.parsed_key
        from documents d join partitions p on p.id = d.partition_id
        join namespaces n on n.id = p.namespace_id and n.deleted_at is null
        where d.id = %(document)s and d.deleted_at is null
        and (%(key)s::text is null or exists (
            select from api_keys k
            where k.id = %(key)s and k.organization_id = n.organization_id and k.revoked_at is null
        ))
"""
