"""Groups of a scope and their members, users and other groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, LiteralString

from sqlalchemy import ARRAY, Integer, Text, all_, and_, bindparam, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from retrieval import principals, write_details
from retrieval.database import partitions
from retrieval.database.compiling import SCOPE_ID, columns_of, compile_statement, equals
from retrieval.database.database import Database
from retrieval.database.schema import content
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
_table: Any = content.AccessGroup
_member: Any = content.GroupMember
_of_group = and_(equals(_member.partition_id, "partition"), equals(_member.group_id, "group"))
_members = bindparam("members", type_=ARRAY(Text))
_by_letters = _member.member.collate("C")
_DELETE_OTHER_MEMBERS = compile_statement(delete(_member).where(_of_group, _member.member != all_(_members)))
_LIST_MEMBERS = compile_statement(select(_member.member).where(_of_group).order_by(_by_letters))
_sent_member = func.unnest(_members).column_valued("member")
_sent = select(bindparam("partition", type_=Integer), bindparam("group", type_=Text), _sent_member)
_new_members = insert(_member).from_select(["partition_id", "group_id", "member"], _sent.order_by(_sent_member))
_INSERT_MEMBERS = compile_statement(_new_members.on_conflict_do_nothing())
_is_group = and_(equals(_table.id, "group"), _table.partition_id == SCOPE_ID)
_of_row = (_member.partition_id == _table.partition_id, _member.group_id == _table.id)
_group_members = func.array(select(_member.member).where(*_of_row).order_by(_by_letters).scalar_subquery())
_columns = columns_of(_table, GroupRow, partition=_table.partition_id, members=_group_members)
_GET_GROUP = compile_statement(select(*_columns).where(_is_group))
_DELETE_GROUP = compile_statement(delete(_table).where(_is_group).returning(_table.id))


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
    """Delete a group; return False if missing. Entries of access lists with the group stay, without effect."""
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
