"""Users and groups pushed by an identity provider over SCIM.

A pushed group becomes an access group named by `displayName`, with its active users (`userName`) and groups.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

from psycopg.errors import UniqueViolation

from retrieval import ids
from retrieval.access import groups
from retrieval.database import partitions
from retrieval.database.database import Database
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
        return {
            "kind": self.kind,
            "name": self.name,
            "external_id": self.external_id,
            "active": self.active,
            "resource": json.dumps(self.resource),
        }


_RESOURCE_COLUMNS: LiteralString = "id, kind, name, external_id, active, resource, created_at, updated_at"
_IN_SCOPE: LiteralString = """
    partition_id = (
        select p.id from partitions p
        join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
        where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
    )
"""
_INSERT_RESOURCE: LiteralString = (
    "insert into directory_resources (partition_id, id, kind, name, external_id, active, resource) values"
    " (%(partition)s, %(id)s, %(kind)s, %(name)s, %(external_id)s, %(active)s, %(resource)s)"
    f" on conflict do nothing returning {_RESOURCE_COLUMNS}"
)
_GET_RESOURCE: LiteralString = (
    f"select {_RESOURCE_COLUMNS} from directory_resources where {_IN_SCOPE} and kind = %(kind)s and id = %(id)s"
)
# Serialize changes of a directory, so groups see each member change and rename.
_LOCK_DIRECTORY: LiteralString = """
    select pg_advisory_xact_lock(hashtextextended(
        'directory/' || %(organization)s || '/' || %(namespace)s || '/' || %(tenant)s, 0
    ))
"""
_FROM_MATCHING: LiteralString = (
    f" from directory_resources where {_IN_SCOPE} and kind = %(kind)s"
    " and (%(match_id)s::text is null or id = %(match_id)s)"
    " and (%(match_name)s::text is null or lower(name) = lower(%(match_name)s))"
    " and (%(match_external_id)s::text is null or external_id = %(match_external_id)s)"
)
_COUNT_RESOURCES: LiteralString = "select count(*)" + _FROM_MATCHING
_LIST_RESOURCES: LiteralString = (
    f"select {_RESOURCE_COLUMNS}{_FROM_MATCHING} order by created_at, id offset %(offset)s limit %(limit)s"
)
_UPDATE_RESOURCE: LiteralString = (
    "update directory_resources set name = %(name)s, external_id = %(external_id)s, active = %(active)s,"
    f" resource = %(resource)s, updated_at = clock_timestamp() where {_IN_SCOPE} and kind = %(kind)s and id = %(id)s"
    f" returning {_RESOURCE_COLUMNS}"
)
_DELETE_RESOURCE: LiteralString = (
    f"delete from directory_resources where {_IN_SCOPE} and kind = %(kind)s and id = %(id)s"
)
_WITH_MEMBER: LiteralString = (
    f"{_IN_SCOPE} and kind = 'Group'"
    " and resource @> jsonb_build_object('members', jsonb_build_array(jsonb_build_object('value', %(id)s::text)))"
)
_LIST_WITH_MEMBER: LiteralString = (
    f"select {_RESOURCE_COLUMNS} from directory_resources where {_WITH_MEMBER} order by id"
)
_REMOVE_MEMBER: LiteralString = (
    "update directory_resources set resource = jsonb_set(resource, '{members}', coalesce((select jsonb_agg(member)"
    " from jsonb_array_elements(resource->'members') member where member->>'value' <> %(id)s), '[]'))"
    f" where {_WITH_MEMBER} returning {_RESOURCE_COLUMNS}"
)
_FIND_MEMBERS: LiteralString = (
    f"select id, kind, name, active from directory_resources where {_IN_SCOPE} and id = any(%(ids)s)"
)


async def create_resource(db: Database, scope: Scope, pushed: PushedResource) -> DirectoryResource:
    """Store a pushed user or group. Raises NAMESPACE_NOT_FOUND, or CONFLICT for an existing name."""
    partition = await partitions.ensure_partition(db, scope)
    if partition is None:
        raise ServiceError(ErrorCode.NAMESPACE_NOT_FOUND, "There is no such namespace.", field="namespaceId")
    async with db.async_together():
        await db.async_execute(_LOCK_DIRECTORY, partitions.scope_params(scope))
        values = {**pushed.values(), "partition": partition, "id": ids.directory_id()}
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
