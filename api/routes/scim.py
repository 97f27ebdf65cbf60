"""SCIM 2.0 (RFC 7643, RFC 7644): users and groups pushed by an identity provider."""
# Groups apply to access lists from the next request on.

from __future__ import annotations

from functools import partial

import msgspec
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from api.operation import idempotent, operation
from api.request import ApiRequest
from api.wire import scim as wire
from retrieval.access.queries import directory
from retrieval.access.queries.directory import GROUP_KIND, USER_KIND
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces import namespaces

_INVALID_REQUEST = ErrorCode.INVALID_REQUEST
_LIST_PATH = "/v1/namespaces/{namespace_id:str}/scim/v2/{resource_type:str}"
_RESOURCE_PATH = _LIST_PATH + "/{resource_id:str}"
_operation = partial(
    operation,
    tag="SCIM",
    invalid=_INVALID_REQUEST,
    media_type="application/scim+json",
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.NOT_FOUND),
)
_USER_EXAMPLE = {
    "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
    "userName": "ada@example.com",
    "externalId": "8c6b5b",
    "active": True,
}
_CHANGE_ERRORS = (ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.NOT_FOUND, ErrorCode.CONFLICT)
_RESOURCE_KINDS = {"Users": USER_KIND, "Groups": GROUP_KIND}


@_operation("GET", _LIST_PATH, answer=wire.ScimList)
async def list_scim_resources(
    request: ApiRequest,
    namespace_id: FromPath[str],
    resource_type: FromPath[str],
    params: NamedDependency[wire.ScimQuery],
) -> msgspec.Raw:
    """List users or groups by SCIM.

    `resource_type` is `Users` or `Groups`, or `ServiceProviderConfig`, `ResourceTypes` or `Schemas`, which describe the
    service. A filter compares `userName`, `displayName`, `externalId` or `id` by `eq`.
    """
    from api import scim_resources

    scope = request.scope_of(namespace_id)
    if resource_type in scim_resources.SERVICE_DESCRIPTIONS:
        return scim_resources.encode_answer(scim_resources.SERVICE_DESCRIPTIONS[resource_type]())
    kind, values = _kind_of(resource_type), scim_resources.read_filter(resource_type, params.filter)
    start_index = min(max(1, params.start_index or 1), 2**31)
    limit = max(
        0, min(scim_resources.MAX_PAGE_SIZE, scim_resources.MAX_PAGE_SIZE if params.count is None else params.count)
    )
    total, stored = await directory.list_resources(request.services.db, scope, kind, values, start_index - 1, limit)
    if not total:
        await namespaces.require_namespace(request.services.db, scope.organization, scope.namespace)
    return await request.services.run_in_thread(
        scim_resources.encode_page, request, resource_type, stored, total, start_index, params
    )


@_operation("POST", _LIST_PATH, answer=wire.ScimResource, status=201, example=_USER_EXAMPLE)
@idempotent
async def create_scim_resource(
    request: ApiRequest,
    namespace_id: FromPath[str],
    resource_type: FromPath[str],
    data: JSONBody[wire.ScimResource],  # noqa: ARG001 - read from the body by scim2-models
) -> msgspec.Raw:
    """Create a user or group by SCIM. A name that exists is refused with 409."""
    from api import scim_resources

    scope = request.scope_of(namespace_id)
    _kind_of(resource_type)
    resource = await request.services.run_in_thread(scim_resources.read_created, resource_type, await request.body())
    pushed = await scim_resources.build_pushed(request, scope, resource_type, resource)
    created = await directory.create_resource(request.services.db, scope, pushed)
    return await request.services.run_in_thread(scim_resources.encode_resource, request, resource_type, created)


@_operation("GET", _RESOURCE_PATH, answer=wire.ScimResource)
async def get_scim_resource(
    request: ApiRequest,
    namespace_id: FromPath[str],
    resource_type: FromPath[str],
    resource_id: FromPath[str],
    params: NamedDependency[wire.ScimAttributes],
) -> msgspec.Raw:
    """Get a user or group by SCIM."""
    from api import scim_resources

    scope, kind = request.scope_of(namespace_id), _kind_of(resource_type)
    stored = await directory.get_resource(request.services.db, scope, kind, resource_id)
    return await request.services.run_in_thread(scim_resources.encode_resource, request, resource_type, stored, params)


@_operation("PUT", _RESOURCE_PATH, answer=wire.ScimResource, raises=_CHANGE_ERRORS, example=_USER_EXAMPLE)
async def replace_scim_resource(
    request: ApiRequest,
    namespace_id: FromPath[str],
    resource_type: FromPath[str],
    resource_id: FromPath[str],
    data: JSONBody[wire.ScimResource],  # noqa: ARG001 - read from the body by scim2-models
) -> msgspec.Raw:
    """Replace a user or group by SCIM."""
    from api import scim_resources

    scope, kind = request.scope_of(namespace_id), _kind_of(resource_type)
    resource = await request.services.run_in_thread(
        scim_resources.read_replacement, resource_type, await request.body()
    )
    async with request.services.db.async_together():
        stored = await directory.get_resource(request.services.db, scope, kind, resource_id, lock=True)
        pushed = await scim_resources.build_pushed(request, scope, resource_type, resource)
        replaced = await directory.replace_resource(request.services.db, scope, stored, pushed)
    return await request.services.run_in_thread(scim_resources.encode_resource, request, resource_type, replaced)


@_operation(
    "PATCH",
    _RESOURCE_PATH,
    answer=wire.ScimResource,
    raises=_CHANGE_ERRORS,
    example={
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
        "Operations": [{"op": "replace", "path": "active", "value": False}],
    },
)
async def patch_scim_resource(
    request: ApiRequest,
    namespace_id: FromPath[str],
    resource_type: FromPath[str],
    resource_id: FromPath[str],
    data: JSONBody[wire.ScimPatch],  # noqa: ARG001 - read from the body by scim2-models
) -> msgspec.Raw:
    """Change attributes or members of a user or group by SCIM.

    The operations apply together or not at all. A user with `active: false` is in no group until it is active again.
    """
    from api import scim_resources

    scope, kind, db = request.scope_of(namespace_id), _kind_of(resource_type), request.services.db
    patch = await request.services.run_in_thread(scim_resources.read_patch, resource_type, await request.body())
    async with db.async_together():
        stored = await directory.get_resource(db, scope, kind, resource_id, lock=True)
        resource = await request.services.run_in_thread(scim_resources.apply_patch, resource_type, stored, patch)
        pushed = await scim_resources.build_pushed(request, scope, resource_type, resource)
        replaced = await directory.replace_resource(db, scope, stored, pushed)
    return await request.services.run_in_thread(scim_resources.encode_resource, request, resource_type, replaced)


@_operation("DELETE", _RESOURCE_PATH, status=204)
async def delete_scim_resource(
    request: ApiRequest, namespace_id: FromPath[str], resource_type: FromPath[str], resource_id: FromPath[str]
) -> None:
    """Delete a user or group by SCIM. A deleted user is in no group."""
    scope, kind = request.scope_of(namespace_id), _kind_of(resource_type)
    await directory.delete_resource(request.services.db, scope, kind, resource_id)


ROUTE_HANDLERS = (
    list_scim_resources,
    create_scim_resource,
    get_scim_resource,
    replace_scim_resource,
    patch_scim_resource,
    delete_scim_resource,
)


def _kind_of(resource_type: str) -> str:
    if resource_type not in _RESOURCE_KINDS:
        raise ServiceError(ErrorCode.NOT_FOUND, "The SCIM service has Users and Groups.", field="resource_type")
    return _RESOURCE_KINDS[resource_type]
