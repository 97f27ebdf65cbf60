"""Requests to the application within its process."""

from __future__ import annotations

from typing import Any

from litestar import Litestar
from litestar.types import HTTPScope, Message


async def answer_of(app: Litestar, scope: HTTPScope, content: bytes) -> tuple[int, bytes]:
    """Run a request and return the status and body of the response."""
    messages = [{"type": "http.request", "body": content, "more_body": False}]
    status, parts = 0, []

    async def receive() -> Any:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            parts.append(message["body"])

    await app(scope, receive, send)
    return status, b"".join(parts)
