"""A document's history on the wire."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from api.wire.common import DataAnswer, Identified, NextCursor, PageSize, Timestamp
from api.wire.ingest import NamespaceId
from retrieval.documents.history import DocumentRun


class HistoryQuery(Struct, rename="camel"):
    """Where the document is; `cursor` is the `nextCursor` of the page before."""

    namespace_id: NamespaceId
    cursor: Annotated[str | None, Meta(description="The `nextCursor` of the page before.")] = None
    page_size: PageSize = None


class HistoryEntry(Struct, rename="camel"):
    """The document in one job run."""

    ingest_job_run: Identified
    source: Annotated[str, Meta(description="The source of the job run.")]
    status: Annotated[str, Meta(description="How far it is.")]
    error: Annotated[str | None, Meta(description="Why the document failed there; null unless it did.")]
    unchanged: Annotated[bool, Meta(description="Whether it was the same as before, so that nothing was done.")]
    active: Annotated[bool, Meta(description="Whether search shows the version that this run made.")]
    chunks: Annotated[int | None, Meta(description="How many chunks were made of it; null where none were.")]
    file_size: Annotated[int | None, Meta(description="The size in bytes.")]
    created_at: Annotated[Timestamp, Meta(description="When it was made.")]
    finished_at: Annotated[Timestamp | None, Meta(description="When the job run ended; null while it goes on.")]

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

    history: Annotated[
        list[HistoryEntry], Meta(description="What became of the document in each job run, newest first.")
    ]
    items_returned: Annotated[int, Meta(description="How many are in this answer.")]
    has_next_page: Annotated[bool, Meta(description="Whether there are more.")]
    next_cursor: NextCursor


class HistoryAnswer(DataAnswer[HistoryData]):
    """The job runs that held the document, newest first."""
