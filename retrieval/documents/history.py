"""What became of a document in each job run that held it, newest first, page by page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import LiteralString

from retrieval.access import new_versions
from retrieval.database.database import Database
from retrieval.database.pages import Page
from retrieval.documents import listing
from retrieval.documents.listing import DocumentList
from retrieval.ports import Scope
from retrieval.principals import Viewer
from retrieval.statuses import Stage, sql

PAGE = 20


@dataclass(frozen=True, slots=True)
class DocumentRun:
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


def _entries(told: Callable[[LiteralString], LiteralString]) -> DocumentList[DocumentRun]:
    """`told`: SQL of a value as it is told of a version."""
    return DocumentList(
        f"""
        select m.job_run_id, r.number, r.source, m.status, {told("m.error")} as error,
               m.stage = {sql(Stage.UNCHANGED)} as unchanged,
               m.status = 'SUCCESS' and m.generation = %(active_generation)s as active,
               {told("(m.properties ->> 'embeddingCount')::int")} as chunks, {told("m.raw_size")} as size,
               r.created_at as started_at, r.finished_at
        from run_documents m join job_runs r on r.id = m.job_run_id join documents d on d.id = m.document_id
        where m.document_id = %(id)s and (%(after)s::bigint is null or r.number < %(after)s)
        order by r.number desc limit %(limit)s
        """,
        DocumentRun,
        attrgetter("number"),
    )


_ENTRIES = _entries(lambda value: value)
_SEEN = _entries(lambda value: new_versions.told(value, "m", "r"))
"""For a user: of versions that the user may never have seen, that there were some."""


async def list_page(
    db: Database,
    scope: Scope,
    document_id: str,
    *,
    cursor: str | None = None,
    size: int = PAGE,
    viewer: Viewer | None = None,
) -> Page[DocumentRun]:
    """From the newest run on, or from the cursor."""
    entries = _ENTRIES if viewer is None else _SEEN
    return await listing.read(db, scope, document_id, entries, cursor=cursor, size=size, viewer=viewer)
