"""Operations on groups of users, for access lists of documents."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from api import decode
from api.operation import operation
from api.request import ApiRequest, read_json
from api.wire import access as wire
from retrieval import principals
from retrieval.access import groups
from retrieval.access.groups import MAX_GROUP_MEMBERS
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces import namespaces
from retrieval.ports import Scope

_INVALID_REQUEST = ErrorCode.INVALID_REQUEST
_operation = partial(operation, path="/v1/groups/{group_id:str}", tag="Access", invalid=_INVALID_REQUEST)


@_operation(
    method="PUT",
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
    example={
        "namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0",
        "members": {"users": ["ada@example.com"], "groups": ["auditors"]},
    },
)
async def put_group(request: ApiRequest, group_id: FromPath[str], data: JSONBody[wire.PutGroup]) -> wire.GroupAnswer:
    """Create or replace a group. It applies from the next request on. Documents are not changed."""
    members = data.members
    users = _normalize_names(members.users, "members.users", principals.normalize_user_name)
    group_members = _normalize_names(members.groups, "members.groups", principals.require_group_name)
    if len(users) + len(group_members) > MAX_GROUP_MEMBERS:
        message = f"A group may have at most {MAX_GROUP_MEMBERS:,} members."
        raise ServiceError(_INVALID_REQUEST, message, field="members", reason="out_of_bounds")
    group = await groups.put_group(
        request.services.db, request.scope_of(data.namespace_id), _check_name(group_id), users, group_members
    )
    return wire.GroupAnswer(message="Group saved successfully", data=wire.GroupData(wire.Group.from_group(group)))


@_operation(method="GET", raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.NOT_FOUND))
async def get_group(
    request: ApiRequest, group_id: FromPath[str], params: NamedDependency[wire.GroupQuery]
) -> wire.GroupAnswer:
    """Get a group. Returns its direct members."""
    scope = request.scope_of(params.namespace_id)
    group = await groups.get_group(request.services.db, scope, _check_name(group_id))
    if group is None:
        raise await _not_found_error(request, scope)
    return wire.GroupAnswer(message="Group fetched successfully", data=wire.GroupData(wire.Group.from_group(group)))


@_operation(method="DELETE", raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.NOT_FOUND))
async def delete_group(
    request: ApiRequest, group_id: FromPath[str], params: NamedDependency[wire.DeletedGroupQuery]
) -> wire.GroupDeletedAnswer:
    """Delete a group.

    Documents and groups that name it keep the name; it has no members until it is created again. Send `namespaceId` in
    the query, or in a JSON body.
    """
    namespace_id = params.namespace_id
    scope = request.scope_of(await _read_namespace(request) if namespace_id is None else namespace_id)
    name = _check_name(group_id)
    if not await groups.delete_group(request.services.db, scope, name):
        raise await _not_found_error(request, scope)
    return wire.GroupDeletedAnswer(message="Group deleted successfully", data=wire.DeletedGroup(name))


ROUTE_HANDLERS = (put_group, get_group, delete_group)


async def _read_namespace(request: ApiRequest) -> str:
    return _read_query(await read_json(request, _INVALID_REQUEST)).namespace_id


_read_query = decode.make_json_reader(wire.GroupQuery, _INVALID_REQUEST)


def _check_name(group_id: str) -> str:
    return principals.require_group_name(group_id, _INVALID_REQUEST, "id")


def _normalize_names(names: list[str] | None, field: str, check: Callable[[str, ErrorCode, str], str]) -> list[str]:
    return list(dict.fromkeys(check(name, _INVALID_REQUEST, field) for name in names or ()))


async def _not_found_error(request: ApiRequest, scope: Scope) -> ServiceError:
    await namespaces.require_namespace(request.services.db, scope.organization, scope.namespace)
    return ServiceError(ErrorCode.NOT_FOUND, "There is no such group in this namespace.")
