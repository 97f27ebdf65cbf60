"""The chunks of a document on the wire."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from api.wire.common import DataAnswer, NextCursor, PageSize
from api.wire.ingest import NamespaceId
from retrieval.documents.chunks import ChunkRow


class ChunksQuery(Struct, rename="camel"):
    """Where the document is, and from where on; `cursor` is the `nextCursor` of the page before."""

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
