"""HTTP/1.1 by Uvicorn within bounds: connections, waiting, heads and framing, and refusals in the service's words."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any
from weakref import WeakKeyDictionary

import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from api.errors import render
from api.middleware import ALWAYS, refuse
from api.server.connections import Connections
from retrieval import settings
from retrieval.errors import ErrorCode, ServiceError

log = structlog.get_logger()

HEAD_BYTES = 64 * 1024
"""Target and header fields of one request, trailers included."""

FRAMING_BYTES = 64 * 1024
"""What may arrive without a byte of content coming of it: the extension of a chunk."""

_BY_SERVER: WeakKeyDictionary[ServerState, Connections] = WeakKeyDictionary()


class BoundedProtocol(HttpToolsProtocol):
    """One connection. It waits for its client until a head is whole, and again once the answer is given."""

    def __init__(self, *args: Any, **values: Any) -> None:
        super().__init__(*args, **values)
        self.owner: str | None = None
        self._settings = settings.load()
        if self.server_state not in _BY_SERVER:
            _BY_SERVER[self.server_state] = Connections.of(self._settings)
        self._all = _BY_SERVER[self.server_state]
        self._in_head = False
        self._head_bytes = 0
        self._quiet_bytes = 0

    def drop(self) -> None:
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._all.watch(self.loop)
        if self._all.admit(self, self.client[0] if self.client else ""):
            self._all.waits(self, self._settings.api_header_seconds)
            return
        message = "The server holds as many connections as it may. Try again in a moment."
        self._refuse(ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, reason="too_many_connections"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._quiet_bytes += len(data)
        super().data_received(data)
        if self._quiet_bytes > FRAMING_BYTES and not self.transport.is_closing():
            self.send_400_response("A chunk's extension is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0
        if not self._is_serving():
            self._all.waits(self, self._settings.api_header_seconds)

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
        self.app = self.config.loaded_app if self._all.serve(self) else self._over_limit
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._quiet_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._quiet_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_serving():
            self._wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._all.waits(self, self._settings.api_idle_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._is_serving():
            self._all.works(self)
        else:
            self._wait()

    def send_400_response(self, msg: str) -> None:
        log.info("request.unreadable", reason=msg)
        if self._is_serving() and self.cycle.response_started:
            self.drop()
            return
        self._refuse(ServiceError(ErrorCode.INVALID_REQUEST, "The request is not valid HTTP for this service."))

    async def _over_limit(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI application for requests beyond those that are served at once for one address."""
        most = self._settings.api_address_connections
        message = (
            f"{most} requests from this address are being answered, and no more are at once. Try again in a moment."
        )
        error = ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, reason="too_many_connections")
        await refuse(scope, receive, send, error)

    def _is_serving(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        of_settings = self._settings
        self._all.rests(self, of_settings.api_header_seconds if self._in_head else of_settings.api_idle_seconds)

    def _count(self, *parts: bytes) -> None:
        self._head_bytes += sum(map(len, parts))
        if self._head_bytes > HEAD_BYTES:
            raise ValueError("The head of the request is too long.")

    def _refuse(self, error: ServiceError) -> None:
        rendered = render(error)
        headers = {
            b"content-type": b"application/json",
            b"content-length": str(len(rendered.body)).encode(),
            b"connection": b"close",
            b"x-request-id": f"req_{secrets.token_hex(12)}".encode(),
            **dict(ALWAYS),
            **{name.lower().encode(): value.encode() for name, value in rendered.headers.items()},
        }
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers.items())
        self.transport.write(STATUS_LINE[rendered.status] + lines + b"\r\n" + rendered.body)
        self.transport.close()
