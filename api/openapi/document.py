"""The OpenAPI document, made from what each operation says about itself and from the wire structs.

Written here, not by the framework: bodies are decoded strictly by us, and clients are generated from this document, so
it must have concrete component names, every bound, and every code of every status.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from litestar.handlers import HTTPRouteHandler
from msgspec.structs import fields

from api import on_behalf
from api.errors import TENANT_CODES, raises, render
from api.openapi import file_operation, generators
from api.operation import IDEMPOTENCY_KEY, Operation, TenantUse
from api.wire import parameters
from api.wire.common import ErrorAnswer, TenantErrorAnswer
from retrieval.accounts.idempotency import HEADER
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces.validation import MODELS

_REF = "#/components/schemas/{name}"
_EVERY = (
    ErrorCode.UNAUTHORIZED,
    ErrorCode.FORBIDDEN,
    ErrorCode.RATE_LIMIT_EXCEEDED,
    ErrorCode.SERVICE_UNAVAILABLE,
)
_WITH_BODY = (ErrorCode.REQUEST_TIMEOUT, ErrorCode.PAYLOAD_TOO_LARGE, ErrorCode.UNSUPPORTED_MEDIA_TYPE)
_PURPOSE = {
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
_DESCRIPTION = """\
Content goes into isolated namespaces, is cut, embedded and kept; semantic and hybrid search find it.

Every request carries `Authorization: Bearer <API_KEY>`. An `X-Tenant-ID` header scopes documents, search and job runs
to one tenant of the organization; without it they are those that belong to no tenant. An `X-On-Behalf-Of` header names
a user: only what that user may see exists then.
"""


_SCHEME = "An API key, or a token of the identity provider where the installation names one."


def document(handlers: Sequence[HTTPRouteHandler], models: Mapping[str, Sequence[str]] = MODELS) -> dict[str, Any]:
    """The whole document; `models`: the embedding models of each provider that this service takes."""
    said = [(handler, handler.opt["operation"]) for handler in handlers if "operation" in handler.opt]
    public = [(handler, *handler.opt["public"]) for handler in handlers if "public" in handler.opt]
    schemas = _schemas([about for _, about in said], [kind for _, kind, _ in public])
    paths: dict[str, dict[str, Any]] = {}
    for handler, about in said:
        path = re.sub(r"\{(\w+):\w+\}", r"{\1}", about.path)
        paths.setdefault(path, {})[about.method.lower()] = _operation(handler, about, schemas)
    for handler, kind, summary in public:
        paths[min(handler.paths)] = {"get": _public(handler, kind, summary)}
    for handler in handlers:
        if "file" in handler.opt:
            path = re.sub(r"\{(\w+):\w+\}", r"{\1}", min(handler.paths))
            errors = {str(status): _error(status, known) for status, known in raises(*file_operation.CODES).items()}
            paths[path] = {"get": file_operation.describe(handler, handler.opt["file"], _header_refs(), errors)}
        if "page" in handler.opt:
            path = re.sub(r"\{(\w+):\w+\}", r"{\1}", min(handler.paths))
            paths[path] = {"get": _page(handler, *handler.opt["page"])}
    generators.reshape(schemas, models)
    parameters.describe(paths)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Retrieval Service", "version": "1.0.0", "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "security": [{"apiKey": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"apiKey": {"type": "http", "scheme": "bearer", "description": _SCHEME}},
            "headers": _HEADERS,
        },
    }


def _schemas(said: Sequence[Operation], more: Sequence[type[Any]]) -> dict[str, Any]:
    kinds: list[type[Any]] = [ErrorAnswer, TenantErrorAnswer, *more]
    for about in said:
        kinds += [kind for kind in (about.answer, about.body, about.query, about.form) if kind is not None]
    _, schemas = msgspec.json.schema_components(list(dict.fromkeys(kinds)), ref_template=_REF)
    for schema in schemas.values():
        if "enum" in schema:
            schema["type"] = "string"
    return schemas


def _operation(handler: HTTPRouteHandler, about: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "operationId": handler.operation_id,
        "tags": handler.tags,
        "summary": handler.summary,
        "description": handler.description,
        "parameters": _parameters(about, schemas),
        "responses": {"200": _success(handler, about), **_errors(about)},
    }
    if about.body is not None:
        content: dict[str, Any] = {"schema": _ref(about.body)}
        if about.example is not None:
            content["example"] = about.example
        entry["requestBody"] = {"required": True, "content": {"application/json": content}}
    if about.form is not None:
        entry["requestBody"] = {"required": True, "content": {"multipart/form-data": _form(about.form, schemas)}}
    return entry


def _parameters(about: Operation, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    found = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+):\w+\}", about.path)
    ]
    if about.query is not None:
        properties = schemas[about.query.__name__]["properties"]
        found += [
            {
                "name": field.encode_name,
                "in": "query",
                "required": field.required,
                "schema": properties[field.encode_name],
            }
            for field in fields(about.query)
        ]
    if about.tenant is not TenantUse.IGNORED:
        found.append(
            {
                "name": "X-Tenant-ID",
                "in": "header",
                "required": False,
                "description": "The tenant to act for.",
                "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
            }
        )
    if about.permission.on_behalf:
        found.append(
            {
                "name": on_behalf.HEADER,
                "in": "header",
                "required": False,
                "description": "The user to act for: only what that user may see exists. Percent-encoded UTF-8.",
                "schema": {"type": "string", "minLength": 1},
            }
        )
    if about.creates:
        found.append(
            {
                "name": HEADER,
                "in": "header",
                "required": False,
                "description": "For 24 hours the same key and request act once and get the same answer.",
                "schema": {"type": "string", "pattern": IDEMPOTENCY_KEY, "maxLength": 255},
            }
        )
    return found


def _success(handler: HTTPRouteHandler, about: Operation) -> dict[str, Any]:
    if about.media_type.startswith("text/"):
        content = {about.media_type.partition(";")[0]: {"schema": {"type": "string"}}}
        return {"description": handler.summary, "headers": _header_refs(), "content": content}
    if about.answer is None:
        kinds = dict.fromkeys((about.media_type, "application/octet-stream"))  # generators of clients know the second
        content = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in kinds}
        return {"description": handler.summary, "headers": _header_refs(), "content": content}
    return {
        "description": " ".join((about.answer.__doc__ or "").split()),
        "headers": _header_refs(),
        "content": {"application/json": {"schema": _ref(about.answer)}},
    }


def _errors(about: Operation) -> dict[str, Any]:
    codes = [*_EVERY, *about.raises, about.invalid, about.failed]
    if about.tenant is not TenantUse.IGNORED:
        codes += sorted(TENANT_CODES)
    if about.body is not None or about.form is not None:
        codes += _WITH_BODY
    if about.creates:
        codes.append(ErrorCode.IDEMPOTENCY_CONFLICT)
    if not (about.body or about.form or about.query or about.permission.on_behalf):
        codes.remove(about.invalid)
    return {str(status): _error(status, list(dict.fromkeys(listed))) for status, listed in raises(*codes).items()}


def _error(status: int, codes: list[ErrorCode]) -> dict[str, Any]:
    shapes = [_ref(TenantErrorAnswer if tenant else ErrorAnswer) for tenant in (False, True) if _any(codes, tenant)]
    headers = _header_refs()
    if status in {429, 503}:
        headers["Retry-After"] = {"$ref": "#/components/headers/Retry-After"}
    return {
        "description": f"{_PURPOSE[status]}: {', '.join(codes)}.",
        "headers": headers,
        "content": {
            "application/json": {
                "schema": shapes[0] if len(shapes) == 1 else {"anyOf": shapes},
                "examples": {code: {"value": _example(code, _PURPOSE[status])} for code in codes},
            }
        },
    }


def _any(codes: list[ErrorCode], tenant: bool) -> bool:  # noqa: FBT001
    return any((code in TENANT_CODES) is tenant for code in codes)


def _example(code: ErrorCode, message: str) -> Any:
    return msgspec.json.decode(render(ServiceError(code, f"{message}.")).body)


def _form(kind: type[Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """The fields as a form sends them: objects as JSON text, and the file."""
    properties: dict[str, Any] = {}
    for field in fields(kind):
        schema = schemas[kind.__name__]["properties"][field.encode_name]
        text = json_text(schema)
        properties[field.encode_name] = text or next(
            (one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"), schema
        )
    properties["file"] = {"type": "string", "format": "binary", "description": "The file, with its name."}
    required = [field.encode_name for field in fields(kind) if field.required] + ["file"]
    return {"schema": {"type": "object", "properties": properties, "required": required}}


def json_text(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of an object that a form carries as JSON text; None for what is plain text."""
    if schema.get("type") == "object" or any(
        one.get("type") == "object" or "$ref" in one for one in schema.get("anyOf", [])
    ):
        content = next(one for one in schema.get("anyOf", [schema]) if one.get("type") != "null")
        return {"type": "string", "contentMediaType": "application/json", "contentSchema": content}
    return None


def _public(handler: HTTPRouteHandler, kind: type[Any], summary: str) -> dict[str, Any]:
    content = {"application/json": {"schema": _ref(kind)}}
    responses: dict[str, Any] = {"200": {"description": summary, "content": content}}
    if min(handler.paths) == "/ready":
        responses["503"] = {"description": "Requests cannot be served now; `reason` says why", "content": content}
    return {
        "operationId": handler.fn.__name__,
        "tags": ["Operation"],
        "summary": summary,
        "description": " ".join((handler.fn.__doc__ or summary).split()),
        "security": [],
        "responses": responses,
    }


def _page(handler: HTTPRouteHandler, summary: str, query: Sequence[str], codes: Sequence[ErrorCode]) -> dict[str, Any]:
    """What a browser is sent to: it brings no API key and gets HTML. Programs get errors as everywhere."""
    first, *rest = handler.fn.__name__.split("_")
    page = {"text/html": {"schema": {"type": "string"}}}
    listed = (*codes, ErrorCode.RATE_LIMIT_EXCEEDED, ErrorCode.INTERNAL_ERROR, ErrorCode.SERVICE_UNAVAILABLE)
    errors = {str(status): _error(status, known) for status, known in raises(*listed).items()}
    for error in errors.values():
        error["content"] |= page
    location = {"Location": {"description": "Where to go on.", "schema": {"type": "string"}}}
    return {
        "operationId": first + "".join(word.capitalize() for word in rest),
        "tags": ["Connections"],
        "summary": summary,
        "description": " ".join((handler.fn.__doc__ or "").split()),
        "security": [],
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in re.findall(r"\{(\w+):\w+\}", min(handler.paths))
            ),
            *({"name": name, "in": "query", "required": False, "schema": {"type": "string"}} for name in query),
        ],
        "responses": {
            "200": {"description": "A page that says what became of it", "headers": _header_refs(), "content": page},
            "302": {"description": "To the application", "headers": {**_header_refs(), **location}},
            **errors,
        },
    }


def _ref(kind: type[Any]) -> dict[str, Any]:
    return {"$ref": _REF.format(name=kind.__name__)}


def _header_refs() -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in _HEADERS if name != "Retry-After"}


_INTEGER = {"type": "integer", "minimum": 0}
_HEADERS: dict[str, Any] = {
    "X-Request-Id": {"description": "Names this request in the log.", "schema": {"type": "string"}},
    "X-RateLimit-Limit": {"description": "Requests a minute.", "schema": _INTEGER},
    "X-RateLimit-Remaining": {"description": "Requests left in this minute.", "schema": _INTEGER},
    "X-RateLimit-Reset": {"description": "Unix seconds at which the next minute begins.", "schema": _INTEGER},
    "Retry-After": {"description": "Seconds to wait.", "schema": _INTEGER},
}
