"""`retrieval mcp`: the Model Context Protocol over stdin and stdout, passed on to a server's `/mcp`."""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import httpx

from local import client_commands
from retrieval.settings import Settings

AT_ONCE = 8
SECONDS = 120.0
_UNREACHABLE = -32000
"""Among the codes that JSON-RPC leaves to servers."""


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Until the end of stdin. One message a line; answers come as they are ready."""
    url, key = client_commands.server(options, settings)
    headers = {"Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream"}
    headers |= {"Content-Type": "application/json"}
    if options.tenant:
        headers["X-Tenant-ID"] = options.tenant
    writing = Lock()

    def pass_on(line: str) -> None:
        answer = _answer(client, line)
        if answer is not None:
            with writing:
                print(answer, flush=True)

    with (
        httpx.Client(base_url=url, headers=headers, timeout=SECONDS) as client,
        ThreadPoolExecutor(AT_ONCE) as threads,
    ):
        for line in sys.stdin:
            if line.strip():
                threads.submit(pass_on, line)
    return 0


def _answer(client: httpx.Client, line: str) -> str | None:
    """What the server answers, on one line; None where nothing is to be said."""
    try:
        answer = client.post("/mcp", content=line.encode())
        body = answer.json() if answer.content else None
    except httpx.HTTPError as error:
        return _failed(line, f"The server cannot be reached ({type(error).__name__}).")
    except ValueError:
        return _failed(line, f"The server answered {answer.status_code}, and not in JSON: is the address right?")
    if isinstance(body, dict) and body.get("jsonrpc") == "2.0":
        return json.dumps(body)
    if answer.status_code < 400:
        return None
    return _failed(line, body.get("message", "") if isinstance(body, dict) else f"HTTP {answer.status_code}.")


def _failed(line: str, message: str) -> str | None:
    """An error for the request of the line; a notification has none."""
    try:
        asked: Any = json.loads(line)
    except ValueError:
        asked = {}
    known = asked.get("id") if isinstance(asked, dict) else None
    if known is None:
        return None
    return json.dumps({"jsonrpc": "2.0", "id": known, "error": {"code": _UNREACHABLE, "message": message}})
