"""Viewers: a user with its groups, and the documents of a scope that it may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, LiteralString

from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope
from retrieval.principals import EVERYONE, Viewer, group_principal, user_principal

MAX_VISIBLE_IDS = 2_000
"""Below this count, resolve visible document ids first and filter by id."""
NO_DOCUMENT = "-"
"""Id that no document has."""


def _select_groups(partition: LiteralString) -> LiteralString:
    """Return the statement for all groups of a partition that contain the names."""
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
              and allowed && %(principals)s::text[] limit %(limit)s + 1
        ) as ids
    ),
    open as (
        select case when cardinality(l.ids) <= %(limit)s then array(
            select id from documents
            where partition_id = %(partition)s and deleted_at is null and allowed = '{@}'::text[]
            limit %(limit)s + 1
        ) end as ids from listed l
    )
    select case when cardinality(l.ids) + cardinality(o.ids) <= %(limit)s then l.ids || o.ids end as ids
    from listed l, open o
"""


@dataclass(frozen=True, slots=True)
class Membership:
    """Principals of a user in a partition."""

    principals: list[str]
    partition: int | None


async def find_viewer(db: Database, scope: Scope, name: str, groups: Sequence[str] = ()) -> Viewer:
    """Return the user with all groups of the scope that contain it, directly or nested.

    `groups`: groups of the user at an identity provider, which groups of the scope may contain.
    """
    names = _list_principals(name, groups)
    values = {**partitions.scope_params(scope), "names": names}
    return _make_viewer(name, names, await db.async_fetch_one(Membership, _OF_SCOPE, values, plan_once=True))


async def find_document_viewer(db: Database, document_id: str, name: str, groups: Sequence[str] = ()) -> Viewer:
    """Return the user with its groups in the scope of a document."""
    names = _list_principals(name, groups)
    return _make_viewer(
        name, names, await db.async_fetch_one(Membership, _OF_DOCUMENT, {"document": document_id, "names": names})
    )


def list_visible_ids(db: Database, viewer: Viewer) -> tuple[str, ...] | None:
    """Return the ids of the documents that a viewer may see, or None above `MAX_VISIBLE_IDS`."""
    # Documents that deny the viewer may be among them: policies of the database hide their content.
    values: dict[str, Any] = {"partition": viewer.partition, "limit": MAX_VISIBLE_IDS}
    ids = db.fetch_one(list, _VISIBLE, {**values, "principals": [*viewer.principals, EVERYONE]})
    return None if ids is None else tuple(ids)


def narrow_filter(where: DocumentFilter | None, ids: Sequence[str]) -> DocumentFilter:
    """Restrict a filter to these documents unless it names documents itself."""
    if where is not None and where.document_ids:
        return where
    return replace(where or DocumentFilter(), document_ids=tuple(ids) or (NO_DOCUMENT,))


def _list_principals(name: str, groups: Sequence[str]) -> list[str]:
    # Content services share files with a domain: a user with an e-mail address is in its group `domain:example.com`.
    domain = name.rpartition("@")[2]
    principals = (
        [user_principal(name), group_principal(f"domain:{domain}")]
        if "@" in name and domain
        else [user_principal(name)]
    )
    return principals + [group_principal(name) for name in groups]


def _make_viewer(name: str, names: Sequence[str], membership: Membership | None) -> Viewer:
    if membership is None:
        return Viewer(name, tuple(names))
    return Viewer(name, tuple(membership.principals), membership.partition)
