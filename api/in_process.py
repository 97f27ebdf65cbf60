"""Requests to the application within its process."""

from __future__ import annotations

from typing import Any

from litestar import Litestar
from litestar.types import HTTPScope, Message


async def run_request(app: Litestar, scope: HTTPScope, content: bytes) -> tuple[int, bytes]:
    """Run a request; return the response's status and body."""
    messages = [{"type": "http.request", "body": content, "more_body": False}]
    status, parts = 0, []

    async def receive_body() -> Any:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def collect_response(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            parts.append(message["body"])

    await app(scope, receive_body, collect_response)
    return status, b"".join(parts)
