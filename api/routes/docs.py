"""The OpenAPI document and the page that shows it; nothing comes from a foreign host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from litestar import Request, Response, get

from api.openapi.document import document
from retrieval.namespaces.validation import models

_PAGE = Path(__file__).resolve().parent.parent / "docs.html"
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@get("/openapi.json")
async def openapi(request: Request[Any, Any, Any]) -> Response[bytes]:
    return Response(_encoded(request), media_type="application/json")


@get(["/docs", "/"])
async def docs() -> Response[bytes]:
    headers = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}
    return Response(_PAGE.read_bytes(), media_type="text/html; charset=utf-8", headers=headers)


HANDLERS = (openapi, docs)


def _encoded(request: Request[Any, Any, Any]) -> bytes:
    """Made on first request and kept: no request before it pays for it."""
    state = request.app.state
    if "openapi" not in state:
        state.openapi = msgspec.json.encode(document(state.handlers, models(state.services.settings)))
    return bytes(state.openapi)
