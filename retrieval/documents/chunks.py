"""The visible chunks of a document, in their order, page by page."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

from retrieval.database.database import Database
from retrieval.database.pages import Page
from retrieval.documents import listing
from retrieval.documents.listing import DocumentList
from retrieval.ports import Scope
from retrieval.principals import Viewer

PAGE = 50


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A piece of the parsed document; `tokens` as the embedding model counts them."""

    index: int
    start: int
    end: int
    page: int | None
    tokens: int
    content: str


_CHUNKS = DocumentList(
    """
    select index, start, "end", tokens, content, page from chunks
    where document_id = %(id)s and generation = %(active_generation)s and index > %(after)s
    order by index limit %(limit)s
    """,
    ChunkRow,
    attrgetter("index"),
)


async def list_page(
    db: Database,
    scope: Scope,
    document_id: str,
    *,
    cursor: str | None = None,
    first: int = 0,
    size: int = PAGE,
    viewer: Viewer | None,
) -> Page[ChunkRow]:
    """From the chunk `first` on, or from the cursor. Empty while nothing of the document is searchable."""
    return await listing.read(db, scope, document_id, _CHUNKS, cursor=cursor, size=size, first=first - 1, viewer=viewer)
