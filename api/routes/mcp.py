"""The Model Context Protocol at `/mcp`: streamable HTTP without sessions, by the keys of the API."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

from litestar import Response, get, post
from litestar.types import ASGIApp, Receive, Scope, Send

from api import auth, request_context, request_limits
from api.mcp_hosts import METADATA, PATH, Hosts
from api.request import ApiRequest
from retrieval.errors import ErrorCode, ServiceError


@post(PATH, status_code=200, include_in_schema=False)
async def serve_mcp(request: ApiRequest) -> ASGIApp:
    """One message of JSON-RPC, which the SDK answers."""
    settings = request.services.settings
    if request_context.get_context(request.scope).caller is None:
        raise auth.unauthorized_error()
    content = await request_limits.read_json(
        request.receive,
        list(request.scope["headers"]),
        cap=settings.max_body_bytes,
        seconds=settings.body_seconds,
        invalid=ErrorCode.INVALID_REQUEST,
    )
    server = await asyncio.to_thread(_load_server)
    if refusal := server.find_refusal(request.scope, content):
        raise Hosts.of(settings).challenge(refusal)
    body = [{"type": "http.request", "body": content, "more_body": False}]

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def replay() -> Any:
            return body.pop() if body else await receive()

        await server.serve_request(scope, replay, send, settings)

    return answer


@get([METADATA, METADATA + PATH], include_in_schema=False)
async def describe_resource(request: ApiRequest) -> Response[dict[str, Any]]:
    """Describe `/mcp` as a resource that tokens of the identity provider open, by RFC 9728."""
    metadata = Hosts.of(request.services.settings).describe_resource()
    if metadata is None:
        message = "No identity provider is configured: send an API key as `Authorization: Bearer <API_KEY>`."
        raise ServiceError(ErrorCode.NOT_FOUND, message, reason="no_identity_provider")
    return Response(metadata, headers={"Access-Control-Allow-Origin": "*", "Cache-Control": "max-age=300"})


HANDLERS = (serve_mcp, describe_resource)


def _load_server() -> ModuleType:
    from api.mcp import server

    return server
