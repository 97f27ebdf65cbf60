"""Viewers: users with their groups, and the documents that they may see."""

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
# Document id that no document has: a filter by it finds nothing.
NO_DOCUMENT = "-"


def _select_groups(partition: LiteralString) -> LiteralString:
    """Return the statement that finds all groups with the principals `names`, direct or nested.

    `partition`: expression or query of the partition's id.
    """
    return f"""
    with recursive memberships(principal, partition_id) as (
        select name, ({partition}) from unnest(%(names)s::text[]) name
        union
        select 'g:' || m.group_id, m.partition_id
        from memberships u join group_members m on m.partition_id = u.partition_id and m.member = u.principal
    )
    select array_agg(principal) as principals, min(partition_id) as partition from memberships
"""


_SELECT_SCOPE_GROUPS: LiteralString = _select_groups(FIND_PARTITION)
_SELECT_DOCUMENT_GROUPS: LiteralString = _select_groups("select partition_id from documents where id = %(document)s")
# Restricted documents name their readers; open ones have {@}, everyone. The text is null above the limit.
_LIST_VISIBLE_VERSIONS: LiteralString = """
    with restricted as (
        select array(
            select id || ' ' || active_generation from documents
            where partition_id = %(partition)s and deleted_at is null and allowed <> '{@}'::text[]
              and allowed && %(principals)s::text[]
              and not %(names)s::jsonb ?| denied limit %(limit)s + 1
        ) as versions
    ),
    open as (
        select case when cardinality(r.versions) <= %(limit)s then array(
            select id || ' ' || active_generation from documents
            where partition_id = %(partition)s and deleted_at is null and allowed = '{@}'::text[]
              and not %(names)s::jsonb ?| denied limit %(limit)s + 1
        ) end as versions from restricted r
    )
    select case when cardinality(r.versions) + cardinality(o.versions) <= %(limit)s then
               array_to_string(r.versions || o.versions, ',')
           end as versions
    from restricted r, open o
"""


@dataclass(frozen=True, slots=True)
class Membership:
    """Principals of a user: the user and its groups. `partition`: None for an unknown scope or document."""

    principals: list[str]
    partition: int | None


async def find_viewer(db: Database, scope: Scope, name: str, groups: Sequence[str] = ()) -> Viewer:
    """Return the user with all its groups in the scope, direct or nested.

    `groups`: the user's groups at an identity provider.
    """
    names = _list_principals(name, groups)
    values = {**partitions.scope_params(scope), "names": names}
    membership = await db.async_fetch_one(Membership, _SELECT_SCOPE_GROUPS, values, plan_once=True)
    return _make_viewer(name, names, membership)


async def find_document_viewer(db: Database, document_id: str, name: str, groups: Sequence[str] = ()) -> Viewer:
    """Return the user with all its groups in the scope of a document, as `find_viewer`."""
    names = _list_principals(name, groups)
    values = {"document": document_id, "names": names}
    return _make_viewer(name, names, await db.async_fetch_one(Membership, _SELECT_DOCUMENT_GROUPS, values))


def list_visible_versions(db: Database, viewer: Viewer) -> list[str] | None:
    """Return visible versions as "document generation"; None for more than MAX_VISIBLE_IDS documents."""
    values: dict[str, Any] = {"partition": viewer.partition, "names": viewer.names, "limit": MAX_VISIBLE_IDS}
    values["principals"] = [*viewer.principals, EVERYONE_PRINCIPAL]
    # A sequential scan compares each document with every group of the user: 12 ms instead of 2 for 200 groups and 5,000
    # documents.
    with db.tuned(INDEX_SCANS_ONLY) as connection:
        versions = connection.fetch_one(str, _LIST_VISIBLE_VERSIONS, values, prepare=True)
    if versions is None:
        return None
    return versions.split(",") if versions else []


def narrow_filter(document_filter: DocumentFilter | None, ids: Sequence[str]) -> DocumentFilter:
    """Return the filter restricted to the documents `ids`; a filter with document ids stays."""
    if document_filter is not None and document_filter.document_ids:
        return document_filter
    return replace(document_filter or DocumentFilter(), document_ids=tuple(ids) or (NO_DOCUMENT,))


def _list_principals(name: str, groups: Sequence[str]) -> list[str]:
    principals = [user_principal(name)]
    # Content services share files with a domain: a user with an e-mail address is in its group `domain:example.com`.
    _, at_sign, domain = name.rpartition("@")
    if at_sign and domain:
        principals.append(group_principal(f"domain:{domain}"))
    return principals + [group_principal(group) for group in groups]


def _make_viewer(name: str, names: Sequence[str], membership: Membership | None) -> Viewer:
    if membership is None:
        return Viewer(name, tuple(names))
    return Viewer(name, tuple(membership.principals), membership.partition)
