"""Viewers: a user with the groups that hold it, and which few documents of a scope it may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, LiteralString

from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope
from retrieval.principals import EVERYONE, Viewer, group_principal, user_principal

FEW = 2_000
"""Documents that a viewer may see at most for them to be looked up first, and everything else read of them alone."""


def _select_groups(partition: LiteralString) -> LiteralString:
    """Return the statement for all groups that hold the names in a partition."""
    return f"""
    with recursive mine(principal, partition_id) as (
        select name, ({partition}) from unnest(%(names)s::text[]) name
        union
        select 'g:' || m.group_id, m.partition_id
        from mine join group_members m on m.partition_id = mine.partition_id and m.member = mine.principal
    )
    select array_agg(principal) as principals, min(partition_id) as partition from mine
"""


_OF_SCOPE: LiteralString = _select_groups(
    """select p.id from partitions p
        join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
        where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s""",
)
_OF_DOCUMENT: LiteralString = _select_groups("select partition_id from documents where id = %(document)s")
_VISIBLE: LiteralString = """
    with listed as (
        select array(
            select id from documents
            where partition_id = %(partition)s and deleted_at is null and allowed <> '{@}'::text[]
              and allowed && %(principals)s::text[] limit %(few)s + 1
        ) as ids
    ),
    open as (
        select case when cardinality(l.ids) <= %(few)s then array(
            select id from documents
            where partition_id = %(partition)s and deleted_at is null and allowed = '{@}'::text[]
            limit %(few)s + 1
        ) end as ids from listed l
    )
    select case when cardinality(l.ids) + cardinality(o.ids) <= %(few)s then l.ids || o.ids end as ids
    from listed l, open o
"""


@dataclass(frozen=True, slots=True)
class Membership:
    """Principals that stand for a user in a partition."""

    principals: list[str]
    partition: int | None


async def find_viewer(db: Database, scope: Scope, name: str, groups: Sequence[str] = ()) -> Viewer:
    """Return the user of this name with all groups of the scope that contain it, directly or nested: one statement.

    `groups`: further groups of the user from an identity provider; groups of the scope may contain these.
    """
    names = _names(name, groups)
    values = {**partitions.scope_params(scope), "names": names}
    return _viewer(name, names, await db.async_fetch_one(Membership, _OF_SCOPE, values, plan_once=True))


async def viewer_of(db: Database, document_id: str, name: str, groups: Sequence[str] = ()) -> Viewer:
    """Read the user in the scope of a document."""
    names = _names(name, groups)
    return _viewer(
        name, names, await db.async_fetch_one(Membership, _OF_DOCUMENT, {"document": document_id, "names": names})
    )


def few_seen(db: Database, viewer: Viewer) -> tuple[str, ...] | None:
    """List the ids of all documents that a viewer may see, if they are few; None if there are more.

    Documents that deny the viewer may be among them: what is read of them is read under the policies.
    """
    values: dict[str, Any] = {"partition": viewer.partition, "few": FEW}
    ids = db.fetch_one(list, _VISIBLE, {**values, "principals": [*viewer.principals, EVERYONE]})
    return None if ids is None else tuple(ids)


def narrow_filter(where: DocumentFilter | None, ids: Sequence[str]) -> DocumentFilter:
    """Narrow a filter to the few documents that its viewer may see, unless it names documents itself."""
    if where is not None and where.document_ids:
        return where
    return replace(where or DocumentFilter(), document_ids=tuple(ids) or (NOBODYS,))


NOBODYS = "-"
"""The id of no document."""


def _names(name: str, groups: Sequence[str]) -> list[str]:
    """A user with an address is of its domain's group too (`domain:example.com`), which services share files with."""
    domain = name.rpartition("@")[2]
    principals = (
        [user_principal(name), group_principal(f"domain:{domain}")]
        if "@" in name and domain
        else [user_principal(name)]
    )
    return principals + [group_principal(name) for name in groups]


def _viewer(name: str, names: Sequence[str], membership: Membership | None) -> Viewer:
    if membership is None:
        return Viewer(name, tuple(names))
    return Viewer(name, tuple(membership.principals), membership.partition)
