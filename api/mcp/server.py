"""Model Context Protocol by the official SDK, with stateless requests."""
# Importing the SDK takes a second of processor time, so `api.routes.mcp` imports this module on the first request.

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
from api.mcp import SERVER_IDENTITY, tools
from api.mcp.arguments import convert_arguments
from api.mcp.calls import WrongArgument
from api.mcp.inner import OperationCaller, RefusedOperation
from retrieval.errors import ErrorCode, ServiceError
from retrieval.settings import Settings

log = structlog.get_logger()
logging.getLogger("mcp").setLevel(logging.WARNING)

# The list of tools depends on the key's scopes.
TOOLS_CACHE_HINT = CacheHint(ttl_ms=60_000, scope="private")


async def serve_request(scope: Scope, receive: Receive, send: Send, settings: Settings) -> None:
    """Answer a request in any revision of the protocol; its body is limited already."""
    manager = StreamableHTTPSessionManager(
        MCP_SERVER, json_response=True, stateless=True, max_request_body_size=settings.max_body_bytes
    )
    async with manager.run():
        await manager.handle_request(cast("Any", scope), cast("Any", receive), cast("Any", send))


def find_refusal(scope: HTTPScope, content: bytes) -> ServiceError | None:
    """Return the refusal of a tool outside a person's role."""
    # OAuth clients need the status 403.
    caller = _make_caller(scope)
    if caller.caller.signed_in is None:
        return None
    try:
        message = msgspec.json.decode(content, type=_RpcMessage)
    except msgspec.DecodeError:
        return None
    tool = next((tool for tool in tools.MCP_TOOLS if tool.name == message.params.get("name")), None)
    if message.method != "tools/call" or tool is None or caller.is_allowed(tool.operation):
        return None
    return ServiceError(ErrorCode.FORBIDDEN, f"Your role does not allow the tool {tool.name}.", reason="missing_scope")


class _RpcMessage(msgspec.Struct):
    """JSON-RPC message with the name of a tool."""

    method: str = ""
    params: dict[str, Any] = {}


async def _list_tools(context: ServerRequestContext[Any, Any], _: PaginatedRequestParams | None) -> ListToolsResult:
    return ListToolsResult(tools=[tool.to_mcp() for tool in tools.tools_of_caller(_find_caller(context)).values()])


async def _call_tool(context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
    """Run a tool; a refused operation is a result with `is_error`, so that the model can correct itself."""
    caller = _find_caller(context)
    tool = tools.tools_of_caller(caller).get(params.name)
    if tool is None:
        raise MCPError(INVALID_PARAMS, "There is no such tool for this key.")
    try:
        result = await tool.act(caller, convert_arguments(params.arguments or {}, tool.full_schema()))
    except (RefusedOperation, WrongArgument) as error:
        message = error.display_text if isinstance(error, RefusedOperation) else str(error)
        return CallToolResult(content=[TextContent(text=message)], is_error=True)
    except Exception as error:
        log.exception("mcp.failed")
        raise MCPError(INTERNAL_ERROR, "An internal error occurred. Try again.") from error
    return CallToolResult(content=[TextContent(text=result.display_text)], structured_content=result.structured)


def _find_caller(context: ServerRequestContext[Any, Any]) -> OperationCaller:
    return _make_caller(cast("HTTPScope", cast("Any", context.request).scope))


def _make_caller(scope: HTTPScope) -> OperationCaller:
    app: Litestar = scope["litestar_app"]
    return OperationCaller(app, app.state.services, scope, request_context.get_context(scope))


# No tool takes arguments by headers, so no schema is looked up.
MCP_SERVER: Server[Any] = Server(
    "retrieval",
    **SERVER_IDENTITY,
    cache_hints={"tools/list": TOOLS_CACHE_HINT},
    get_tool_input_schema=lambda _: None,
    on_list_tools=_list_tools,
    on_call_tool=_call_tool,
)
