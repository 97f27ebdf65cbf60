"""Statements on lists of namespaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, LiteralString, NamedTuple, TypeVar

from retrieval.database import pagination
from retrieval.database.pagination import Aged, Page, PageRequest
from retrieval.database.rows import AsyncExecutor, Params

Order = Literal["newest", "oldest", "name", "documents", "searches"]
R = TypeVar("R")
A = TypeVar("A", bound=Aged)

_ORDERS: Mapping[Order, LiteralString] = {
    "name": "lower(name), id",
    "documents": "document_count desc, created_at desc, id desc",
    "searches": "search_count desc, created_at desc, id desc",
}
"""Orders whose cursor is a number of namespaces; the others go by age."""
_COUNTED: LiteralString = """
    cross join lateral (
        select count(*) as document_count, count(*) filter (where d.status = 'FAILED') as failed_count,
               coalesce(sum(document_size(d.properties, d.accepted_bytes)), 0)::bigint as stored_bytes,
               max(d.updated_at) as last_change,
               (select coalesce(sum(p.chunks), 0)::bigint from partitions p
                where p.namespace_id = n.id and (%(tenant)s::text is null or p.tenant = %(tenant)s)) as chunk_count,
               (select coalesce(sum(s.searches), 0)::bigint from search_times s
                where s.namespace_id = n.id and s.hour > now() - interval '30 days'
                  and (%(tenant)s::text is null or s.tenant = %(tenant)s)) as search_count
        from partitions p join documents d on d.partition_id = p.id
        where p.namespace_id = n.id and d.deleted_at is null and (%(tenant)s::text is null or p.tenant = %(tenant)s)
    ) c
"""
"""The use of a namespace `n`."""
_MATCHED: LiteralString = (
    "from namespaces where organization_id = %(organization)s and deleted_at is null"
    " and (%(only)s::text is null or id = %(only)s)"
    " and (%(name)s::text is null or strpos(lower(name), lower(%(name)s)) > 0)"
)


@dataclass(frozen=True, slots=True)
class Listing:
    """Namespaces whose names contain `name`, in an order; `only`: none but this one. `has_counts`: with their use, that
    by one tenant if it is named."""

    order: Order = "newest"
    name: str | None = None
    only: str | None = None
    has_counts: bool = False
    tenant: str | None = None

    def cut(self, items: Sequence[A], part: PageRequest | None) -> Page[A]:
        """Return the page of items that were selected with one more than it holds."""
        if part is None or self.order not in _ORDERS:
            return pagination.cut_page(items, part)
        return pagination.take_page(items, part.size, lambda _: str(int(part.cursor or 0) + part.size))


NEWEST = Listing()


async def list_namespaces(
    db: AsyncExecutor,
    row_type: type[R],
    columns: LiteralString,
    organization: str,
    part: PageRequest | None,
    listing: Listing,
) -> list[R]:
    """List a page of namespaces, and one more if another page follows."""
    use, counted = ("to_jsonb(c)", _COUNTED) if listing.has_counts else ("null::jsonb", "")
    values = _parameters(organization, listing)
    if listing.order in _ORDERS:
        ending: LiteralString = " order by " + _ORDERS[listing.order] + " offset %(after)s limit %(limit)s"
        values |= {"after": None, "limit": None} if part is None else pagination.number_params(part.cursor, part.size)
    else:
        ending = pagination.order_by_age(oldest_first=listing.order == "oldest")
        values |= pagination.page_params(part)
    listed: LiteralString = "select " + columns + ", " + use + " as use from (select * " + _MATCHED + ") n" + counted
    return await db.async_fetch(row_type, listed + " where true" + ending, values)


async def count_namespaces(db: AsyncExecutor, organization: str, listing: Listing) -> int:
    """Count the namespaces of a listing, on all pages."""
    return await db.async_fetch_one(int, "select count(*) " + _MATCHED, _parameters(organization, listing)) or 0


def _parameters(organization: str, listing: Listing) -> Params:
    return {"organization": organization, "only": listing.only, "name": listing.name, "tenant": listing.tenant}


class NamespaceOwner(NamedTuple):
    """A namespace with its organization."""

    id: str
    organization_id: str


async def find_owners(db: AsyncExecutor, id_or_name: str) -> list[NamespaceOwner]:
    """Return the namespace with this id, else those with this name, of all organizations."""
    statement: LiteralString = (
        "select id, organization_id from namespaces where deleted_at is null and (id = %(text)s or name = %(text)s)"
        " order by id = %(text)s desc, id"
    )
    found = await db.async_fetch(NamespaceOwner, statement, {"text": id_or_name.replace("\x00", "\ufffd")})
    return found[:1] if found and found[0].id == id_or_name else found
