"""A document's history on the wire."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from api.wire.common import Answer, Identified, Timestamp
from api.wire.ingest import NamespaceId
from retrieval.documents.history import DocumentRun


class HistoryQuery(Struct, rename="camel"):
    """Where the document is; `cursor` is the `nextCursor` of the page before."""

    namespace_id: NamespaceId
    cursor: str | None = None
    page_size: Annotated[int, Meta(ge=1, le=100)] | None = None


class HistoryEntry(Struct, rename="camel"):
    """The document in one job run."""

    ingest_job_run: Identified
    source: str
    status: str
    error: str | None
    unchanged: bool
    active: bool
    chunks: int | None
    file_size: int | None
    created_at: Timestamp
    finished_at: Timestamp | None

    @classmethod
    def of(cls, entry: DocumentRun) -> HistoryEntry:
        return cls(
            Identified(entry.job_run_id),
            entry.source,
            entry.status,
            entry.error,
            entry.unchanged,
            entry.active,
            entry.chunks,
            entry.size,
            Timestamp.of(entry.started_at),
            Timestamp.of(entry.finished_at) if entry.finished_at else None,
        )


class HistoryData(Struct, rename="camel"):
    """A page of the history, newest first."""

    history: list[HistoryEntry]
    items_returned: int
    has_next_page: bool
    next_cursor: str | None


class HistoryAnswer(Answer, kw_only=True):
    """The job runs that held the document, newest first."""

    data: HistoryData
