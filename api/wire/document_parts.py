"""Parts of a document in responses: properties, chunks, history and pages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from api.wire.common import DataAnswer, NamespaceId, NextCursor, ObjectReference, PageSize, Timestamp
from retrieval.conditions.model import PACKED_PATH_PROPERTY
from retrieval.documents.documents import DocumentRow
from retrieval.documents.listing import ChunkRow
from retrieval.documents.receipts import DocumentRun
from retrieval.sources import WEB_SOURCES


class PageToCheck(Struct, rename="camel"):
    """A page with possibly wrong or missing text."""

    page: Annotated[int | None, Meta(description="The page, from 1; null for a text without pages.")]
    quality: Annotated[
        float, Meta(ge=0, le=1, description="Quality of the text from 0 to 1. Text below 0.4 is left out.")
    ]
    unread: Annotated[bool, Meta(description="Whether the text is left out of the document.")]
    reasons: Annotated[list[str], Meta(description="The problem and a remedy.")]


class EmbeddingConfig(Struct, rename="camel"):
    """Effective chunking and embedding of a document; values may be lower than requested."""

    provider: Annotated[str | None, Meta(description="The provider.")] = None
    model: Annotated[str | None, Meta(description="The model's name.")] = None
    dimensions: Annotated[int | None, Meta(description="The length of the vectors.")] = None
    chunk_size: Annotated[int | None, Meta(description="Maximum number of tokens of a chunk.")] = None
    chunk_overlap: Annotated[int | None, Meta(description="Number of tokens shared with the previous chunk.")] = None


class Providers(Struct, rename="camel"):
    """Services that store and serve the namespace."""

    file_storage: Annotated[str, Meta(description="The kind of file storage.")]
    vector_storage: Annotated[str, Meta(description="The provider of the vector storage.")]
    embedding_model: Annotated[str, Meta(description="The provider of the embedding model.")]
    web_scraper: Annotated[str | None, Meta(description="The provider of the web scraper; null without one.")]


class DocumentProperties(Struct, rename="camel"):
    """Properties of a document's content; null while unknown."""

    mime_type: Annotated[str | None, Meta(description="The media type.")] = None
    file_size: Annotated[int | None, Meta(description="The size in bytes.")] = None
    character_count: Annotated[int | None, Meta(description="The length of the parsed text.")] = None
    token_count: Annotated[int | None, Meta(description="The tokens of all chunks.")] = None
    embedding_count: Annotated[int | None, Meta(description="Number of chunks with a vector.")] = None
    title: Annotated[str | None, Meta(description="Title or first heading of the content; null without one.")] = None
    author: Annotated[str | None, Meta(description="Author from the content; null if unknown.")] = None
    language: Annotated[str | None, Meta(description="Declared or detected language; null if unknown.")] = None
    page_count: Annotated[int | None, Meta(description="Number of pages, slides or images; null without any.")] = None
    text_quality: (
        Annotated[float, Meta(ge=0, le=1, description="Quality of the text: that of its lowest page; null if unknown.")]
        | None
    ) = None
    pages_to_check: Annotated[
        list[PageToCheck], Meta(description="Pages with a quality below 0.8, at most the 50 lowest, in page order.")
    ] = []
    created_at: Annotated[Timestamp | None, Meta(description="Time of creation from the content; null if unknown.")] = (
        None
    )
    modified_at: Annotated[Timestamp | None, Meta(description="Time of the last change; null if unknown.")] = None
    url: Annotated[str | None, Meta(description="URL of the content; null without one.")] = None
    path: Annotated[str | None, Meta(description="Path in the source, archive or mail; null without one.")] = None
    owner: Annotated[str | None, Meta(description="Owner at the content service; null if unknown.")] = None
    notice: Annotated[str | None, Meta(description="Content that was not read, such as images; null without any.")] = (
        None
    )

    @classmethod
    def from_row(cls, row: DocumentRow) -> DocumentProperties:
        """Return the properties that the pipeline stored."""
        # A page without a canonical URL has its source URL.
        properties = dict(row.properties)
        properties.setdefault(
            "url", properties.get("canonicalUrl") or (row.external_id if row.source in WEB_SOURCES else None)
        )
        properties.setdefault("path", properties.get(PACKED_PATH_PROPERTY))
        dates = {key: _parse_timestamp(properties.get(key)) for key in ("createdAt", "modifiedAt")}
        return msgspec.convert({**properties, **dates}, cls)


def _parse_timestamp(stamp: object) -> Timestamp | None:
    """Return the timestamp of a date from a file or a content service; None for other text."""
    try:
        moment = datetime.fromisoformat(stamp) if isinstance(stamp, str) else None
        return Timestamp.from_datetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC)) if moment else None
    except (ValueError, OverflowError):
        return None


class ChunksQuery(Struct, rename="camel"):
    """The document's namespace, and the first chunk; `cursor` is the `nextCursor` of the previous page."""

    namespace_id: NamespaceId
    cursor: Annotated[str | None, Meta(description="The `nextCursor` of the previous page.")] = None
    first_index: Annotated[
        Annotated[int, Meta(ge=0, le=2**31 - 1)] | None,
        Meta(description="Index of the first chunk, if no cursor is sent."),
    ] = None
    page_size: PageSize = None


class Chunk(Struct):
    """A piece of the parsed document: `parsed[start:end] == content`; pages count from 1, null without pages."""

    index: Annotated[int, Meta(description="Index in the document, from 0.")]
    start: Annotated[int, Meta(description="Start in the parsed text, in characters.")]
    end: Annotated[int, Meta(description="End in the parsed text, in characters.")]
    page: Annotated[int | None, Meta(description="Number of the page it begins on, from 1; null without pages.")]
    tokens: Annotated[int, Meta(description="Its length in tokens of the embedding model.")]
    content: Annotated[str, Meta(description="The chunk's text.")]
    hidden: Annotated[bool, Meta(description="Whether it is hidden from search.")]

    @classmethod
    def from_row(cls, row: ChunkRow) -> Chunk:
        return cls(row.index, row.start, row.end, row.page, row.tokens, row.content, row.hidden)


class ChunksData(Struct, rename="camel"):
    """A page of chunks in their order."""

    chunks: Annotated[list[Chunk], Meta(description="The chunks in document order.")]
    items_returned: Annotated[int, Meta(description="Number of entries in this response.")]
    has_next_page: Annotated[bool, Meta(description="Whether another page follows.")]
    next_cursor: NextCursor


class ChunksAnswer(DataAnswer[ChunksData]):
    """The searchable chunks of the document, in their order."""


class HistoryQuery(Struct, rename="camel"):
    """The document's namespace; `cursor` is the `nextCursor` of the previous page."""

    namespace_id: NamespaceId
    cursor: Annotated[str | None, Meta(description="The `nextCursor` of the previous page.")] = None
    page_size: PageSize = None


class HistoryEntry(Struct, rename="camel"):
    """The document in one job run."""

    ingest_job_run: ObjectReference
    source: Annotated[str, Meta(description="The source of the job run.")]
    status: Annotated[str, Meta(description="The current status.")]
    error: Annotated[str | None, Meta(description="Reason of the failure; null if it did not fail.")]
    unchanged: Annotated[bool, Meta(description="Whether the content was unchanged and nothing was done.")]
    active: Annotated[bool, Meta(description="Whether this run's version is searchable.")]
    chunks: Annotated[int | None, Meta(description="Number of chunks; null if none were created.")]
    file_size: Annotated[int | None, Meta(description="The size in bytes.")]
    created_at: Annotated[Timestamp, Meta(description="Time of creation.")]
    finished_at: Annotated[Timestamp | None, Meta(description="End of the job run; null while it runs.")]

    @classmethod
    def from_run(cls, entry: DocumentRun) -> HistoryEntry:
        return cls(
            ObjectReference(entry.job_run_id),
            entry.source,
            entry.status,
            entry.error,
            entry.unchanged,
            entry.active,
            entry.chunks,
            entry.size,
            Timestamp.from_datetime(entry.started_at),
            Timestamp.from_optional(entry.finished_at),
        )


class HistoryData(Struct, rename="camel"):
    """A page of the history, newest first."""

    history: Annotated[list[HistoryEntry], Meta(description="The document's result in each job run, newest first.")]
    items_returned: Annotated[int, Meta(description="Number of entries in this response.")]
    has_next_page: Annotated[bool, Meta(description="Whether another page follows.")]
    next_cursor: NextCursor


class HistoryAnswer(DataAnswer[HistoryData]):
    """The document's job runs, newest first."""


class PageQuery(Struct, rename="camel"):
    """The document's namespace; `chunk` is the index of the chunk to shade on the page."""

    namespace_id: NamespaceId
    chunk: Annotated[Annotated[int, Meta(ge=0, le=2**31 - 1)] | None, Meta(description="Position in the document.")] = (
        None
    )
