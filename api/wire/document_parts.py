"""Parts of a document on the wire: its properties, chunks, history and pages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from api.wire.common import DataAnswer, Identified, NamespaceId, NextCursor, PageSize, Timestamp
from retrieval.documents.chunks import ChunkRow
from retrieval.documents.documents import DocumentRow
from retrieval.documents.receipts import DocumentRun
from retrieval.ingestion.items import ARCHIVE_PATH
from retrieval.sources import WEB


class PageToCheck(Struct, rename="camel"):
    """A page whose text may be wrong or missing."""

    page: Annotated[int | None, Meta(description="The page, from 1; null for a text without pages.")]
    quality: Annotated[
        float, Meta(ge=0, le=1, description="How far its text can be trusted, from 0 to 1; below .4 it is left out.")
    ]
    unread: Annotated[bool, Meta(description="Whether its text is left out of the document.")]
    reasons: Annotated[list[str], Meta(description="What is wrong with it, and what to do.")]


class DocumentProperties(Struct, rename="camel"):
    """Properties of a document's content; null while unknown."""

    mime_type: Annotated[str | None, Meta(description="The media type.")] = None
    file_size: Annotated[int | None, Meta(description="The size in bytes.")] = None
    character_count: Annotated[int | None, Meta(description="The length of the parsed text.")] = None
    token_count: Annotated[int | None, Meta(description="The tokens of all chunks.")] = None
    embedding_count: Annotated[int | None, Meta(description="How many chunks have a vector.")] = None
    title: Annotated[
        str | None, Meta(description="The title that the content names, or its first heading; null if it has none.")
    ] = None
    author: Annotated[str | None, Meta(description="Who made it, as the content says; null if it does not.")] = None
    language: Annotated[
        str | None,
        Meta(
            description="The language of the text, as the content says or as it was recognised; null if it is "
            "not known."
        ),
    ] = None
    page_count: Annotated[
        int | None, Meta(description="How many pages, slides or pictures it has; null where there are none.")
    ] = None
    text_quality: (
        Annotated[
            float,
            Meta(ge=0, le=1, description="How far the text can be trusted: as far as its lowest page; null if not."),
        ]
        | None
    ) = None
    pages_to_check: Annotated[
        list[PageToCheck], Meta(description="Pages with a quality below .8, the lowest 50 at most, in their order.")
    ] = []
    created_at: Annotated[
        Timestamp | None, Meta(description="When the content was made, as it says itself; null if it does not.")
    ] = None
    modified_at: Annotated[
        Timestamp | None,
        Meta(description="When the content last changed, as it or its source says; null if they do not."),
    ] = None
    url: Annotated[str | None, Meta(description="Where the content is found on the web; null if nowhere.")] = None
    path: Annotated[
        str | None,
        Meta(
            description="Where it lies in the folders of its source, or in the archive or mail that held it; "
            "null if nowhere."
        ),
    ] = None
    owner: Annotated[
        str | None, Meta(description="To whom it belongs at its content service; null if it is not known.")
    ] = None
    notice: Annotated[
        str | None, Meta(description="What else the file holds that was not read, such as pictures; null if nothing.")
    ] = None

    @classmethod
    def of(cls, row: DocumentRow) -> DocumentProperties:
        """Return the properties that the pipeline stored. A page without a canonical URL has its source URL."""
        properties = dict(row.properties)
        properties.setdefault("url", properties.get("canonicalUrl") or (row.external_id if row.source in WEB else None))
        properties.setdefault("path", properties.get(ARCHIVE_PATH))
        dates = {key: _moment(properties.get(key)) for key in ("createdAt", "modifiedAt")}
        return msgspec.convert({**properties, **dates}, cls)


def _moment(stamp: object) -> Timestamp | None:
    """Return the timestamp of a date from a file or a content service; None if it is no date."""
    try:
        moment = datetime.fromisoformat(stamp) if isinstance(stamp, str) else None
        return Timestamp.of(moment if moment.tzinfo else moment.replace(tzinfo=UTC)) if moment else None
    except (ValueError, OverflowError):
        return None


class ChunksQuery(Struct, rename="camel"):
    """The document's namespace, and the first chunk; `cursor` is the `nextCursor` of the page before."""

    namespace_id: NamespaceId
    cursor: Annotated[str | None, Meta(description="The `nextCursor` of the page before.")] = None
    first_index: Annotated[
        Annotated[int, Meta(ge=0, le=2**31 - 1)] | None,
        Meta(description="The chunk to begin with, where no cursor is sent."),
    ] = None
    page_size: PageSize = None


class Chunk(Struct):
    """A piece of the parsed document: `parsed[start:end] == content`; pages count from 1, null without pages."""

    index: Annotated[int, Meta(description="Its number in the document, from 0.")]
    start: Annotated[int, Meta(description="Where it begins in the parsed text, in characters.")]
    end: Annotated[int, Meta(description="Where it ends in the parsed text, in characters.")]
    page: Annotated[int | None, Meta(description="The page that it begins on, from 1; null where there are no pages.")]
    tokens: Annotated[int, Meta(description="Its length in tokens of the embedding model.")]
    content: Annotated[str, Meta(description="The chunk's text.")]

    @classmethod
    def of(cls, row: ChunkRow) -> Chunk:
        return cls(row.index, row.start, row.end, row.page, row.tokens, row.content)


class ChunksData(Struct, rename="camel"):
    """A page of chunks in their order."""

    chunks: Annotated[list[Chunk], Meta(description="The chunks, in their order.")]
    items_returned: Annotated[int, Meta(description="How many are in this answer.")]
    has_next_page: Annotated[bool, Meta(description="Whether there are more.")]
    next_cursor: NextCursor


class ChunksAnswer(DataAnswer[ChunksData]):
    """The searchable chunks of the document, in their order."""


class HistoryQuery(Struct, rename="camel"):
    """The document's namespace; `cursor` is the `nextCursor` of the page before."""

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


class PageQuery(Struct, rename="camel"):
    """The document's namespace; `chunk` is the index of the chunk to shade on the page."""

    namespace_id: NamespaceId
    chunk: Annotated[
        Annotated[int, Meta(ge=0, le=2**31 - 1)] | None, Meta(description="Its place in the document.")
    ] = None
