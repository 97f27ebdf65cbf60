"""JSON-RPC of the Model Context Protocol, without sessions: one message in, one answer out."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import structlog

from api.mcp import tools
from api.mcp.calls import WrongArgument
from api.mcp.inner import Inner, Refused

log = structlog.get_logger()

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Revisions of the protocol, newest first."""
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
INSTRUCTIONS = (
    "Search documents by meaning and by words, and read them. Begin with list_namespaces unless the key is bound to one"
    " namespace. Cite results by their document and url. What is added is searchable once its job run is COMPLETED."
)

Json = dict[str, Any]


class Failed(Exception):
    """A message that cannot be carried out, by the code of JSON-RPC."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


async def answer(inner: Inner, message: Any) -> Json | None:
    """The response to a request; None for a notification or a response, which get none."""
    known = id_of(message)
    try:
        asked = _read(message)
        if asked is None:
            return None
        return {"jsonrpc": "2.0", "id": known, "result": await _carry_out(inner, *asked)}
    except Failed as failed:
        return error(known, failed.code, str(failed))
    except Exception:
        log.exception("mcp.failed")
        return error(known, INTERNAL_ERROR, "An internal error occurred. Try again.")


def id_of(message: Any) -> str | int | None:
    """The id of a request, None for whatever has none."""
    found = message.get("id") if isinstance(message, dict) else None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def _read(message: Any) -> tuple[str, Json] | None:
    """Method and parameters of a request; None for what is not answered."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise Failed(INVALID_REQUEST, "Send one JSON-RPC 2.0 message; batches are not taken.")
    name, params = message.get("method"), message.get("params", {})
    if "id" not in message or (name is None and ("result" in message or "error" in message)):
        return None
    if not isinstance(name, str) or id_of(message) is None:
        raise Failed(INVALID_REQUEST, "A request has a method, and an id that is text or a whole number.")
    if not isinstance(params, dict):
        raise Failed(INVALID_PARAMS, "params must be an object.")
    return name, params


def error(known: str | int | None, code: int, message: str) -> Json:
    """A response that says what is wrong with the message itself."""
    return {"jsonrpc": "2.0", "id": known, "error": {"code": code, "message": message}}


async def _carry_out(inner: Inner, name: str, params: Json) -> Json:
    match name:
        case "initialize":
            return _initialized(params)
        case "ping":
            return {}
        case "tools/list":
            return {"tools": [tool.listed() for tool in tools.of(inner).values()]}
        case "tools/call":
            return await _called(inner, params)
        case _:
            raise Failed(METHOD_NOT_FOUND, "There is no such method: this server offers tools.")


def _initialized(params: Json) -> Json:
    asked = params.get("protocolVersion")
    return {
        "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {
            "name": "retrieval",
            "title": "Retrieval Service",
            "version": metadata.version("retrieval-service"),
        },
        "instructions": INSTRUCTIONS,
    }


async def _called(inner: Inner, params: Json) -> Json:
    name, given = params.get("name"), params.get("arguments") or {}
    tool = tools.of(inner).get(name) if isinstance(name, str) else None
    if tool is None:
        raise Failed(INVALID_PARAMS, "There is no such tool for this key.")
    if not isinstance(given, dict):
        raise Failed(INVALID_PARAMS, "arguments must be an object.")
    try:
        done = await tool.act(inner, given)
    except Refused as refused:
        return _wrong(refused.words)
    except WrongArgument as wrong:
        return _wrong(str(wrong))
    return {"content": [{"type": "text", "text": done.words}], "structuredContent": done.structured, "isError": False}


def _wrong(words: str) -> Json:
    """A tool that could not do it says so to the model, which may correct itself."""
    return {"content": [{"type": "text", "text": words}], "isError": True}
