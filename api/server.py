"""The HTTP/1.1 server: Uvicorn within bounds on connections, waiting, heads and framing, and draining at its end."""

from __future__ import annotations

import asyncio
import resource
import secrets
import signal
import threading
import time
from asyncio import AbstractEventLoop
from collections import Counter
from types import FrameType
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from api.errors import render
from api.middleware import ALWAYS, refuse
from api.rates import Networks, grouped, is_within, parse
from retrieval import settings
from retrieval.errors import ErrorCode, ServiceError
from retrieval.settings import Settings

_OTHER_FILES = 256
"""File descriptors that are kept for what is no connection: the database, spooled uploads, logs."""

_LOOK_SECONDS = 1.0


class Connection(Protocol):
    """A bounded connection. `owner` is the address that it counts for, None if for none; `drop` ends it at once."""

    owner: str | None

    def drop(self) -> None: ...


class Connections:
    """The connections of one server, and the requests that it serves for each address.

    A connection that waits for a request makes room for a new one; one that is served does not. The address with the
    most connections makes room first: who opens connections and leaves them idle takes them from itself.
    """

    def __init__(self, limit: int, address_limit: int, trusted_proxies: Networks = ()) -> None:
        self._limit = limit
        self._address_limit = address_limit
        self._trusted_proxies = trusted_proxies
        self._open: dict[Connection, None] = {}
        self._by_owner: Counter[str] = Counter()
        self._served: set[Connection] = set()
        self._served_by_owner: Counter[str] = Counter()
        self._waiting: dict[Connection, float] = {}
        """By deadline, the one that has waited longest first."""
        self._watched = False

    @classmethod
    def of(cls, settings: Settings) -> Connections:
        """Return the connections that the settings allow, but never more than the process may have files open."""
        limit = min(settings.api_connections, _may_open(settings.api_connections + _OTHER_FILES) - _OTHER_FILES)
        return cls(max(16, limit), settings.api_address_connections, settings.trusted_proxies)

    def admit(self, connection: Connection, host: str) -> bool:
        """Add a connection if there is room for it, made if need be by one that waits for a request."""
        connection.owner = self._owner(host)
        if len(self._open) >= self._limit and not self._make_room():
            return False
        self._open[connection] = None
        if connection.owner is not None:
            self._by_owner[connection.owner] += 1
        return True

    def forget(self, connection: Connection) -> None:
        """Remove a connection that has ended; nothing happens if it was not admitted or is forgotten already."""
        self._waiting.pop(connection, None)
        self._end_service(connection)
        if connection in self._open:
            del self._open[connection]
            _subtract(self._by_owner, connection.owner)

    def serve(self, connection: Connection) -> bool:
        """Begin to serve a request, until `rests`; False if as many are served for this address as may be."""
        self._waiting.pop(connection, None)
        if connection in self._served:
            return True
        if connection.owner is not None:
            if self._served_by_owner[connection.owner] >= self._address_limit:
                return False
            self._served_by_owner[connection.owner] += 1
        self._served.add(connection)
        return True

    def rests(self, connection: Connection, seconds: float) -> None:
        """End the service of a request; the next one is waited for so long at most."""
        self._end_service(connection)
        self.waits(connection, seconds)

    def waits(self, connection: Connection, seconds: float) -> None:
        """Set the deadline by which the client must send or read."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = time.monotonic() + seconds

    def works(self, connection: Connection) -> None:
        """Clear the deadline: the client waits for the server."""
        self._waiting.pop(connection, None)

    def watch(self, loop: AbstractEventLoop) -> None:
        """Look each second, while there are connections, for those that have kept the server waiting for too long."""
        if not self._watched:
            self._watched = True
            loop.call_later(_LOOK_SECONDS, self._look, loop)

    def _look(self, loop: AbstractEventLoop) -> None:
        timestamp = time.monotonic()
        for connection in [connection for connection, deadline in self._waiting.items() if deadline < timestamp]:
            self._drop(connection)
        self._watched = False
        if self._open:
            self.watch(loop)

    def _make_room(self) -> bool:
        """Drop the connection that has waited longest, one of the address with the most connections if there is any."""
        largest = max(self._by_owner, key=self._by_owner.__getitem__, default=None)
        waiting = (connection for connection in self._waiting if connection.owner == largest)
        longest = next(waiting, None) or next(iter(self._waiting), None)
        if longest is None:
            return False
        self._drop(longest)
        return True

    def _end_service(self, connection: Connection) -> None:
        if connection in self._served:
            self._served.discard(connection)
            _subtract(self._served_by_owner, connection.owner)

    def _drop(self, connection: Connection) -> None:
        self.forget(connection)
        connection.drop()

    def _owner(self, host: str) -> str | None:
        address = parse(host)
        if address is None or is_within(address, self._trusted_proxies):
            return None
        return grouped(address)


def _subtract(counter: Counter[str], owner: str | None) -> None:
    if owner is None:
        return
    counter[owner] -= 1
    if not counter[owner]:
        del counter[owner]


def _may_open(number: int) -> int:
    """Return the limit of open files of this process, raised as far as wanted and allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < number:
        soft = min(number, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


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
        limit = self._settings.api_address_connections
        message = (
            f"{limit} requests from this address are being answered, and no more are at once. Try again in a moment."
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
