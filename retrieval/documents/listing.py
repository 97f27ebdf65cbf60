"""Lists of one document, page by page: its chunks, its history."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, LiteralString, TypeVar

from retrieval.access.reading import viewed_database
from retrieval.database import pagination, partitions
from retrieval.database.database import Database
from retrieval.database.pagination import Page
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces import namespaces
from retrieval.ports import Scope
from retrieval.principals import Viewer

if TYPE_CHECKING:
    from collections.abc import Callable

    from retrieval.database.database import Database
    from retrieval.ports import Scope
    from retrieval.principals import Viewer

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class DocumentList(Generic[Item]):
    """Paginated list of a document's items.

    `statement` has the parameters `id` and `active_generation` of the document, the cursor `after` and a `limit`.
    """

    statement: LiteralString
    item_type: type[Item]
    place: Callable[[Item], int]


@dataclass(frozen=True, slots=True)
class Visible:
    """A document with its visible generation."""

    id: str
    active_generation: int


_DOCUMENT: LiteralString = """
    select d.id, d.active_generation from documents d
    join partitions p on p.id = d.partition_id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    where d.id = %(document)s and d.deleted_at is null
"""


async def read_page(
    db: Database,
    scope: Scope,
    document_id: str,
    listing: DocumentList[Item],
    *,
    cursor: str | None,
    size: int,
    first: int | None = None,
    viewer: Viewer | None,
) -> Page[Item]:
    """The page that a cursor names, else the one after the number `first`.

    NAMESPACE_NOT_FOUND, DOCUMENTS_NOT_FOUND; the latter also for what the viewer may not see.
    """
    visible = viewed_database(db, viewer)
    params = {**partitions.scope_params(scope), "document": document_id}
    document = await visible.async_fetch_one(Visible, _DOCUMENT, params, plan_once=True)
    if document is None:
        await namespaces.require_namespace(db, scope.organization, scope.namespace)
        raise ServiceError(ErrorCode.DOCUMENTS_NOT_FOUND, "There is no such document in this namespace.")
    values: dict[str, Any] = {**asdict(document), **pagination.number_params(cursor, size)}
    if cursor is None:
        values["after"] = first
    items = await visible.async_fetch(listing.item_type, listing.statement, values)
    return pagination.take_page(items, size, lambda item: str(listing.place(item)))


CHUNKS_PAGE = 50


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A piece of the parsed document; `tokens` as the embedding model counts them."""

    index: int
    start: int
    end: int
    page: int | None
    tokens: int
    content: str
    hidden: bool


_CHUNKS = DocumentList(
    """
    select c.index, c.start, c."end", c.tokens, c.content, c.page, d.hidden <> '[]' and (
        d.hidden @> '[{"contentHash": null}]' or d.hidden @> jsonb_build_array(
            jsonb_build_object('contentHash', encode(sha256(convert_to(c.content, 'UTF8')), 'hex')))
    ) as hidden
    from chunks c join documents d on d.id = c.document_id
    where c.document_id = %(id)s and c.generation = %(active_generation)s and c.index > %(after)s
    order by c.index limit %(limit)s
    """,
    ChunkRow,
    attrgetter("index"),
)


async def list_chunks(
    db: Database,
    scope: Scope,
    document_id: str,
    *,
    cursor: str | None = None,
    first: int = 0,
    size: int = CHUNKS_PAGE,
    viewer: Viewer | None,
) -> Page[ChunkRow]:
    """From the chunk `first` on, or from the cursor. Empty while nothing of the document is searchable."""
    return await read_page(db, scope, document_id, _CHUNKS, cursor=cursor, size=size, first=first - 1, viewer=viewer)
