"""Model Context Protocol at `/mcp`: stateless streamable HTTP with API keys."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

from litestar import Response, get, post
from litestar.types import ASGIApp, Receive, Scope, Send

from api import auth, request_context, request_limits
from api.mcp_hosts import MCP_PATH, METADATA_PATH, McpHosts
from api.request import ApiRequest
from retrieval.errors import ErrorCode, ServiceError


@post(MCP_PATH, status_code=200, include_in_schema=False)
async def serve_mcp(request: ApiRequest) -> ASGIApp:
    """Answer a JSON-RPC message through the MCP SDK."""
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
        raise McpHosts.from_settings(settings).add_challenge(refusal)
    body = [{"type": "http.request", "body": content, "more_body": False}]

    async def answer_message(scope: Scope, receive: Receive, send: Send) -> None:
        async def receive_body() -> Any:
            return body.pop() if body else await receive()

        await server.serve_request(scope, receive_body, send, settings)

    return answer_message


@get([METADATA_PATH, METADATA_PATH + MCP_PATH], include_in_schema=False)
async def describe_resource(request: ApiRequest) -> Response[dict[str, Any]]:
    """Describe `/mcp` as a protected resource (RFC 9728)."""
    metadata = McpHosts.from_settings(request.services.settings).describe_resource()
    if metadata is None:
        message = "No identity provider is configured: send an API key as `Authorization: Bearer <API_KEY>`."
        raise ServiceError(ErrorCode.NOT_FOUND, message, reason="no_identity_provider")
    return Response(metadata, headers={"Access-Control-Allow-Origin": "*", "Cache-Control": "max-age=300"})


ROUTE_HANDLERS = (serve_mcp, describe_resource)


def _load_server() -> ModuleType:
    from api.mcp import server

    return server
