"""The Model Context Protocol at `/mcp`: streamable HTTP without sessions, by the keys of the API."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from litestar import Request, Response, post

from api import auth, request_context, request_limits
from api.mcp import protocol
from api.mcp.inner import Inner
from api.mcp_hosts import PATH
from api.services import Services
from retrieval.errors import ErrorCode, ServiceError


@post(PATH, status_code=200)
async def talk(request: Request[Any, Any, Any]) -> Response[bytes]:
    """One message of JSON-RPC; a notification is answered with 202 and nothing."""
    services = cast("Services", request.app.state.services)
    context = request_context.of(request.scope)
    if context.caller is None:
        raise auth.unauthorized()
    version = request.headers.get("mcp-protocol-version")
    try:
        content = await request_limits.read_json(
            request.receive,
            list(request.scope["headers"]),
            cap=services.settings.max_body_bytes,
            seconds=services.settings.body_seconds,
            invalid=ErrorCode.INVALID_REQUEST,
        )
        message = msgspec.json.decode(content)
    except (ServiceError, msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
        if isinstance(error, ServiceError) and error.code is not ErrorCode.INVALID_REQUEST:
            raise
        return _json(400, protocol.error(None, protocol.PARSE_ERROR, "The body is not valid JSON."))
    if version is not None and version not in protocol.VERSIONS and _method(message) not in _NEGOTIATES:
        words = f"This server speaks the revisions {', '.join(protocol.VERSIONS)} of the protocol."
        return _json(400, protocol.error(protocol.id_of(message), protocol.INVALID_REQUEST, words))
    inner = Inner(request.app, services, request.scope, context)
    answer = await protocol.answer(inner, message)
    return Response(b"", status_code=202, media_type="application/json") if answer is None else _json(200, answer)


HANDLERS = (talk,)
_NEGOTIATES = frozenset({"initialize", "server/discover"})
"""Methods by which a client finds out which revision to speak."""


def _json(status: int, body: dict[str, Any]) -> Response[bytes]:
    return Response(msgspec.json.encode(body), status_code=status, media_type="application/json")


def _method(message: Any) -> Any:
    return message.get("method") if isinstance(message, dict) else None
