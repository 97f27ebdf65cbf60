"""HTTP/1.1 protocol and shutdown of the server."""
# The proxy in front of the API limits idle connections, slow clients and connections per address.

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
from api.middleware import DEFAULT_HEADERS
from retrieval.errors import ErrorCode, ServiceError

log = structlog.get_logger()

# Target and header fields of one request, with trailers.
MAX_HEAD_BYTES = 64 * 1024
# Bytes received without content, such as chunk extensions.
MAX_FRAMING_BYTES = 64 * 1024


class StrictProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with limits on heads and framing, ignored trailers and JSON errors."""

    def __init__(self, *args: Any, **values: Any) -> None:
        super().__init__(*args, **values)
        self._in_head = False
        self._head_bytes = 0
        self._quiet_bytes = 0

    def data_received(self, data: bytes) -> None:
        self._quiet_bytes += len(data)
        super().data_received(data)
        if self._quiet_bytes > MAX_FRAMING_BYTES and not self.transport.is_closing():
            self.send_400_response("A chunk's extension is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._count_head_bytes(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head_bytes(name, value)
        if self._in_head:  # trailers are ignored
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
            **dict(DEFAULT_HEADERS),
        }
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers.items())
        self.transport.write(STATUS_LINE[rendered.status] + lines + b"\r\n" + rendered.body)
        self.transport.close()

    def _count_head_bytes(self, *parts: bytes) -> None:
        self._head_bytes += sum(map(len, parts))
        if self._head_bytes > MAX_HEAD_BYTES:
            raise ValueError("The head of the request is too long.")


def announce_on_sigterm(ending: threading.Event, seconds: float) -> None:
    """Make SIGTERM set `ending`, and reach the server after `seconds`; a second SIGTERM reaches it at once."""
    # Call after the server installed its own handler. Threads get no signals.
    if threading.current_thread() is not threading.main_thread():
        return
    loop, server = asyncio.get_running_loop(), signal.getsignal(signal.SIGTERM)

    def on_sigterm(number: int, frame: FrameType | None) -> None:
        pause = 0.0 if ending.is_set() else seconds
        ending.set()
        loop.call_soon_threadsafe(loop.call_later, pause, pass_signal, number, frame)

    def pass_signal(number: int, frame: FrameType | None) -> None:
        if callable(server):
            server(number, frame)
        else:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, on_sigterm)
