"""Commands of a client: those of `retrieval_client.cli`, `retrieval mcp` and `retrieval demo`."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import anyio
import httpx

from local import LocalError, instance
from local.scratch import create_namespace, start_scratch
from retrieval.settings import IS_CHECKOUT, Settings
from retrieval_client import RetrievalClient, RetrievalError, cli
from retrieval_client.cli import content
from retrieval_client.cli.output import CommandError

Options = argparse.Namespace
_START_COMMAND = "make up" if IS_CHECKOUT else "retrieval up"
_CORPUS_FOLDER = Path(__file__).parent / "corpus"
_INGEST_SECONDS = 180.0
_DEMO_QUERIES: tuple[tuple[str, str, bool], ...] = (
    ("Semantic", "Who took delivery of the outdoor units?", False),
    ("Hybrid", "What does error E17 mean?", True),
)
MCP_TIMEOUT_SECONDS = 120.0
# The newest revision without additional request headers.
MCP_VERSION = "2025-11-25"


def run(options: Options, settings: Settings) -> int:
    """Run a command of `retrieval_client.cli`; raise LocalError without a server."""
    service = instance.read_service(settings.home)
    is_local = not (options.url or os.environ.get("RETRIEVAL_API_URL"))
    if is_local and service and not (settings.home / "service.json").exists():
        raise LocalError(f"Nothing runs in {settings.home}: start it with `retrieval up`, or give --url.")
    url, key = find_server(options, settings)
    try:
        return cli.run(options, url, key, service.get("namespaceId") if url == service.get("api") else None)
    except CommandError as error:
        raise LocalError(str(error), exit_code=error.exit_code) from error


def find_server(options: Options, settings: Settings) -> tuple[str, str]:
    """Return URL and key from options, environment or this home's instance; raise LocalError if missing."""
    service = instance.read_service(settings.home)
    url = options.url or os.environ.get("RETRIEVAL_API_URL") or service.get("api")
    key = options.key or os.environ.get("RETRIEVAL_API_KEY")
    if key is None and url == service.get("api"):  # the key of this home goes to no other server
        key = service.get("apiKey")
    if not url:
        raise LocalError(
            "No instance runs here: start one by `retrieval up`, or name a server by --url or RETRIEVAL_API_URL."
        )
    if not url.startswith(("http://", "https://")):
        raise LocalError(f"{url} is not a URL of the API: begin it with http:// or https://.", exit_code=2)
    if not key:
        raise LocalError(f"No key for {url}: give --key or RETRIEVAL_API_KEY.")
    return url, key


def serve_mcp(options: Options, settings: Settings) -> int:
    """Serve the Model Context Protocol on stdin and stdout with the tools of a server's `/mcp`."""
    url, key = find_server(options, settings)
    headers = {"Authorization": f"Bearer {key}", "MCP-Protocol-Version": MCP_VERSION}
    if options.tenant:
        headers["X-Tenant-ID"] = options.tenant
    namespace_id = None
    if options.namespace:
        with RetrievalClient(url, key, tenant=options.tenant) as client:
            try:
                namespace_id = content.find_namespace(client, options.namespace)
            except CommandError as error:
                raise LocalError(str(error), exit_code=error.exit_code) from error
    anyio.run(_relay_mcp, url, headers, namespace_id)
    return 0


async def _relay_mcp(url: str, headers: dict[str, str], namespace_id: str | None) -> None:
    from mcp import stdio_server
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

    from api.mcp import SERVER_IDENTITY

    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=MCP_TIMEOUT_SECONDS) as client:

        async def list_tools(_: ServerRequestContext[Any, Any], __: PaginatedRequestParams | None) -> ListToolsResult:
            return ListToolsResult.model_validate(await _request_mcp(client, "tools/list", {}))

        async def call_tool(_: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
            arguments = dict(params.arguments or {})
            if namespace_id is not None and "namespaceIds" not in arguments:
                arguments.setdefault("namespaceId", namespace_id)
            call = {"name": params.name, "arguments": arguments}
            return CallToolResult.model_validate(await _request_mcp(client, "tools/call", call))

        server: Server[Any] = Server("retrieval", **SERVER_IDENTITY, on_list_tools=list_tools, on_call_tool=call_tool)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())


async def _request_mcp(client: httpx.AsyncClient, method: str, params: dict[str, Any]) -> Any:
    """Return the result of a JSON-RPC request; raise MCPError."""
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED, JSONRPCError

    try:
        response = await client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        body = response.json()
    except httpx.HTTPError as error:
        message = f"{client.base_url} does not answer ({error}): start it with `retrieval up`, or check --url."
        raise MCPError(CONNECTION_CLOSED, message) from error
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


def run_demo(_options: Options, settings: Settings) -> int:
    """Start an instance, ingest, search, stop; raise LocalError for a failed step."""
    home, began = settings.home / "demo", time.monotonic()
    try:
        with start_scratch(home) as scratch, scratch.connect() as client:
            service = scratch.service
            print(
                f"It is ready: API {service['api']}, Prefect {service['prefect']} (sign in: {service['prefectLogin']})"
            )
            _ingest_and_search(client)
    except (LocalError, RetrievalError) as error:
        raise LocalError(f"The demo failed: {error}\n  Logs: {home / 'logs'}") from error
    print(
        f"Done in {time.monotonic() - began:.0f} s. Everything is stopped; `{_START_COMMAND}` starts a service that"
        " stays."
    )
    return 0


def _ingest_and_search(client: RetrievalClient) -> None:
    namespace = create_namespace(client, "demo")
    runs = {}
    for file in sorted(path for path in _CORPUS_FOLDER.rglob("*") if path.is_file()):
        accepted = client.ingest.file(namespace, file, ocr_strategy="STANDARD_OCR")
        runs[file.name] = accepted.ingest_job_run_id
    _wait_for_runs(client, namespace, runs)
    for kind, query, hybrid in _DEMO_QUERIES:
        print(f"\n{kind} search: {query}\n")
        hits = client.search(namespace, query, top_k=3, hybrid=hybrid)
        if not hits:
            raise LocalError(f"The {kind.lower()} search found nothing.")
        for hit in hits:
            page = f", page {hit.chunk.page}" if hit.chunk and hit.chunk.page else ""
            text = " ".join(hit.content.split())
            excerpt = text if len(text) <= 200 else text[:200].rsplit(" ", 1)[0] + " …"
            print(f"  {hit.score:.3f}  {hit.metadata['source']}{page}\n         {excerpt}\n")


def _wait_for_runs(client: RetrievalClient, namespace: str, runs: dict[str, str]) -> None:
    """Wait for all documents and print each outcome."""
    print(f"Ingesting {len(runs)} documents:")
    began, waiting = time.monotonic(), dict(runs)
    while waiting:
        for name, run_id in list(waiting.items()):
            run = client.runs.get(namespace, run_id)
            if run.status != "COMPLETED":
                continue
            del waiting[name]
            outcome = str(run.documents.failed[0].error) if run.documents.failed else "SUCCESS"
            print(f"  [{len(runs) - len(waiting)}/{len(runs)}] {name}: {outcome}", flush=True)
            if outcome != "SUCCESS":
                raise LocalError(f"{name} was not ingested: {outcome}")
        if time.monotonic() > began + _INGEST_SECONDS:
            raise LocalError(f"{', '.join(waiting)} did not finish within {_INGEST_SECONDS:.0f} s.")
        time.sleep(0.2)
    print(f"All searchable after {time.monotonic() - began:.1f} s.")
