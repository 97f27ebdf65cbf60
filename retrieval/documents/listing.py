"""List the chunks or the history of one document, page by page."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, LiteralString, TypeVar

from retrieval.access.hidden_spans import REPEATED_SPANS, hides_chunk, mask_text
from retrieval.access.reading import viewed_database
from retrieval.database import pagination, partitions
from retrieval.database.database import Database
from retrieval.database.pagination import Page
from retrieval.documents.queries.hidden_passages import HIDDEN_DOCUMENT
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces import namespaces
from retrieval.ports import Scope
from retrieval.principals import Viewer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from retrieval.database.database import Database
    from retrieval.ports import Scope
    from retrieval.principals import Viewer

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class DocumentList(Generic[ItemT]):
    """Paginated list of a document's items.

    `statement` has the parameters `id` and `active_generation` of the document, `after` and `limit`.
    """

    statement: LiteralString
    item_type: type[ItemT]
    position: Callable[[ItemT], int]


@dataclass(frozen=True, slots=True)
class VisibleDocument:
    """Document with its visible generation."""

    id: str
    active_generation: int


_FIND_DOCUMENT: LiteralString = """
    select d.id, d.active_generation from documents d
    join partitions p on p.id = d.partition_id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    where d.id = %(document)s and d.deleted_at is null
"""


async def read_page(
    db: Database,
    scope: Scope,
    document_id: str,
    listing: DocumentList[ItemT],
    *,
    cursor: str | None,
    size: int,
    first: int | None = None,
    viewer: Viewer | None,
) -> Page[ItemT]:
    """Return the page of a cursor, else the page after number `first`.

    Raises NAMESPACE_NOT_FOUND, DOCUMENTS_NOT_FOUND (also for documents hidden from the viewer).
    """
    visible = viewed_database(db, viewer)
    params = {**partitions.scope_params(scope), "document": document_id}
    document = await visible.async_fetch_one(VisibleDocument, _FIND_DOCUMENT, params, plan_once=True)
    if document is None:
        await namespaces.require_namespace(db, scope.organization, scope.namespace)
        raise ServiceError(ErrorCode.DOCUMENTS_NOT_FOUND, "There is no such document in this namespace.")
    values: dict[str, Any] = {**asdict(document), **pagination.number_params(cursor, size)}
    if cursor is None:
        values["after"] = first
    items = await visible.async_fetch(listing.item_type, listing.statement, values)
    return pagination.take_page(items, size, lambda item: str(listing.position(item)))


CHUNK_PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """Passage of the parsed document; `tokens`: count of the embedding model."""

    index: int
    start: int
    end: int
    page: int | None
    tokens: int
    content: str
    hidden: bool
    # Parts that hidden chunks repeat, from its start.
    masked: Sequence[Sequence[int]] | None = None


_IS_HIDDEN: LiteralString = (
    f"d.hidden <> '[]' and (d.hidden @> '{HIDDEN_DOCUMENT}' or {hides_chunk('d.hidden', 'c.content')})"
)


def _list_statement(condition: LiteralString, masked: LiteralString) -> LiteralString:
    return f"""
    select c.index, c.start, c."end", c.tokens, c.content, c.page, {_IS_HIDDEN} as hidden, {masked} as masked
    from chunks c join documents d on d.id = c.document_id
    where c.document_id = %(id)s and c.generation = %(active_generation)s and c.index > %(after)s and {condition}
    order by c.index limit %(limit)s
    """


_CHUNK_LIST = DocumentList(_list_statement("true", "null"), ChunkRow, attrgetter("index"))
_CHUNK_LIST_FOR_USER = DocumentList(
    _list_statement(f"not ({_IS_HIDDEN})", REPEATED_SPANS), ChunkRow, attrgetter("index")
)


async def list_chunks(
    db: Database,
    scope: Scope,
    document_id: str,
    *,
    cursor: str | None = None,
    first: int = 0,
    size: int = CHUNK_PAGE_SIZE,
    viewer: Viewer | None,
) -> Page[ChunkRow]:
    """List the searchable chunks from number `first` or from the cursor; a viewer sees no hidden ones."""
    chunks = _CHUNK_LIST if viewer is None else _CHUNK_LIST_FOR_USER
    page = await read_page(db, scope, document_id, chunks, cursor=cursor, size=size, first=first - 1, viewer=viewer)
    return replace(page, items=[replace(row, content=mask_text(row.content, row.masked or ())) for row in page.items])
