"""The chunks of a document on the wire."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from api.wire.common import Answer
from api.wire.ingest import NamespaceId
from retrieval.documents.chunks import ChunkRow


class ChunksQuery(Struct, rename="camel"):
    """Where the document is, and from where on; `cursor` is the `nextCursor` of the page before."""

    namespace_id: NamespaceId
    cursor: str | None = None
    first_index: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    page_size: Annotated[int, Meta(ge=1, le=100)] | None = None


class Chunk(Struct):
    """A piece of the parsed document: `parsed[start:end] == content`; pages count from 1, null without pages."""

    index: int
    start: int
    end: int
    page: int | None
    tokens: int
    content: str

    @classmethod
    def of(cls, row: ChunkRow) -> Chunk:
        return cls(row.index, row.start, row.end, row.page, row.tokens, row.content)


class ChunksData(Struct, rename="camel"):
    """A page of chunks in their order."""

    chunks: list[Chunk]
    items_returned: int
    has_next_page: bool
    next_cursor: str | None


class ChunksAnswer(Answer, kw_only=True):
    """The searchable chunks of the document, in their order."""

    data: ChunksData
