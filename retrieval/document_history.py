"""What became of a document in each job run that held it, newest first, page by page (D61)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from retrieval import cursors, scopes
from retrieval.database import Database
from retrieval.errors import ErrorCode
from retrieval.ports import Scope

PAGE = 20


@dataclass(frozen=True, slots=True)
class Entry:
    """The document in one job run. `active`: search shows the version that this run made.

    `chunks` is None where none were cut; `unchanged`: it was the same as before, and nothing more was done.
    """

    job_run_id: str
    number: int
    source: str
    status: str
    error: str | None
    unchanged: bool
    active: bool
    chunks: int | None
    size: int | None
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Page:
    """`cursor` leads to the next page and is None at the end."""

    items: list[Entry]
    cursor: str | None


_DOCUMENT: LiteralString = """
    select d.id, d.active_generation from documents d
    join partitions p on p.id = d.partition_id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    where d.id = %(document)s and d.deleted_at is null
"""
_ENTRIES: LiteralString = """
    select m.job_run_id, r.number, r.source, m.status, m.error, m.stage = 'unchanged' as unchanged,
           m.status = 'SUCCESS' and m.generation = %(active_generation)s as active,
           (m.properties ->> 'embeddingCount')::int as chunks, m.raw_size as size,
           r.created_at as started_at, r.finished_at
    from run_documents m join job_runs r on r.id = m.job_run_id
    where m.document_id = %(id)s and (%(before)s::bigint is null or r.number < %(before)s)
    order by r.number desc limit %(limit)s
"""


async def list_page(
    db: Database, scope: Scope, document_id: str, *, cursor: str | None = None, size: int = PAGE
) -> Page | None:
    """None if the scope has no such document."""
    listing = f"documents/{document_id}/history"
    before = None if cursor is None else cursors.read(scope, listing, cursor, ErrorCode.INVALID_FILTER_CONFIG)
    document = await db.async_row(_DOCUMENT, {**scopes.params(scope), "document": document_id})
    if document is None:
        return None
    rows = await db.async_rows(_ENTRIES, {**document, "before": before, "limit": size + 1})
    items = [Entry(**row) for row in rows[:size]]
    return Page(items, cursors.write(scope, listing, items[-1].number) if len(rows) > size else None)
