"""SCIM users and groups, by scim2-models."""
# The library takes 8 MB, so route functions import this module on use.

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import scim2_models as scim
from pydantic import ValidationError
from scim2_models.path import CompareOperator, Comparison, LogicalExpr, LogicalOperator

from api.request import ApiRequest
from api.wire import scim as wire
from retrieval import principals
from retrieval.access.groups import MAX_GROUP_MEMBERS
from retrieval.access.queries import directory
from retrieval.access.queries.directory import GROUP_KIND, USER_KIND, DirectoryResource, PushedResource
from retrieval.errors import ErrorCode, ServiceError
from retrieval.ports import Scope

INVALID_REQUEST = ErrorCode.INVALID_REQUEST
MAX_PAGE_SIZE = 100
# Entra and Okta send more than the standard allows.
TOLERANT_POLICY = scim.ScimPolicy(
    unknown=scim.ScimPolicy.Unknown.keep,
    remove_value_as_filter=scim.ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=scim.ScimPolicy.UnmatchedPathFilter.create,
)
_UserModel = scim.User[scim.EnterpriseUser]
RESOURCE_MODELS: Mapping[str, Any] = {"Users": _UserModel, "Groups": scim.Group}
PATCH_MODELS: Mapping[str, Any] = {"Users": scim.PatchOp[_UserModel], "Groups": scim.PatchOp[scim.Group]}
_FILTER_MODELS: Mapping[str, Any] = {"Users": scim.ScimFilter[_UserModel], "Groups": scim.ScimFilter[scim.Group]}
# Filterable attributes in lower case, with their columns.
_FILTER_COLUMNS = {"id": "id", "username": "name", "displayname": "name", "externalid": "external_id"}


def read_created(resource_type: str, body: bytes) -> Any:
    return _validate_resource(RESOURCE_MODELS[resource_type], body, scim.Context.RESOURCE_CREATION_REQUEST)


def read_replacement(resource_type: str, body: bytes) -> Any:
    return _validate_resource(RESOURCE_MODELS[resource_type], body, scim.Context.RESOURCE_REPLACEMENT_REQUEST)


def read_patch(resource_type: str, body: bytes) -> Any:
    return _validate_resource(PATCH_MODELS[resource_type], body, scim.Context.RESOURCE_PATCH_REQUEST)


@contextmanager
def scim_errors() -> Iterator[None]:
    """Convert errors of scim2-models to API errors, with `scimType` as the reason."""
    try:
        yield
    except ValidationError as error:
        problem = scim.Error.from_validation_errors(error)[0]
        message, reason = problem.detail or "The resource is not valid.", problem.scim_type
        raise ServiceError(INVALID_REQUEST, _redact_quotes(message), reason=reason or "invalidValue") from error
    except scim.SCIMException as error:
        detail = error.to_error()
        raise ServiceError(INVALID_REQUEST, _redact_quotes(str(detail.detail)), reason=detail.scim_type) from error


def _redact_quotes(message: str) -> str:
    """Remove quoted values, which may be personal."""
    return re.sub(r"'[^']*'|\"[^\"]*\"", "…", message)


def _validate_resource(model: type[Any], body: bytes, context: scim.Context) -> Any:
    with scim_errors():
        return model.model_validate(msgspec.json.decode(body), scim_ctx=context, scim_policy=TOLERANT_POLICY)


def apply_patch(resource_type: str, stored: DirectoryResource, patch: Any) -> Any:
    """Return the stored resource with the patch applied."""
    resource = RESOURCE_MODELS[resource_type].model_validate(
        {**stored.resource, "id": stored.id}, scim_policy=TOLERANT_POLICY
    )
    with scim_errors():
        patch.patch(resource, scim_policy=TOLERANT_POLICY)
    return resource


def read_filter(resource_type: str, text: str | None) -> dict[str, str]:
    """Parse equality comparisons joined by `and` into values by column."""
    if not text:
        return {}
    with scim_errors():
        expression = _FILTER_MODELS[resource_type](text).ast
    is_disjunction = isinstance(expression, LogicalExpr) and expression.op is not LogicalOperator.and_
    terms = expression.terms if isinstance(expression, LogicalExpr) else (expression,)
    values = {}
    for term in terms:
        comparison = term if isinstance(term, Comparison) and term.op is CompareOperator.eq else None
        column = None if comparison is None else _FILTER_COLUMNS.get(str(comparison.attr_path).lower())
        message = "filter compares userName, displayName, externalId or id with a text by `eq`; join several by `and`."
        if comparison is None or column is None or is_disjunction:
            raise ServiceError(INVALID_REQUEST, message, field="filter", reason="invalidFilter")
        if not is_storable(comparison.value):
            raise ServiceError(INVALID_REQUEST, message, field="filter", reason="invalidFilter")
        values[column] = comparison.value
    return values


async def build_pushed(request: ApiRequest, scope: Scope, resource_type: str, resource: Any) -> PushedResource:
    """Return the resource to store, with the access-list name, existing members and no password."""
    is_group = resource_type == "Groups"
    if is_group:
        name = principals.require_group_name(resource.display_name or "", INVALID_REQUEST, "displayName")
        await _keep_known_members(request, scope, resource)
    else:
        name = principals.normalize_user_name(resource.user_name or "", INVALID_REQUEST, "userName")
        resource.password = None
    resource.meta = resource.id = None
    stored = resource.model_dump(scim_ctx=scim.Context.DEFAULT, scim_policy=TOLERANT_POLICY)
    active = is_group or resource.active is not False
    return PushedResource(GROUP_KIND if is_group else USER_KIND, name, resource.external_id, active, stored)


async def _keep_known_members(request: ApiRequest, scope: Scope, group: Any) -> None:
    members = {str(member.value): member for member in group.members or ()}
    if len(members) > MAX_GROUP_MEMBERS:
        message = f"A group may have at most {MAX_GROUP_MEMBERS:,} members."
        raise ServiceError(INVALID_REQUEST, message, field="members", reason="tooMany")
    existing = await directory.find_member_ids(request.services.db, scope, list(members))
    group.members = [scim.GroupMember(value=value) for value in members if value in existing]


def show_resource(
    request: ApiRequest, resource_type: str, stored: DirectoryResource, params: wire.ScimAttributes | None = None
) -> dict[str, Any]:
    """Return the resource for a response."""
    attributes = dict(stored.resource)
    if params is not None and "members" in (params.excluded_attributes or "").split(","):
        attributes.pop("members", None)
    resource = RESOURCE_MODELS[resource_type].model_validate(attributes, scim_policy=TOLERANT_POLICY)
    settings = request.services.settings
    url = f"{settings.base_url}{request.url.path}" if settings.public_url else str(request.url)
    address, _, _ = url.partition(f"/{resource_type}")
    resource.id = stored.id
    resource.meta = scim.Meta(
        resource_type=stored.kind,
        created=stored.created_at,
        last_modified=stored.updated_at,
        location=f"{address}/{resource_type}/{stored.id}",
    )
    with scim_errors():
        parameters: Any = params and scim.ResponseParameters(
            attributes=params.attributes, excluded_attributes=params.excluded_attributes
        )
        representation: dict[str, Any] = resource.model_dump(
            scim_ctx=scim.Context.RESOURCE_QUERY_RESPONSE, response_parameters=parameters, scim_policy=TOLERANT_POLICY
        )
    return representation


def is_storable(value: Any) -> bool:
    """Check for text without characters refused by PostgreSQL."""
    return isinstance(value, str) and "\0" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)


def encode_resource(
    request: ApiRequest, resource_type: str, stored: DirectoryResource, params: wire.ScimAttributes | None = None
) -> msgspec.Raw:
    """Encode a resource; a group of 10,000 members takes half a second."""
    return encode_answer(show_resource(request, resource_type, stored, params))


def encode_page(
    request: ApiRequest,
    resource_type: str,
    resources: Sequence[DirectoryResource],
    total: int,
    start_index: int,
    params: wire.ScimAttributes,
) -> msgspec.Raw:
    page = [show_resource(request, resource_type, resource, params) for resource in resources]
    return encode_answer({**build_page(page, total), "startIndex": start_index})


def encode_answer(answer: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(answer))


def _describe_service() -> dict[str, Any]:
    service = scim.ServiceProviderConfig(
        patch=scim.Patch(supported=True),
        bulk=scim.Bulk(supported=False, max_operations=0, max_payload_size=0),
        filter=scim.Filter(supported=True, max_results=MAX_PAGE_SIZE),
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
    return _build_list([scim.ResourceType.from_resource(model) for model in RESOURCE_MODELS.values()])


def _describe_schemas() -> dict[str, Any]:
    return _build_list([model.to_schema() for model in (scim.User, scim.EnterpriseUser, scim.Group)])


def _build_list(resources: list[Any]) -> dict[str, Any]:
    representations = [resource.model_dump(scim_ctx=scim.Context.RESOURCE_QUERY_RESPONSE) for resource in resources]
    return build_page(representations, len(representations))


def build_page(representations: list[dict[str, Any]], total: int) -> dict[str, Any]:
    return {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
        "totalResults": total,
        "startIndex": 1,
        "itemsPerPage": len(representations),
        "Resources": representations,
    }


SERVICE_DESCRIPTIONS = {
    "ServiceProviderConfig": _describe_service,
    "ResourceTypes": _describe_types,
    "Schemas": _describe_schemas,
}
