"""The Model Context Protocol by the official SDK: one request is served at a time, without sessions.

Importing the SDK takes a second of processor time, so `api.routes.mcp` imports this module on the first request.
"""

from __future__ import annotations

import logging
from typing import Any, cast

import msgspec
import structlog
from litestar import Litestar
from litestar.types import HTTPScope, Receive, Scope, Send
from mcp import MCPError
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)

from api import request_context
from api.mcp import IDENTITY, tools
from api.mcp.arguments import convert_arguments
from api.mcp.calls import WrongArgument
from api.mcp.inner import Inner, Refused
from retrieval.errors import ErrorCode, ServiceError
from retrieval.settings import Settings

log = structlog.get_logger()
logging.getLogger("mcp").setLevel(logging.WARNING)

LISTING = CacheHint(ttl_ms=60_000, scope="private")
"""For so long a client may keep the list of tools: it depends on the key and changes with its scopes."""


async def serve_request(scope: Scope, receive: Receive, send: Send, settings: Settings) -> None:
    """Answer one request in any revision of the protocol. The caller has read the body within the API's limits."""
    manager = StreamableHTTPSessionManager(
        SERVER, json_response=True, stateless=True, max_request_body_size=settings.max_body_bytes
    )
    async with manager.run():
        await manager.handle_request(cast("Any", scope), cast("Any", receive), cast("Any", send))


def find_refusal(scope: HTTPScope, content: bytes) -> ServiceError | None:
    """Return the refusal of a tool that a person's role does not allow; OAuth clients learn it by the status 403."""
    caller = _inner(scope)
    if caller.caller.signed_in is None:
        return None
    try:
        message = msgspec.json.decode(content, type=_Call)
    except msgspec.DecodeError:
        return None
    tool = next((tool for tool in tools.TOOLS if tool.name == message.params.get("name")), None)
    if message.method != "tools/call" or tool is None or caller.may(tool.operation):
        return None
    return ServiceError(ErrorCode.FORBIDDEN, f"Your role does not allow the tool {tool.name}.", reason="missing_scope")


class _Call(msgspec.Struct):
    """A message of JSON-RPC, as far as it names a tool."""

    method: str = ""
    params: dict[str, Any] = {}


async def _list_tools(context: ServerRequestContext[Any, Any], _: PaginatedRequestParams | None) -> ListToolsResult:
    return ListToolsResult(tools=[tool.listed() for tool in tools.tools_of_caller(_caller(context)).values()])


async def _call_tool(context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
    """Run a tool. What an operation refuses is a result with `is_error`, so that the model may correct itself."""
    caller = _caller(context)
    tool = tools.tools_of_caller(caller).get(params.name)
    if tool is None:
        raise MCPError(INVALID_PARAMS, "There is no such tool for this key.")
    try:
        done = await tool.act(caller, convert_arguments(params.arguments or {}, tool.accepted()))
    except (Refused, WrongArgument) as error:
        words = error.words if isinstance(error, Refused) else str(error)
        return CallToolResult(content=[TextContent(text=words)], is_error=True)
    except Exception as error:
        log.exception("mcp.failed")
        raise MCPError(INTERNAL_ERROR, "An internal error occurred. Try again.") from error
    return CallToolResult(content=[TextContent(text=done.words)], structured_content=done.structured)


def _caller(context: ServerRequestContext[Any, Any]) -> Inner:
    return _inner(cast("HTTPScope", cast("Any", context.request).scope))


def _inner(scope: HTTPScope) -> Inner:
    app: Litestar = scope["litestar_app"]
    return Inner(app, app.state.services, scope, request_context.get_context(scope))


SERVER: Server[Any] = Server(
    "retrieval",
    **IDENTITY,
    cache_hints={"tools/list": LISTING},
    get_tool_input_schema=lambda _: None,
    on_list_tools=_list_tools,
    on_call_tool=_call_tool,
)
"""No tool takes an argument by a header, so there is no schema to look up for one."""
