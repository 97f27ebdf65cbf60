"""Users and groups pushed by an identity provider over SCIM.

A pushed group becomes an access group named by `displayName`, with its active users (`userName`) and groups.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, LiteralString

import sqlalchemy as sa
from psycopg.errors import UniqueViolation
from sqlalchemy.dialects.postgresql import insert

from retrieval import ids
from retrieval.access import groups
from retrieval.database import partitions
from retrieval.database.compiling import SCOPE_ID, columns_of, compile_statement, equals, equals_if_given, parameters
from retrieval.database.database import Database
from retrieval.database.schema import content
from retrieval.errors import ErrorCode, ServiceError
from retrieval.ports import Scope

USER_KIND, GROUP_KIND = "User", "Group"


@dataclass(frozen=True, slots=True)
class DirectoryResource:
    """Stored user or group. `name`: name in access lists; `kind`: `User` or `Group`."""

    id: str
    kind: str
    name: str
    external_id: str | None
    active: bool
    resource: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime

    @property
    def member_ids(self) -> list[str]:
        """Return the ids of the direct members."""
        return [str(member.get("value")) for member in self.resource.get("members") or ()]


@dataclass(frozen=True, slots=True)
class DirectoryMember:
    """Member of a group."""

    id: str
    kind: str
    name: str
    active: bool


@dataclass(frozen=True, slots=True)
class PushedResource:
    """User or group of a request."""

    kind: str
    name: str
    external_id: str | None
    active: bool
    resource: Mapping[str, Any]

    def values(self) -> dict[str, Any]:
        return asdict(self) | {"resource": json.dumps(self.resource)}


# Serialize changes of a directory, so groups see each member change and rename.
_LOCK_DIRECTORY: LiteralString = """
    select pg_advisory_xact_lock(hashtextextended(
        'directory/' || %(organization)s || '/' || %(namespace)s || '/' || %(tenant)s, 0
    ))
"""
_table: Any = content.DirectoryResource
_columns = columns_of(_table, DirectoryResource)
_in_scope = _table.partition_id == SCOPE_ID
_is_resource = sa.and_(_in_scope, equals(_table.kind), equals(_table.id))
_member_id = sa.bindparam("id", type_=sa.Text)
_membership = sa.func.jsonb_build_object("value", _member_id)
_has_member = sa.and_(
    _in_scope,
    _table.kind == GROUP_KIND,
    _table.resource.contains(sa.func.jsonb_build_object("members", sa.func.jsonb_build_array(_membership))),
)
_match_name = sa.bindparam("match_name", type_=sa.Text)
_matches = sa.and_(
    _in_scope,
    equals(_table.kind),
    equals_if_given(_table.id, "match_id"),
    sa.or_(_match_name.is_(None), sa.func.lower(_table.name) == sa.func.lower(_match_name)),
    equals_if_given(_table.external_id, "match_external_id"),
)
_CHANGEABLE_COLUMNS = ("name", "external_id", "active", "resource")
_INSERT_RESOURCE = compile_statement(
    insert(_table)
    .values(**parameters("partition_id", "id", "kind", *_CHANGEABLE_COLUMNS))
    .on_conflict_do_nothing()
    .returning(*_columns)
)
_GET_RESOURCE = compile_statement(sa.select(*_columns).where(_is_resource))
_COUNT_RESOURCES = compile_statement(sa.select(sa.func.count()).where(_matches))
_LIST_RESOURCES = compile_statement(
    sa.select(*_columns)
    .where(_matches)
    .order_by(_table.created_at, _table.id)
    .offset(sa.bindparam("offset", type_=sa.BigInteger))
    .limit(sa.bindparam("limit", type_=sa.BigInteger))
)
_UPDATE_RESOURCE = compile_statement(
    sa.update(_table)
    .where(_is_resource)
    .values(updated_at=sa.func.clock_timestamp(), **parameters(*_CHANGEABLE_COLUMNS))
    .returning(*_columns)
)
_DELETE_RESOURCE = compile_statement(sa.delete(_table).where(_is_resource))
_LIST_WITH_MEMBER = compile_statement(sa.select(*_columns).where(_has_member).order_by(_table.id))
_member = sa.func.jsonb_array_elements(_table.resource["members"]).column_valued("member")
_other_members = sa.select(sa.func.jsonb_agg(_member)).where(_member.op("->>")("value") != _member_id).scalar_subquery()
_REMOVE_MEMBER = compile_statement(
    sa.update(_table)
    .where(_has_member)
    .values(
        resource=sa.func.jsonb_set(
            _table.resource, sa.text("'{members}'"), sa.func.coalesce(_other_members, sa.text("'[]'"))
        )
    )
    .returning(*_columns)
)
_ids = sa.bindparam("ids", type_=sa.ARRAY(sa.Text))
_FIND_MEMBERS = compile_statement(
    sa.select(*columns_of(_table, DirectoryMember)).where(_in_scope, _table.id == sa.any_(_ids))
)


async def create_resource(db: Database, scope: Scope, pushed: PushedResource) -> DirectoryResource:
    """Store a pushed user or group. Raises NAMESPACE_NOT_FOUND, or CONFLICT for an existing name."""
    partition = await partitions.ensure_partition(db, scope)
    if partition is None:
        raise ServiceError(ErrorCode.NAMESPACE_NOT_FOUND, "There is no such namespace.", field="namespaceId")
    async with db.async_together():
        await db.async_execute(_LOCK_DIRECTORY, partitions.scope_params(scope))
        values = {**pushed.values(), "partition_id": partition, "id": ids.directory_id()}
        created = await db.async_fetch_one(DirectoryResource, _INSERT_RESOURCE, values)
        if created is None:
            raise _conflict(pushed.kind)
        await _apply_group(db, scope, created)
    return created


async def get_resource(
    db: Database, scope: Scope, kind: str, resource_id: str, *, lock: bool = False
) -> DirectoryResource:
    """Return a user or group. Raises NOT_FOUND. `lock`: block directory changes until the transaction ends."""
    if lock:
        await db.async_execute(_LOCK_DIRECTORY, partitions.scope_params(scope))
    resource = await db.async_fetch_one(DirectoryResource, _GET_RESOURCE, _resource_params(scope, kind, resource_id))
    if resource is None:
        raise ServiceError(ErrorCode.NOT_FOUND, f"There is no such {kind.lower()} in this namespace.")
    return resource


async def list_resources(
    db: Database, scope: Scope, kind: str, criteria: Mapping[str, str], offset: int, limit: int
) -> tuple[int, Sequence[DirectoryResource]]:
    """Return the total and a page of matching users or groups, oldest first.

    `criteria`: values of `id`, `name` (case-insensitive) and `external_id`.
    """
    fields = {f"match_{name}": criteria.get(name) for name in ("id", "name", "external_id")}
    values = {**partitions.scope_params(scope), **fields, "kind": kind, "offset": offset, "limit": limit}
    total = await db.async_fetch_one(int, _COUNT_RESOURCES, values)
    return total or 0, await db.async_fetch(DirectoryResource, _LIST_RESOURCES, values)


async def replace_resource(
    db: Database, scope: Scope, stored: DirectoryResource, pushed: PushedResource
) -> DirectoryResource:
    """Replace a user or group and update derived groups. Raises CONFLICT for an existing name."""
    try:
        async with db.async_together():
            values = {**_resource_params(scope, stored.kind, stored.id), **pushed.values()}
            replaced = await db.async_fetch_one(DirectoryResource, _UPDATE_RESOURCE, values)
            if replaced is None:
                raise ServiceError(ErrorCode.NOT_FOUND, f"There is no such {stored.kind.lower()} in this namespace.")
            if stored.kind == GROUP_KIND and stored.name != replaced.name:
                await groups.delete_group(db, scope, stored.name)
            await _apply_group(db, scope, replaced)
            if (stored.name, stored.active) != (replaced.name, replaced.active):
                containing = _resource_params(scope, GROUP_KIND, stored.id)
                for group in await db.async_fetch(DirectoryResource, _LIST_WITH_MEMBER, containing):
                    await _apply_group(db, scope, group)
    except UniqueViolation as error:
        raise _conflict(stored.kind) from error
    return replaced


async def delete_resource(db: Database, scope: Scope, kind: str, resource_id: str) -> None:
    """Delete a user or group with its memberships. Raises NOT_FOUND."""
    async with db.async_together():
        stored = await get_resource(db, scope, kind, resource_id, lock=True)
        await db.async_execute(_DELETE_RESOURCE, _resource_params(scope, kind, resource_id))
        if kind == GROUP_KIND:
            await groups.delete_group(db, scope, stored.name)
        for group in await db.async_fetch(
            DirectoryResource, _REMOVE_MEMBER, _resource_params(scope, GROUP_KIND, resource_id)
        ):
            await _apply_group(db, scope, group)


async def find_member_ids(db: Database, scope: Scope, member_ids: Sequence[str]) -> set[str]:
    """Return the ids of existing users and groups."""
    values = {**partitions.scope_params(scope), "ids": list(member_ids)}
    return {member.id for member in await db.async_fetch(DirectoryMember, _FIND_MEMBERS, values)}


async def _apply_group(db: Database, scope: Scope, group: DirectoryResource) -> None:
    """Write the access group of a pushed group."""
    if group.kind != GROUP_KIND:
        return
    values = {**partitions.scope_params(scope), "ids": group.member_ids}
    members = await db.async_fetch(DirectoryMember, _FIND_MEMBERS, values)
    users = [member.name for member in members if member.kind == USER_KIND and member.active]
    await groups.put_group(
        db, scope, group.name, users, [member.name for member in members if member.kind == GROUP_KIND]
    )


def _resource_params(scope: Scope, kind: str, resource_id: str) -> dict[str, Any]:
    return {**partitions.scope_params(scope), "kind": kind, "id": resource_id}


def _conflict(kind: str) -> ServiceError:
    name = "userName" if kind == USER_KIND else "displayName"
    return ServiceError(
        ErrorCode.CONFLICT, f"A {kind.lower()} with this {name} exists.", field=name, reason="uniqueness"
    )
