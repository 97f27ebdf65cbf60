"""`retrieval mcp`: the Model Context Protocol over stdin and stdout, with the tools of a server's `/mcp`."""

from __future__ import annotations

import argparse
from typing import Any

import anyio
import httpx
from mcp import MCPError, stdio_server
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.types import (
    CONNECTION_CLOSED,
    CallToolRequestParams,
    CallToolResult,
    JSONRPCError,
    ListToolsResult,
    PaginatedRequestParams,
)

from api.mcp import IDENTITY
from local import client_commands
from retrieval.settings import Settings

SECONDS = 120.0
VERSION = "2025-11-25"
"""Of the requests to the server: the newest revision whose requests need no headers of their own."""


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Serve until the end of stdin, in the revision that the program at the other end speaks."""
    url, key = client_commands.server(options, settings)
    headers = {"Authorization": f"Bearer {key}", "MCP-Protocol-Version": VERSION}
    if options.tenant:
        headers["X-Tenant-ID"] = options.tenant
    anyio.run(_serve, url, headers)
    return 0


async def _serve(url: str, headers: dict[str, str]) -> None:
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=SECONDS) as client:

        async def list_tools(_: ServerRequestContext[Any, Any], __: PaginatedRequestParams | None) -> ListToolsResult:
            return ListToolsResult.model_validate(await _ask(client, "tools/list", {}))

        async def call_tool(_: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
            call = {"name": params.name, "arguments": params.arguments or {}}
            return CallToolResult.model_validate(await _ask(client, "tools/call", call))

        server: Server[Any] = Server("retrieval", **IDENTITY, on_list_tools=list_tools, on_call_tool=call_tool)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())


async def _ask(client: httpx.AsyncClient, method: str, params: dict[str, Any]) -> Any:
    """The result of a request to the server. MCPError: the one that it answers, or what keeps it from answering."""
    try:
        response = await client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        body = response.json()
    except httpx.HTTPError as error:
        raise MCPError(CONNECTION_CLOSED, f"The server cannot be reached ({type(error).__name__}).") from error
    except ValueError as error:
        message = f"The server answered {response.status_code}, and not in JSON: is the address right?"
        raise MCPError(CONNECTION_CLOSED, message) from error
    match body:
        case {"result": result}:
            return result
        case {"jsonrpc": "2.0"}:
            raise MCPError.from_jsonrpc_error(JSONRPCError.model_validate(body))
        case {"message": str() as message}:
            raise MCPError(CONNECTION_CLOSED, message)
    raise MCPError(CONNECTION_CLOSED, f"HTTP {response.status_code}.")
