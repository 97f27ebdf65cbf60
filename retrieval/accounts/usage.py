"""What an organization uses of what it may use (D61)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from retrieval.database.database import Database


@dataclass(frozen=True, slots=True)
class Usage:
    """`storage_bytes`: the sizes of the documents as they were sent. `namespace_limit` None: the setting's."""

    documents: int
    chunks: int
    storage_bytes: int
    namespaces: int
    namespace_limit: int | None


_READ: LiteralString = """
    with spaces as (
        select id from namespaces where organization_id = %(organization)s and deleted_at is null
    ),
    parts as (select p.id, p.chunks from partitions p join spaces on spaces.id = p.namespace_id),
    held as (
        select count(*) as documents, coalesce(sum((d.properties ->> 'fileSize')::bigint), 0)::bigint as storage_bytes
        from documents d join parts on parts.id = d.partition_id where d.deleted_at is null
    )
    select held.*, coalesce((select sum(chunks) from parts), 0)::bigint as chunks,
           (select count(*) from spaces) as namespaces,
           (select namespace_limit from organizations where id = %(organization)s) as namespace_limit
    from held
"""


async def read(db: Database, organization: str) -> Usage:
    """Counted afresh: for people and alarms, not for every request."""
    row = await db.async_row(_READ, {"organization": organization})
    if row is None:
        raise RuntimeError("a count gave no row")
    return Usage(**row)
