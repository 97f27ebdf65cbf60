"""Rows and lists of namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Literal, LiteralString, NamedTuple, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from retrieval.database import pagination
from retrieval.database.compiling import columns_of, compile_page, compile_statement, equals, equals_if_given
from retrieval.database.pagination import Aged, Page, PageRequest
from retrieval.database.rows import AsyncExecutor, Params
from retrieval.database.schema import content, identity

Order = Literal["newest", "oldest", "name", "documents", "searches"]
AgedT = TypeVar("AgedT", bound=Aged)


@dataclass(frozen=True, slots=True)
class NamespaceRow:
    """Row of a namespace; `config` without secrets, `secrets` sealed."""

    id: str
    organization_id: str
    name: str
    config: dict[str, Any]
    secrets: bytes | None = field(repr=False)
    dimensions: int | None
    keyword_language: str | None
    epoch: int
    changing: bool
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ListedRow(NamespaceRow):
    """Row with its counts, if requested."""

    use: dict[str, Any] | None


class NamespaceOwner(NamedTuple):
    """Namespace with its organization."""

    id: str
    organization_id: str


_table: Any = identity.Namespace
_partition: Any = identity.Partition
_search: Any = identity.SearchTime
_document: Any = content.Document
NAMESPACE_COLUMNS: LiteralString = (
    "id, organization_id, name, config, secrets, dimensions, keyword_language, epoch, pending is not null as changing,"
    " created_at, updated_at"
)
COLUMNS = columns_of(_table, NamespaceRow, changing=_table.pending.is_not(None))
_name = sa.bindparam("name", type_=sa.Text)
_matches = sa.and_(
    equals(_table.organization_id, "organization"),
    _table.deleted_at.is_(None),
    equals_if_given(_table.id, "only"),
    sa.or_(_name.is_(None), sa.func.strpos(sa.func.lower(_table.name), sa.func.lower(_name)) > 0),
)


def _sum(value: Any) -> Any:
    return sa.cast(sa.func.coalesce(sa.func.sum(value), 0), sa.BigInteger)


def _of_namespace(table: Any) -> Any:
    """Return the condition of a table's rows of the namespace and the tenant, if given."""
    return sa.and_(table.namespace_id == _table.id, equals_if_given(table.tenant))


def _total(value: Any, table: Any, *conditions: Any) -> Any:
    return sa.select(_sum(value)).where(_of_namespace(table), *conditions).correlate(_table).scalar_subquery()


_is_recent = _search.hour > sa.func.now() - sa.text("interval '30 days'")
_counts = (
    sa.select(
        sa.func.count().label("document_count"),
        sa.func.count().filter(_document.status == "FAILED").label("failed_count"),
        _sum(sa.func.document_size(_document.properties, _document.accepted_bytes)).label("stored_bytes"),
        sa.func.max(_document.updated_at).label("last_change"),
        _total(_partition.chunks, _partition).label("chunk_count"),
        _total(_search.searches, _search, _is_recent).label("search_count"),
    )
    .where(_document.partition_id == _partition.id, _document.deleted_at.is_(None), _of_namespace(_partition))
    .correlate(_table)
    .lateral("c")
)
_by_age = (sa.desc(_table.created_at), sa.desc(_table.id))
# Paged by offset; the other orders page by age.
_OFFSET_ORDERS: dict[Order, tuple[Any, ...]] = {
    "name": (sa.func.lower(_table.name), _table.id),
    "documents": (sa.desc(_counts.c.document_count), *_by_age),
    "searches": (sa.desc(_counts.c.search_count), *_by_age),
}
_COUNT_NAMESPACES = compile_statement(sa.select(sa.func.count()).where(_matches))
_has_id = equals(_table.id, "text")
_FIND_OWNERS = compile_statement(
    sa.select(*columns_of(_table, NamespaceOwner))
    .where(_table.deleted_at.is_(None), sa.or_(_has_id, equals(_table.name, "text")))
    .order_by(sa.desc(_has_id), _table.id)
)


@cache
def _list_statement(order: Order, *, has_counts: bool) -> Any:
    use = sa.func.to_jsonb(sa.literal_column("c")) if has_counts else sa.cast(sa.null(), JSONB)
    statement = sa.select(*COLUMNS, use.label("use")).where(_matches)
    if has_counts:
        statement = statement.join_from(_table, _counts, sa.true())
    if order not in _OFFSET_ORDERS:
        return compile_page(statement, _table, newest_first=order == "newest")
    after, limit = sa.bindparam("after", type_=sa.BigInteger), sa.bindparam("limit", type_=sa.Integer)
    return compile_statement(statement.order_by(*_OFFSET_ORDERS[order]).offset(after).limit(limit))


@dataclass(frozen=True, slots=True)
class Listing:
    """Order, filters and counts of a namespace list; `only`: id of the single namespace; `tenant`: counts of one
    tenant."""

    order: Order = "newest"
    name: str | None = None
    only: str | None = None
    has_counts: bool = False
    tenant: str | None = None

    def cut(self, items: Sequence[AgedT], part: PageRequest | None) -> Page[AgedT]:
        """Return the page from items selected with one extra."""
        if part is None or self.order not in _OFFSET_ORDERS:
            return pagination.cut_page(items, part)
        return pagination.take_page(items, part.size, lambda _: str(int(part.cursor or 0) + part.size))


NEWEST_FIRST = Listing()


async def select_namespaces(
    db: AsyncExecutor, organization: str, part: PageRequest | None, listing: Listing
) -> list[ListedRow]:
    """List a page of namespaces, with one extra if another page follows."""
    values = _parameters(organization, listing)
    if listing.order in _OFFSET_ORDERS:
        values |= {"after": None, "limit": None} if part is None else pagination.number_params(part.cursor, part.size)
    else:
        values |= pagination.page_params(part)
    return await db.async_fetch(ListedRow, _list_statement(listing.order, has_counts=listing.has_counts), values)


async def count_namespaces(db: AsyncExecutor, organization: str, listing: Listing) -> int:
    """Count the namespaces of a listing on all pages."""
    return await db.async_fetch_one(int, _COUNT_NAMESPACES, _parameters(organization, listing)) or 0


def _parameters(organization: str, listing: Listing) -> Params:
    return {"organization": organization, "only": listing.only, "name": listing.name, "tenant": listing.tenant}


async def find_owners(db: AsyncExecutor, id_or_name: str) -> list[NamespaceOwner]:
    """Return the namespace with this id, else those with this name, of all organizations."""
    values = {"text": id_or_name.replace("\x00", "\ufffd")}
    owners = await db.async_fetch(NamespaceOwner, _FIND_OWNERS, values)
    return owners[:1] if owners and owners[0].id == id_or_name else owners
