"""SQL of namespace lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, LiteralString, NamedTuple, TypeVar

from retrieval.database import pagination
from retrieval.database.pagination import Aged, Page, PageRequest
from retrieval.database.rows import AsyncExecutor, Params

Order = Literal["newest", "oldest", "name", "documents", "searches"]
RowT = TypeVar("RowT")
AgedT = TypeVar("AgedT", bound=Aged)

# Paged by offset; the other orders page by age.
_OFFSET_ORDERS: Mapping[Order, LiteralString] = {
    "name": "lower(name), id",
    "documents": "document_count desc, created_at desc, id desc",
    "searches": "search_count desc, created_at desc, id desc",
}
# Counts of a namespace `n`.
_JOIN_COUNTS: LiteralString = """
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
_FROM_MATCHING: LiteralString = (
    "from namespaces where organization_id = %(organization)s and deleted_at is null"
    " and (%(only)s::text is null or id = %(only)s)"
    " and (%(name)s::text is null or strpos(lower(name), lower(%(name)s)) > 0)"
)


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
    db: AsyncExecutor,
    row_type: type[RowT],
    columns: LiteralString,
    organization: str,
    part: PageRequest | None,
    listing: Listing,
) -> list[RowT]:
    """List a page of namespaces, with one extra if another page follows."""
    use, counted = ("to_jsonb(c)", _JOIN_COUNTS) if listing.has_counts else ("null::jsonb", "")
    values = _parameters(organization, listing)
    if listing.order in _OFFSET_ORDERS:
        ending: LiteralString = " order by " + _OFFSET_ORDERS[listing.order] + " offset %(after)s limit %(limit)s"
        values |= {"after": None, "limit": None} if part is None else pagination.number_params(part.cursor, part.size)
    else:
        ending = pagination.order_by_age(oldest_first=listing.order == "oldest")
        values |= pagination.page_params(part)
    statement: LiteralString = (
        "select " + columns + ", " + use + " as use from (select * " + _FROM_MATCHING + ") n" + counted
    )
    return await db.async_fetch(row_type, statement + " where true" + ending, values)


async def count_namespaces(db: AsyncExecutor, organization: str, listing: Listing) -> int:
    """Count the namespaces of a listing on all pages."""
    return await db.async_fetch_one(int, "select count(*) " + _FROM_MATCHING, _parameters(organization, listing)) or 0


def _parameters(organization: str, listing: Listing) -> Params:
    return {"organization": organization, "only": listing.only, "name": listing.name, "tenant": listing.tenant}


class NamespaceOwner(NamedTuple):
    """Namespace with its organization."""

    id: str
    organization_id: str


async def find_owners(db: AsyncExecutor, id_or_name: str) -> list[NamespaceOwner]:
    """Return the namespace with this id, else those with this name, of all organizations."""
    statement: LiteralString = (
        "select id, organization_id from namespaces where deleted_at is null and (id = %(text)s or name = %(text)s)"
        " order by id = %(text)s desc, id"
    )
    owners = await db.async_fetch(NamespaceOwner, statement, {"text": id_or_name.replace("\x00", "\ufffd")})
    return owners[:1] if owners and owners[0].id == id_or_name else owners
