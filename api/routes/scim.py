"""SCIM 2.0 (RFC 7643, RFC 7644) for a namespace: an identity provider pushes users and groups.

The resources, filters and patches are those of scim2-models. The groups apply to access lists from the next request on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import scim2_models as scim
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from pydantic import ValidationError
from scim2_models.path import CompareOperator, Comparison, LogicalExpr, LogicalOperator

from api.operation import idempotent, operation
from api.request import ApiRequest
from api.wire import scim as wire
from retrieval import principals
from retrieval.access.groups import MEMBERS
from retrieval.access.queries import directory
from retrieval.access.queries.directory import GROUP, USER, DirectoryResource, PushedResource
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces import namespaces
from retrieval.ports import Scope

_INVALID = ErrorCode.INVALID_REQUEST
_LIST_PATH = "/v1/namespaces/{namespace_id:str}/scim/v2/{resource_type:str}"
_PATH = _LIST_PATH + "/{resource_id:str}"
_operation = partial(
    operation,
    tag="SCIM",
    invalid=_INVALID,
    media_type="application/scim+json",
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.NOT_FOUND),
)
_EXAMPLE = {
    "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
    "userName": "ada@example.com",
    "externalId": "8c6b5b",
    "active": True,
}
_TOLERANT = scim.ScimPolicy(
    unknown=scim.ScimPolicy.Unknown.keep,
    remove_value_as_filter=scim.ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=scim.ScimPolicy.UnmatchedPathFilter.create,
)
"""Tolerance of what Entra and Okta send beyond the standard."""
_User = scim.User[scim.EnterpriseUser]
_MODELS: Mapping[str, Any] = {"Users": _User, "Groups": scim.Group}
_PATCHES: Mapping[str, Any] = {"Users": scim.PatchOp[_User], "Groups": scim.PatchOp[scim.Group]}
_FILTERS: Mapping[str, Any] = {"Users": scim.ScimFilter[_User], "Groups": scim.ScimFilter[scim.Group]}
_KINDS = {"Users": USER, "Groups": GROUP}
_ATTRIBUTES = {"id": "id", "username": "name", "displayname": "name", "externalid": "external_id"}
"""Attributes that a filter may compare, in lower case, with the columns that hold them."""
PAGE = 100


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
    scope = request.scope_of(namespace_id)
    if resource_type in _DESCRIPTIONS:
        return _encode(_DESCRIPTIONS[resource_type]())
    kind, sought = _kind_of(resource_type), _read_filter(resource_type, params.filter)
    start_index, limit = (
        max(1, params.start_index or 1),
        max(0, min(PAGE, PAGE if params.count is None else params.count)),
    )
    total, resources = await directory.list_resources(request.services.db, scope, kind, sought, start_index - 1, limit)
    if not total:
        await namespaces.require_namespace(request.services.db, scope.organization, scope.namespace)
    page = [_show(request, resource_type, resource, params) for resource in resources]
    return _encode({**_page_of(page, total), "startIndex": start_index})


@_operation("POST", _LIST_PATH, answer=wire.ScimResource, status=201, example=_EXAMPLE)
@idempotent
async def create_scim_resource(
    request: ApiRequest,
    namespace_id: FromPath[str],
    resource_type: FromPath[str],
    data: JSONBody[wire.ScimResource],  # noqa: ARG001 - read from the body by scim2-models
) -> msgspec.Raw:
    """Create a user or group by SCIM. A name that exists is refused with 409."""
    scope = request.scope_of(namespace_id)
    resource = _validate(_model_of(resource_type), await request.body(), scim.Context.RESOURCE_CREATION_REQUEST)
    pushed = await _push(request, scope, resource_type, resource)
    created = await directory.create_resource(request.services.db, scope, pushed)
    return _encode(_show(request, resource_type, created))


@_operation("GET", _PATH, answer=wire.ScimResource)
async def get_scim_resource(
    request: ApiRequest,
    namespace_id: FromPath[str],
    resource_type: FromPath[str],
    resource_id: FromPath[str],
    params: NamedDependency[wire.ScimAttributes],
) -> msgspec.Raw:
    """Get a user or group by SCIM."""
    scope, kind = request.scope_of(namespace_id), _kind_of(resource_type)
    stored = await directory.get_resource(request.services.db, scope, kind, resource_id)
    return _encode(_show(request, resource_type, stored, params))


@_operation("PUT", _PATH, answer=wire.ScimResource, example=_EXAMPLE)
async def replace_scim_resource(
    request: ApiRequest,
    namespace_id: FromPath[str],
    resource_type: FromPath[str],
    resource_id: FromPath[str],
    data: JSONBody[wire.ScimResource],  # noqa: ARG001 - read from the body by scim2-models
) -> msgspec.Raw:
    """Replace a user or group by SCIM."""
    scope = request.scope_of(namespace_id)
    resource = _validate(_model_of(resource_type), await request.body(), scim.Context.RESOURCE_REPLACEMENT_REQUEST)
    stored = await directory.get_resource(request.services.db, scope, _kind_of(resource_type), resource_id)
    pushed = await _push(request, scope, resource_type, resource)
    replaced = await directory.replace_resource(request.services.db, scope, stored, pushed)
    return _encode(_show(request, resource_type, replaced))


@_operation(
    "PATCH",
    _PATH,
    answer=wire.ScimResource,
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
    scope, kind, db = request.scope_of(namespace_id), _kind_of(resource_type), request.services.db
    model = _model_of(resource_type)
    patch = _validate(_PATCHES[resource_type], await request.body(), scim.Context.RESOURCE_PATCH_REQUEST)
    async with db.async_together():
        stored = await directory.get_resource(db, scope, kind, resource_id, lock=True)
        resource = model.model_validate({**stored.resource, "id": stored.id}, scim_policy=_TOLERANT)
        with _scim_errors():
            patch.patch(resource, scim_policy=_TOLERANT)
        pushed = await _push(request, scope, resource_type, resource)
        replaced = await directory.replace_resource(db, scope, stored, pushed)
    return _encode(_show(request, resource_type, replaced))


@_operation("DELETE", _PATH, status=204)
async def delete_scim_resource(
    request: ApiRequest, namespace_id: FromPath[str], resource_type: FromPath[str], resource_id: FromPath[str]
) -> None:
    """Delete a user or group by SCIM. A deleted user is in no group."""
    scope, kind = request.scope_of(namespace_id), _kind_of(resource_type)
    await directory.delete_resource(request.services.db, scope, kind, resource_id)


HANDLERS = (
    list_scim_resources,
    create_scim_resource,
    get_scim_resource,
    replace_scim_resource,
    patch_scim_resource,
    delete_scim_resource,
)


def _model_of(resource_type: str) -> Any:
    _kind_of(resource_type)
    return _MODELS[resource_type]


def _kind_of(resource_type: str) -> str:
    if resource_type not in _KINDS:
        raise ServiceError(ErrorCode.NOT_FOUND, "The SCIM service has Users and Groups.", field="resource_type")
    return _KINDS[resource_type]


@contextmanager
def _scim_errors() -> Iterator[None]:
    """Turn errors of scim2-models into those of the API, with `scimType` as the reason."""
    try:
        yield
    except ValidationError as error:
        problem = scim.Error.from_validation_errors(error)[0]
        message, reason = problem.detail or "The resource is not valid.", problem.scim_type
        raise ServiceError(_INVALID, _without_value(message), reason=reason or "invalidValue") from error
    except scim.SCIMException as error:
        detail = error.to_error()
        raise ServiceError(_INVALID, _without_value(str(detail.detail)), reason=detail.scim_type) from error


def _without_value(message: str) -> str:
    """Return a message of the library without what it quotes, which may be personal."""
    return re.sub(r"'[^']*'|\"[^\"]*\"", "…", message)


def _validate(model: type[Any], body: bytes, context: scim.Context) -> Any:
    with _scim_errors():
        return model.model_validate(msgspec.json.decode(body), scim_ctx=context, scim_policy=_TOLERANT)


def _read_filter(resource_type: str, text: str | None) -> dict[str, str]:
    """Read `userName eq "ada"` and the like, joined by `and`, into columns with values."""
    if not text:
        return {}
    with _scim_errors():
        expression = _FILTERS[resource_type](text).ast
    is_disjunction = isinstance(expression, LogicalExpr) and expression.op is not LogicalOperator.and_
    terms = expression.terms if isinstance(expression, LogicalExpr) else (expression,)
    sought = {}
    for term in terms:
        comparison = term if isinstance(term, Comparison) and term.op is CompareOperator.eq else None
        column = None if comparison is None else _ATTRIBUTES.get(str(comparison.attr_path).lower())
        if comparison is None or column is None or is_disjunction:
            message = "filter compares userName, displayName, externalId or id by `eq`; join several by `and`."
            raise ServiceError(_INVALID, message, field="filter", reason="invalidFilter")
        sought[column] = str(comparison.value)
    return sought


async def _push(request: ApiRequest, scope: Scope, resource_type: str, resource: Any) -> PushedResource:
    """Return the resource as it is stored: with the name that access lists use, without a password and without members
    that do not exist."""
    is_group = resource_type == "Groups"
    if is_group:
        name = principals.group_name(resource.display_name or "", _INVALID, "displayName")
        await _keep_known_members(request, scope, resource)
    else:
        name = principals.user_name(resource.user_name or "", _INVALID, "userName")
        resource.password = None
    resource.meta = resource.id = None
    stored = resource.model_dump(scim_ctx=scim.Context.DEFAULT, scim_policy=_TOLERANT)
    active = is_group or resource.active is not False
    return PushedResource(_KINDS[resource_type], name, resource.external_id, active, stored)


async def _keep_known_members(request: ApiRequest, scope: Scope, group: Any) -> None:
    members = {str(member.value): member for member in group.members or ()}
    if len(members) > MEMBERS:
        message = f"A group may have at most {MEMBERS:,} members."
        raise ServiceError(_INVALID, message, field="members", reason="tooMany")
    existing = await directory.find_member_ids(request.services.db, scope, list(members))
    group.members = [scim.GroupMember(value=value) for value in members if value in existing]


def _show(
    request: ApiRequest, resource_type: str, stored: DirectoryResource, params: wire.ScimAttributes | None = None
) -> dict[str, Any]:
    """Return a resource as a response shows it."""
    resource = _MODELS[resource_type].model_validate(stored.resource, scim_policy=_TOLERANT)
    address, _, _ = str(request.url).partition(f"/{resource_type}")
    resource.id = stored.id
    resource.meta = scim.Meta(
        resource_type=stored.kind,
        created=stored.created_at,
        last_modified=stored.updated_at,
        location=f"{address}/{resource_type}/{stored.id}",
    )
    with _scim_errors():
        parameters: Any = params and scim.ResponseParameters(
            attributes=params.attributes, excluded_attributes=params.excluded_attributes
        )
        representation: dict[str, Any] = resource.model_dump(
            scim_ctx=scim.Context.RESOURCE_QUERY_RESPONSE, response_parameters=parameters, scim_policy=_TOLERANT
        )
    return representation


def _encode(answer: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(answer))


def _describe_service() -> dict[str, Any]:
    service = scim.ServiceProviderConfig(
        patch=scim.Patch(supported=True),
        bulk=scim.Bulk(supported=False, max_operations=0, max_payload_size=0),
        filter=scim.Filter(supported=True, max_results=PAGE),
        change_password=scim.ChangePassword(supported=False),
        sort=scim.Sort(supported=False),
        etag=scim.ETag(supported=False),
        authentication_schemes=[
            scim.AuthenticationScheme(
                type=scim.AuthenticationScheme.Type.oauthbearertoken,
                name="API key",
                description="An API key of the service as a bearer token.",
            )
        ],
    )
    described: dict[str, Any] = service.model_dump(scim_ctx=scim.Context.RESOURCE_QUERY_RESPONSE)
    return described


def _describe_types() -> dict[str, Any]:
    return _list_of([scim.ResourceType.from_resource(model) for model in _MODELS.values()])


def _describe_schemas() -> dict[str, Any]:
    return _list_of([model.to_schema() for model in (scim.User, scim.EnterpriseUser, scim.Group)])


def _list_of(resources: list[Any]) -> dict[str, Any]:
    representations = [resource.model_dump(scim_ctx=scim.Context.RESOURCE_QUERY_RESPONSE) for resource in resources]
    return _page_of(representations, len(representations))


def _page_of(representations: list[dict[str, Any]], total: int) -> dict[str, Any]:
    return {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
        "totalResults": total,
        "startIndex": 1,
        "itemsPerPage": len(representations),
        "Resources": representations,
    }


_DESCRIPTIONS = {
    "ServiceProviderConfig": _describe_service,
    "ResourceTypes": _describe_types,
    "Schemas": _describe_schemas,
}
