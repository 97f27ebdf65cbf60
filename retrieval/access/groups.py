"""Groups of a scope and their members, users and other groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, LiteralString

from retrieval import principals, write_details
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.errors import ErrorCode, ServiceError
from retrieval.ports import Scope

MAX_GROUP_MEMBERS = 10_000


@dataclass(frozen=True, slots=True)
class Group:
    """Group with its direct members, sorted."""

    id: str
    users: tuple[str, ...]
    groups: tuple[str, ...]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class GroupRow:
    """Group with its members as principals."""

    id: str
    partition: int
    members: Sequence[str]
    created_at: datetime
    updated_at: datetime


_UPSERT_GROUP: LiteralString = (
    "with "
    + partitions.FIND_OR_MAKE
    + """
    insert into access_groups (partition_id, id) select id, %(group)s from partition
    on conflict (partition_id, id) do update set updated_at = clock_timestamp()
    returning id, partition_id as partition, '{}'::text[] as members, created_at, updated_at
"""
)
_DELETE_OTHER_MEMBERS: LiteralString = """
    delete from group_members
    where partition_id = %(partition)s and group_id = %(group)s and not member = any(%(members)s)
"""
_LIST_MEMBERS: LiteralString = """
    select member from group_members where partition_id = %(partition)s and group_id = %(group)s
    order by member collate "C"
"""
_INSERT_MEMBERS: LiteralString = """
    insert into group_members (partition_id, group_id, member)
    select %(partition)s, %(group)s, member from unnest(%(members)s::text[]) member order by member
    on conflict do nothing
"""
_GROUP_IN_SCOPE: LiteralString = """
    g.id = %(group)s and g.partition_id = (
        select p.id from partitions p
        join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
        where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
    )
"""
_GET_GROUP: LiteralString = (
    """
    select g.id, g.partition_id as partition, g.created_at, g.updated_at, array(
        select m.member from group_members m where m.partition_id = g.partition_id and m.group_id = g.id
        order by m.member collate "C"
    ) as members
    from access_groups g where """
    + _GROUP_IN_SCOPE
)
_DELETE_GROUP: LiteralString = "delete from access_groups g where " + _GROUP_IN_SCOPE + " returning g.id"


async def put_group(db: Database, scope: Scope, name: str, users: Sequence[str], groups: Sequence[str]) -> Group:
    """Create the group or replace its members. Raises NAMESPACE_NOT_FOUND."""
    members = [*map(principals.user_principal, users), *map(principals.group_principal, groups)]
    async with db.async_transaction() as connection:
        values: dict[str, Any] = {**partitions.scope_params(scope), "group": name, "members": members}
        row: GroupRow | None = None
        for _ in range(2):
            row = row or await connection.async_fetch_one(GroupRow, _UPSERT_GROUP, values)
        if row is None:
            raise ServiceError(ErrorCode.NAMESPACE_NOT_FOUND, "There is no such namespace.", field="namespaceId")
        values["partition"] = row.partition
        former_members = await connection.async_fetch(str, _LIST_MEMBERS, values)
        await connection.async_execute(_DELETE_OTHER_MEMBERS, values)
        await connection.async_execute(_INSERT_MEMBERS, values)
    write_details.record_change(name, _split_members(former_members), _split_members(sorted(members)))
    return _make_group(replace(row, members=sorted(members)))


async def get_group(db: Database, scope: Scope, name: str) -> Group | None:
    row = await db.async_fetch_one(GroupRow, _GET_GROUP, {**partitions.scope_params(scope), "group": name})
    return None if row is None else _make_group(row)


async def delete_group(db: Database, scope: Scope, name: str) -> bool:
    """Delete a group; return False if it does not exist. Access lists may still name it, without effect."""
    group = await get_group(db, scope, name)
    deleted = bool(await db.async_fetch(str, _DELETE_GROUP, {**partitions.scope_params(scope), "group": name}))
    if group is not None and deleted:
        write_details.record_change(name, {"users": list(group.users), "groups": list(group.groups)}, None)
    return deleted


def _make_group(row: GroupRow) -> Group:
    members = _split_members(row.members)
    return Group(row.id, tuple(members["users"]), tuple(members["groups"]), row.created_at, row.updated_at)


def _split_members(members: Sequence[str]) -> dict[str, list[str]]:
    """Return members by kind, without the prefixes of principals."""
    kinds = {"users": "u:", "groups": "g:"}
    return {name: [member[2:] for member in members if member.startswith(prefix)] for name, prefix in kinds.items()}
