"""Viewers: a user with its groups, and the visible documents of a scope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, LiteralString

from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.database.sessions import INDEX_SCANS_ONLY
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope
from retrieval.principals import EVERYONE_PRINCIPAL, Viewer, group_principal, user_principal
from retrieval.text_filter import FIND_PARTITION

# Below this count, resolve visible document ids first and filter by id.
MAX_VISIBLE_IDS = 2_000
# Id without a document.
NO_DOCUMENT = "-"


def _select_groups(partition: LiteralString) -> LiteralString:
    """Return a statement for all groups of a partition containing the names."""
    return f"""
    with recursive mine(principal, partition_id) as (
        select name, ({partition}) from unnest(%(names)s::text[]) name
        union
        select 'g:' || m.group_id, m.partition_id
        from mine join group_members m on m.partition_id = mine.partition_id and m.member = mine.principal
    )
    select array_agg(principal) as principals, min(partition_id) as partition from mine
"""


_SELECT_SCOPE_GROUPS: LiteralString = _select_groups(FIND_PARTITION)
_SELECT_DOCUMENT_GROUPS: LiteralString = _select_groups("select partition_id from documents where id = %(document)s")
_LIST_VISIBLE_VERSIONS: LiteralString = """
    with listed as (
        select array(
            select id || ' ' || active_generation from documents
            where partition_id = %(partition)s and deleted_at is null and allowed <> '{@}'::text[]
              and allowed && %(principals)s::text[]
              and not %(names)s::jsonb ?| denied limit %(limit)s + 1
        ) as versions
    ),
    open as (
        select case when cardinality(l.versions) <= %(limit)s then array(
            select id || ' ' || active_generation from documents
            where partition_id = %(partition)s and deleted_at is null and allowed = '{@}'::text[]
              and not %(names)s::jsonb ?| denied limit %(limit)s + 1
        ) end as versions from listed l
    )
    select case when cardinality(l.versions) + cardinality(o.versions) <= %(limit)s then
               array_to_string(l.versions || o.versions, ',')
           end as versions
    from listed l, open o
"""


@dataclass(frozen=True, slots=True)
class Membership:
    """Principals of a user in a partition."""

    principals: list[str]
    partition: int | None


async def find_viewer(db: Database, scope: Scope, name: str, groups: Sequence[str] = ()) -> Viewer:
    """Return the user with all its groups in the scope, direct or nested.

    `groups`: the user's groups at an identity provider.
    """
    names = _list_principals(name, groups)
    values = {**partitions.scope_params(scope), "names": names}
    return _make_viewer(name, names, await db.async_fetch_one(Membership, _SELECT_SCOPE_GROUPS, values, plan_once=True))


async def find_document_viewer(db: Database, document_id: str, name: str, groups: Sequence[str] = ()) -> Viewer:
    """Return the user with its groups in the scope of a document."""
    names = _list_principals(name, groups)
    return _make_viewer(
        name,
        names,
        await db.async_fetch_one(Membership, _SELECT_DOCUMENT_GROUPS, {"document": document_id, "names": names}),
    )


def list_visible_versions(db: Database, viewer: Viewer) -> list[str] | None:
    """Return the versions of documents visible to the viewer, as `document generation`; None above MAX_VISIBLE_IDS."""
    values: dict[str, Any] = {"partition": viewer.partition, "names": viewer.names, "limit": MAX_VISIBLE_IDS}
    values["principals"] = [*viewer.principals, EVERYONE_PRINCIPAL]
    # A sequential scan compares each document with every group of the user: 12 ms instead of 2 for 200 groups and 5,000
    # documents.
    with db.tuned(INDEX_SCANS_ONLY) as connection:
        versions = connection.fetch_one(str, _LIST_VISIBLE_VERSIONS, values, prepare=True)
    return None if versions is None else versions.split(",") if versions else []


def narrow_filter(document_filter: DocumentFilter | None, ids: Sequence[str]) -> DocumentFilter:
    """Restrict a filter to these documents unless it has document ids."""
    if document_filter is not None and document_filter.document_ids:
        return document_filter
    return replace(document_filter or DocumentFilter(), document_ids=tuple(ids) or (NO_DOCUMENT,))


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
