"""Keys of a document's raw file and of its parsed text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from retrieval.access.reading import visible
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


_FIELDS: LiteralString = """
    select n.organization_id, n.id as namespace_id, d.name, coalesce(d.properties ->> 'mimeType', '') as media_type,
           d.parsed_key, """
_SOURCE: LiteralString = """
    from documents d join partitions p on p.id = d.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    where d.id = any(%(ids)s) and d.deleted_at is null
    and (%(key)s::text is null or exists (
        select from api_keys k
        where k.id = %(key)s and k.organization_id = n.organization_id and k.revoked_at is null
    ))
"""
_FIND: LiteralString = f"{_FIELDS} d.raw_key {_SOURCE}"
_FIND_FOR_USER: LiteralString = f"""
    {_FIELDS} case when d.id in ({archive_members.HIDING}) then null else d.raw_key end as raw_key {_SOURCE}
"""


async def find(db: Database, document_id: str, viewer: Viewer | None, *, key: str | None = None) -> StoredFiles | None:
    """Return the files of a document by its id alone: only for holders of a signed link.

    `key`: the id of the API key that made the link. None if the document is deleted, hidden from the viewer of the
    link, or the key was revoked. The raw file is left out if it contains a member that is hidden from the viewer.
    """
    values = {"ids": [document_id], "key": key}
    scoped = visible(_FIND if viewer is None else _FIND_FOR_USER, values, viewer)
    return await db.async_fetch_one(StoredFiles, scoped.text, dict(scoped.params))
