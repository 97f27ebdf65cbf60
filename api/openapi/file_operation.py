"""The OpenAPI operation of signed file links: no API key, bytes instead of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from litestar.handlers import HTTPRouteHandler

from retrieval.errors import ErrorCode

CODES = (
    ErrorCode.NOT_FOUND,
    ErrorCode.RATE_LIMIT_EXCEEDED,
    ErrorCode.INTERNAL_ERROR,
    ErrorCode.SERVICE_UNAVAILABLE,
)
_CONTENT = "The file, under its own media type; texts as plain text"


def describe(
    handler: HTTPRouteHandler, summary: str, headers: Mapping[str, Any], errors: Mapping[str, Any]
) -> dict[str, Any]:
    """The operation; `errors` by status."""
    text = {"type": "string"}
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return {
        "operationId": "readFile",
        "tags": ["Documents"],
        "summary": summary,
        "description": " ".join((handler.fn.__doc__ or "").split()),
        "security": [],
        "parameters": [
            {"name": "document_id", "in": "path", "required": True, "schema": text},
            {"name": "kind", "in": "path", "required": True, "schema": text | {"enum": ["raw", "parsed"]}},
            {"name": "expires", "in": "query", "required": True, "schema": text},
            {"name": "signature", "in": "query", "required": True, "schema": text},
            {"name": "key", "in": "query", "required": False, "schema": text},
            {"name": "principal", "in": "query", "required": False, "schema": text},
            {"name": "groups", "in": "query", "required": False, "schema": text},
        ],
        "responses": {"200": {"description": _CONTENT, "headers": dict(headers), "content": content}, **errors},
    }
