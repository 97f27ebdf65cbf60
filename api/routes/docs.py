"""The OpenAPI document, and Swagger UI with it; nothing comes from a foreign host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Request, Response, get

from api import viewer
from api.openapi.document import document
from retrieval.namespaces.validation import models

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src 'self' data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@get("/openapi.json")
async def openapi(request: Request[Any, Any, Any]) -> Response[bytes]:
    return Response(_encoded(request), media_type="application/json")


@get(["/", *sorted(viewer.FILES)])
async def docs(request: Request[Any, Any, Any]) -> Response[bytes]:
    content, kind = viewer.file(request.url.path)
    headers: Mapping[str, str] = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}
    return Response(content, media_type=kind, headers=headers)


HANDLERS = (openapi, docs)


def _encoded(request: Request[Any, Any, Any]) -> bytes:
    """Made on first request and kept: no request before it pays for it."""
    state = request.app.state
    if "openapi" not in state:
        state.openapi = msgspec.json.encode(document(state.handlers, models(state.services.settings)))
    return bytes(state.openapi)
