"""The HTTP/1.1 protocol of the server, and its behaviour on SIGTERM.

Limits on idle connections, slow clients and connections per address are those of the proxy before the API.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import threading
from types import FrameType
from typing import Any

import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from api.errors import render_error
from api.middleware import ALWAYS
from retrieval.errors import ErrorCode, ServiceError

log = structlog.get_logger()

HEAD_BYTES = 64 * 1024
"""Target and header fields of one request, trailers included."""

FRAMING_BYTES = 64 * 1024
"""Bytes received without any content, such as the extension of a chunk."""


class StrictProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with limits on heads and framing. Trailers are no headers; errors are JSON."""

    def __init__(self, *args: Any, **values: Any) -> None:
        super().__init__(*args, **values)
        self._in_head = False
        self._head_bytes = 0
        self._quiet_bytes = 0

    def data_received(self, data: bytes) -> None:
        self._quiet_bytes += len(data)
        super().data_received(data)
        if self._quiet_bytes > FRAMING_BYTES and not self.transport.is_closing():
            self.send_400_response("A chunk's extension is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(name, value)
        if self._in_head:  # a trailer comes after all was decided
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._quiet_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._quiet_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._quiet_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        log.info("request.unreadable", reason=msg)
        if self.cycle is not None and not self.cycle.response_complete and self.cycle.response_started:
            self.transport.abort()
            return
        rendered = render_error(ServiceError(ErrorCode.INVALID_REQUEST, "The request is not valid HTTP."))
        headers = {
            b"content-type": b"application/json",
            b"content-length": str(len(rendered.body)).encode(),
            b"connection": b"close",
            b"x-request-id": f"req_{secrets.token_hex(12)}".encode(),
            **dict(ALWAYS),
        }
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers.items())
        self.transport.write(STATUS_LINE[rendered.status] + lines + b"\r\n" + rendered.body)
        self.transport.close()

    def _count(self, *parts: bytes) -> None:
        self._head_bytes += sum(map(len, parts))
        if self._head_bytes > HEAD_BYTES:
            raise ValueError("The head of the request is too long.")


def announce_on_sigterm(ending: threading.Event, seconds: float) -> None:
    """Make SIGTERM set `ending` and reach the server after `seconds`. A second SIGTERM reaches it at once.

    Call it on the event loop once the server has installed its own handler. Does nothing in a thread, which gets no
    signals.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop, server = asyncio.get_running_loop(), signal.getsignal(signal.SIGTERM)

    def on_sigterm(number: int, frame: FrameType | None) -> None:
        pause = 0.0 if ending.is_set() else seconds
        ending.set()
        loop.call_soon_threadsafe(loop.call_later, pause, end, number, frame)

    def end(number: int, frame: FrameType | None) -> None:
        if callable(server):
            server(number, frame)
        else:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, on_sigterm)
