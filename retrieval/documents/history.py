"""What became of a document in each job run that held it, newest first, page by page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from retrieval.database.database import Database
from retrieval.database.pages import Page
from retrieval.documents import listing
from retrieval.documents.listing import DocumentList
from retrieval.ports import Scope
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


_ENTRIES: DocumentList[DocumentRun] = DocumentList(
    f"""
    select m.job_run_id, r.number, r.source, m.status, m.error, m.stage = {sql(Stage.UNCHANGED)} as unchanged,
           m.status = 'SUCCESS' and m.generation = %(active_generation)s as active,
           (m.properties ->> 'embeddingCount')::int as chunks, m.raw_size as size,
           r.created_at as started_at, r.finished_at
    from run_documents m join job_runs r on r.id = m.job_run_id
    where m.document_id = %(id)s and (%(after)s::bigint is null or r.number < %(after)s)
    order by r.number desc limit %(limit)s
    """,
    DocumentRun,
    attrgetter("number"),
)


async def list_page(
    db: Database,
    scope: Scope,
    document_id: str,
    *,
    cursor: str | None = None,
    size: int = PAGE,
) -> Page[DocumentRun]:
    """From the newest run on, or from the cursor."""
    return await listing.read(db, scope, document_id, _ENTRIES, cursor=cursor, size=size, viewer=None)
