"""OpenAPI document from the routes and the wire structs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig, spec
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, Parameter, Reference, Schema
from litestar.openapi.spec.enums import OpenAPIType
from litestar.status_codes import HTTP_204_NO_CONTENT
from msgspec.structs import fields

from api import on_behalf
from api.errors import TENANT_CODES, group_by_status, render_error
from api.request import IDEMPOTENCY_KEY, ApiRequest, Operation, TenantUse
from api.wire.common import ErrorAnswer, TenantErrorAnswer
from retrieval.accounts.api_keys import KEY_SCOPES
from retrieval.accounts.idempotency import IDEMPOTENCY_HEADER
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces.validation import DEFAULT_MODELS
from retrieval.sources import APP_SERVICES, source_slug
from retrieval.webhooks.events import EVENT_NAMES, EVERY_EVENT

_SCHEMA_REFERENCE = "#/components/schemas/{name}"
_COMMON_CODES = (
    ErrorCode.UNAUTHORIZED,
    ErrorCode.FORBIDDEN,
    ErrorCode.RATE_LIMIT_EXCEEDED,
    ErrorCode.SERVICE_UNAVAILABLE,
)
_BODY_CODES = (ErrorCode.REQUEST_TIMEOUT, ErrorCode.PAYLOAD_TOO_LARGE, ErrorCode.UNSUPPORTED_MEDIA_TYPE)
_STATUS_DESCRIPTIONS = {
    400: "The request is not valid",
    401: "The API key is missing, wrong or revoked",
    403: "The API key may not do this, or a limit of the organization is reached",
    404: "There is no such object for this caller",
    408: "The body took too long to arrive",
    409: "The Idempotency-Key belongs to another request",
    413: "The body is too large",
    415: "The body has another content type than the operation takes",
    429: "The rate limit is reached",
    500: "Something failed inside the service",
    503: "The database is away",
}
_API_DESCRIPTION = """\
Content goes into isolated namespaces, is cut, embedded and kept; semantic and hybrid search find it.

Every request carries `Authorization: Bearer <API_KEY>`. An `X-Tenant-ID` header scopes documents, search and job runs
to one tenant of the organization; without it they are those that belong to no tenant. An `X-On-Behalf-Of` header names
a user: only what that user may see exists then.
"""
_SCHEME_DESCRIPTION = "An API key, or a token of the identity provider where the installation names one."
TEXT_SCHEMA = Schema(type=OpenAPIType.STRING)
BYTES_MEDIA_TYPE = "application/octet-stream"
_INTEGER_SCHEMA = Schema(type=OpenAPIType.INTEGER, minimum=0)
_RESPONSE_HEADERS: dict[str, spec.OpenAPIHeader | Reference] = {
    name: spec.OpenAPIHeader(description=description, schema=schema)
    for name, description, schema in (
        ("X-Request-Id", "Names this request in the log.", TEXT_SCHEMA),
        ("X-RateLimit-Limit", "Requests a minute.", _INTEGER_SCHEMA),
        ("X-RateLimit-Remaining", "Requests left in this minute.", _INTEGER_SCHEMA),
        ("X-RateLimit-Reset", "Unix seconds at which the next minute begins.", _INTEGER_SCHEMA),
        ("Retry-After", "Seconds to wait.", _INTEGER_SCHEMA),
    )
}
# A content service with several spellings.
CONNECTOR_EXAMPLE = next(name for name in APP_SERVICES if source_slug(name) != name.lower())
_PATH_PARAMETERS: Mapping[str, str] = {
    "namespace_id": "The namespace's id.",
    "ingest_job_run_id": "The job run's id.",
    "document_id": "The document's id.",
    "connection_id": "The connection's id.",
    "push_id": "The unguessable part of a push address.",
    "schedule_id": "The schedule's id.",
    "deletion_id": "The id of the deletion.",
    "group_id": "The group's name.",
    "evaluation_id": "The evaluation's id.",
    "run_id": "The run's id.",
    "key_id": "The API key's id.",
    "tenant_id": "The tenant's name.",
    "webhook_id": "The webhook's id.",
    "delivery_id": "The delivery's id.",
    "connector": f"The content service, such as `{source_slug(CONNECTOR_EXAMPLE)}` or `{CONNECTOR_EXAMPLE}`.",
    "file_id": "The id of an upload, or of a document.",
    "model": "The name of the model.",
    "kind": "The file as it came, or the parsed text.",
    "resource_type": "`Users` or `Groups`; of a GET also `ServiceProviderConfig`, `ResourceTypes` or `Schemas`.",
    "resource_id": "The id of the user or group.",
    "passage_id": "The id of the hidden passage.",
    "page": "The page of the document, counted from 1.",
}


@dataclass
class RawSchema(Schema):
    """Schema or example of plain members, null included."""

    members: Mapping[str, Any] = field(default_factory=dict)

    def to_schema(self) -> dict[str, Any]:
        return dict(self.members)


BINARY_SCHEMA = RawSchema(members={"type": "string", "format": "binary"})


def operation_class(about: Operation) -> type[spec.Operation]:
    """Return the class of an operation's description, with parameters, body and responses as declared."""

    @dataclass
    class Documented(spec.Operation):
        def __post_init__(self) -> None:
            self.parameters = [*_describe_path_parameters(self.parameters), *_list_parameters(about)]
            self.request_body = _request_body(about)
            self.responses = {
                str(about.status): _success_response(about, self.summary or ""),
                **error_responses(_list_error_codes(about)),
            }

    return Documented


def public_operation_class(responses: Mapping[str, OpenAPIResponse], *parameters: Parameter) -> type[spec.Operation]:
    """Return the class of a description for an operation without an API key."""

    @dataclass
    class Documented(spec.Operation):
        def __post_init__(self) -> None:
            self.security = []
            names = {parameter.name for parameter in parameters}
            of_path = [
                parameter for parameter in _describe_path_parameters(self.parameters) if parameter.name not in names
            ]
            self.parameters = [*of_path, *parameters] or None
            self.responses = dict(responses)

    return Documented


def text_parameter(name: str, description: str, *, required: bool = False) -> Parameter:
    return Parameter(name, "query", TEXT_SCHEMA, description=description, required=required)


def openapi_config(**options: Any) -> OpenAPIConfig:
    """Return Litestar's configuration of the OpenAPI document."""
    scheme = spec.SecurityScheme(type="http", scheme="bearer", description=_SCHEME_DESCRIPTION)
    return OpenAPIConfig(
        title="Retrieval Service",
        version="1.0.0",
        description=_API_DESCRIPTION,
        use_handler_docstrings=True,
        security=[{"apiKey": []}],
        components=spec.Components(security_schemes={"apiKey": scheme}, headers=_RESPONSE_HEADERS),
        **options,
    )


def describe_api(app: Litestar, models: Mapping[str, Sequence[str]] = DEFAULT_MODELS) -> dict[str, Any]:
    """Return the OpenAPI document; `models` are the embedding models by provider."""
    handlers = [handler for route in app.routes for handler in getattr(route, "route_handlers", ())]
    description = app.openapi_schema.to_schema()
    description["components"]["schemas"] = _build_components(handlers, models)
    return description


def describe_handlers(
    handlers: Iterable[HTTPRouteHandler], models: Mapping[str, Sequence[str]] = DEFAULT_MODELS
) -> dict[str, Any]:
    """Return the OpenAPI document of handlers, without a running service."""
    return describe_api(Litestar(list(handlers), openapi_config=openapi_config(), request_class=ApiRequest), models)


def describe_response(
    description: str, media_types: Iterable[str] = (), schema: Schema | Reference = TEXT_SCHEMA, **headers: Any
) -> OpenAPIResponse:
    """Return a response with the common headers."""
    names = {name: Reference(f"#/components/headers/{name}") for name in _RESPONSE_HEADERS if name != "Retry-After"}
    content = {kind: OpenAPIMediaType(schema=schema) for kind in media_types}
    return OpenAPIResponse(description, headers=cast("Any", names | headers), content=content or None)


def json_response(kind: type[Any], media_type: str = "application/json") -> OpenAPIResponse:
    return describe_response(" ".join((kind.__doc__ or "").split()), [media_type], schema_reference(kind))


def error_responses(codes: Iterable[ErrorCode], *, pages: bool = False) -> dict[str, OpenAPIResponse]:
    """Return error responses by status with examples; `pages` adds HTML for browsers."""
    responses = {}
    for status, status_codes in group_by_status(*codes).items():
        distinct = list(dict.fromkeys(status_codes))
        shapes = [
            schema_reference(TenantErrorAnswer if tenant else ErrorAnswer)
            for tenant in (False, True)
            if any((code in TENANT_CODES) is tenant for code in distinct)
        ]
        schema = shapes[0] if len(shapes) == 1 else Schema(any_of=shapes)
        examples = {
            str(code): spec.Example(value=_error_example(code, _STATUS_DESCRIPTIONS[status])) for code in distinct
        }
        content = {"application/json": OpenAPIMediaType(schema=schema, examples=cast("Any", examples))}
        answer = describe_response(
            f"{_STATUS_DESCRIPTIONS[status]}: {', '.join(distinct)}.",
            **(_RETRY_HEADERS if status in {429, 503} else {}),
        )
        answer.content = content | ({"text/html": OpenAPIMediaType(schema=TEXT_SCHEMA)} if pages else {})
        responses[str(status)] = answer
    return responses


def schema_reference(kind: type[Any]) -> Reference:
    return Reference(_SCHEMA_REFERENCE.format(name=kind.__name__))


_RETRY_HEADERS: dict[str, Any] = {"Retry-After": Reference("#/components/headers/Retry-After")}


def _describe_path_parameters(parameters: Iterable[Parameter | Reference] | None) -> list[Parameter]:
    """Return Litestar's path parameters with descriptions, outer ones first."""
    by_name = {parameter.name: parameter for parameter in parameters or () if isinstance(parameter, Parameter)}
    for name, parameter in by_name.items():
        parameter.description = _PATH_PARAMETERS[name]
    return [by_name[name] for name in _PATH_PARAMETERS if name in by_name]


def _list_parameters(about: Operation) -> list[Parameter]:
    parameters = []
    if about.query is not None:
        properties = _struct_schema(about.query)["properties"]
        for member in fields(about.query):
            schema = properties[member.encode_name]
            words = next(part["description"] for part in (schema, *schema.get("anyOf", ())) if "description" in part)
            written = RawSchema(members=schema)
            parameters.append(
                Parameter(member.encode_name, "query", written, description=words, required=member.required)
            )
    if about.tenant is not TenantUse.IGNORED:
        tenant = Schema(type=OpenAPIType.STRING, pattern="^[A-Za-z0-9_-]{1,64}$")
        parameters.append(Parameter("X-Tenant-ID", "header", tenant, description="The tenant to act for."))
    if about.permission.allows_on_behalf:
        user = Schema(type=OpenAPIType.STRING, min_length=1)
        words = "The user to act for: only what that user may see exists. Percent-encoded UTF-8."
        parameters.append(Parameter(on_behalf.ON_BEHALF_HEADER, "header", user, description=words))
    if about.creates:
        key = Schema(type=OpenAPIType.STRING, pattern=IDEMPOTENCY_KEY, max_length=255)
        words = "For 24 hours the same key and request act once and get the same answer."
        parameters.append(Parameter(IDEMPOTENCY_HEADER, "header", key, description=words))
    return parameters


def _request_body(about: Operation) -> spec.RequestBody | None:
    if about.form is not None:
        schema = RawSchema(members=_form_schema(about.form))
        return spec.RequestBody({"multipart/form-data": OpenAPIMediaType(schema=schema)}, required=True)
    if about.body is None:
        return None
    example = None if about.example is None else RawSchema(members=about.example)
    media = OpenAPIMediaType(schema=schema_reference(about.body), example=example)
    return spec.RequestBody({"application/json": media}, required=True)


def _success_response(about: Operation, summary: str) -> OpenAPIResponse:
    if about.status == HTTP_204_NO_CONTENT:
        return describe_response(summary)
    if about.answer is not None:
        return json_response(about.answer, about.media_type)
    if about.media_type.startswith("text/"):
        return describe_response(summary, [about.media_type.partition(";")[0]])
    kinds = dict.fromkeys((about.media_type, BYTES_MEDIA_TYPE))  # generators of clients know the second
    return describe_response(summary, kinds, BINARY_SCHEMA)


def _list_error_codes(about: Operation) -> list[ErrorCode]:
    codes = [*_COMMON_CODES, *about.raises, about.invalid, about.failed]
    if about.tenant is not TenantUse.IGNORED:
        codes += sorted(TENANT_CODES)
    if about.body is not None or about.form is not None:
        codes += _BODY_CODES
    if about.creates:
        codes.append(ErrorCode.IDEMPOTENCY_CONFLICT)
    if not (about.body or about.form or about.query or about.permission.allows_on_behalf):
        codes.remove(about.invalid)
    return codes


def _error_example(code: ErrorCode, message: str) -> Any:
    return msgspec.json.decode(render_error(ServiceError(code, f"{message}.")).body)


def _struct_schema(kind: type[Any]) -> dict[str, Any]:
    _, schemas = msgspec.json.schema_components([kind], ref_template=_SCHEMA_REFERENCE)
    return cast("dict[str, Any]", schemas[kind.__name__])


def _form_schema(kind: type[Any]) -> dict[str, Any]:
    """Return the fields of a form: objects as JSON text, and the file."""
    properties: dict[str, Any] = {}
    for name, schema in _struct_schema(kind)["properties"].items():
        options = schema.get("anyOf", ())
        content = next((option for option in options if option.get("type") != "null"), schema)
        is_object = schema.get("type") == "object" or any(
            "$ref" in option or option.get("type") == "object" for option in options
        )
        json_text = {"type": "string", "contentMediaType": "application/json", "contentSchema": content}
        properties[name] = json_text if is_object else content
    properties["file"] = {"type": "string", "format": "binary", "description": "The file, with its name."}
    required = [field.encode_name for field in fields(kind) if field.required] + ["file"]
    return {"type": "object", "properties": properties, "required": required}


def _build_components(handlers: Iterable[HTTPRouteHandler], models: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the schemas of all request and response structs, adjusted for client generators."""
    kinds: list[type[Any]] = [ErrorAnswer, TenantErrorAnswer]
    for handler in handlers:
        kinds += handler.opt.get("structs", ())
    _, schemas = msgspec.json.schema_components(list(dict.fromkeys(kinds)), ref_template=_SCHEMA_REFERENCE)
    for schema in schemas.values():
        if "enum" in schema:
            schema["type"] = "string"
        for name, content in schema.get("properties", {}).items():
            if content.get("enum") in ([True], [False]):
                _require_constant(schema, name, content)
    for name, provider in _PROVIDER_BY_MODEL.items():
        schemas[name]["properties"]["model"] |= {"enum": list(models[provider])}
    description = "What a key may be allowed to do."
    schemas["KeyScope"] = {"type": "string", "enum": list(KEY_SCOPES), "description": description}
    schemas["Key"]["properties"]["scopes"]["items"] = {"$ref": _SCHEMA_REFERENCE.format(name="KeyScope")}
    for option in schemas["CreateKey"]["properties"]["scopes"]["anyOf"]:
        if option["type"] == "array":
            option["items"] = {"$ref": _SCHEMA_REFERENCE.format(name="KeyScope")}
    for name in ("CreateWebhook", "UpdateWebhook", "Webhook"):
        schemas[name]["properties"]["events"]["items"] = {"type": "string", "enum": [*EVENT_NAMES, EVERY_EVENT]}
    _split_change(schemas)
    return dict(sorted(schemas.items()))


_PROVIDER_BY_MODEL = {"OpenAIModel": "OPENAI", "CohereModel": "COHERE", "JinaModel": "JINA", "LocalModel": "LOCAL"}


def _require_constant(schema: dict[str, Any], name: str, content: dict[str, Any]) -> None:
    """Describe a constant member as required, with the type."""
    content |= {"type": "boolean", "const": content.pop("enum")[0]}
    content.pop("default", None)
    if name not in schema.setdefault("required", []):
        schema["required"].insert(0, name)


def _split_change(schemas: dict[str, Any]) -> None:
    """Describe `metadata` and `$metadata` in separate schemas."""
    # Most languages map both to one name.
    whole = schemas.pop("DocumentChange")["properties"]
    parts = {
        "MetadataMerge": ("metadata", "Merges by key: keys that are not named stay."),
        "MetadataChange": ("$metadata", "Changes by operators; `metadata` may be sent too."),
    }
    for title, (name, description) in parts.items():
        schemas[title] = {
            "title": title,
            "description": description,
            "type": "object",
            "properties": {name: whole[name]},
            "required": [name],
        }
    schemas["UpdateDocuments"]["properties"]["data"] = {
        "description": "What to change.",
        "anyOf": [{"$ref": _SCHEMA_REFERENCE.format(name=title)} for title in parts],
    }
