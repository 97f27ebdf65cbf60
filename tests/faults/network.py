"""TCP proxy with delays, cuts and resets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
from typing import Self

PART = 1 << 16
# First message of a PostgreSQL client with TLS.
SSL_REQUEST = struct.pack(">II", 8, 80877103)


class Network:
    """Forward connections of `port` to another local port.

    `delay` is in seconds per part; `tls` requires TLS of PostgreSQL clients.
    """

    def __init__(self, to: int, tls: ssl.SSLContext | None = None) -> None:
        self._to = to
        self._tls = tls
        self.delay = 0.0
        self._passes = asyncio.Event()
        self._passes.set()
        self.port = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def heal(self) -> None:
        """Everything passes at once again."""
        self.delay = 0.0
        self._loop.call_soon_threadsafe(self._passes.set)

    def cut(self) -> None:
        """Stop forwarding without closing connections."""
        self._loop.call_soon_threadsafe(self._passes.clear)

    def reset(self) -> None:
        """Every connection is torn down with a reset, whatever is under way."""
        self._loop.call_soon_threadsafe(self._reset)

    def _reset(self) -> None:
        for writer in list(self._open):
            _torn(writer)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        self._reset()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._tls is not None and not await self._secured(reader, writer, self._tls):
            return
        try:
            there_reader, target_writer = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, target_writer}
        self._open |= ends
        try:
            await asyncio.gather(self._pass(reader, target_writer), self._pass(there_reader, writer))
        finally:
            self._open -= ends
            for end in ends:
                end.transport.abort()

    async def _secured(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tls: ssl.SSLContext) -> bool:
        """Return True after a TLS handshake."""
        try:
            if await reader.readexactly(len(SSL_REQUEST)) != SSL_REQUEST:
                writer.transport.abort()
                return False
            writer.write(b"S")
            await writer.start_tls(tls)
        except (OSError, asyncio.IncompleteReadError):
            writer.transport.abort()
            return False
        return True

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward until one side closes; resets are forwarded too."""
        try:
            while part := await reader.read(PART):
                if self.delay:
                    await asyncio.sleep(self.delay)
                await self._passes.wait()
                writer.write(part)
                await writer.drain()
            await self._passes.wait()
            if writer.can_write_eof():
                writer.write_eof()
            else:
                writer.close()
        except OSError:
            await self._passes.wait()
            _torn(writer)


def _torn(writer: asyncio.StreamWriter) -> None:
    """End a connection with a reset."""
    transport_socket = writer.get_extra_info("socket")
    if transport_socket is not None:
        with contextlib.suppress(OSError):
            transport_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
