"""A CONNECT proxy on loopback; every tunnel leads to one local port."""

from __future__ import annotations

import asyncio
import base64
import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LOGIN = "gate:p@ss"


class EgressProxy:
    """A proxy; `seen` lists the targets of authorized requests."""

    def __init__(self, target: int) -> None:
        self.target, self.seen, self.port = target, [], 0
        self.expected = f"Basic {base64.b64encode(LOGIN.encode()).decode()}"

    @property
    def url(self) -> str:
        return f"http://gate:p%40ss@127.0.0.1:{self.port}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
            method, target, _ = head[0].split(" ")
            if method != "CONNECT" or headers.get("proxy-authorization") != self.expected:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            else:
                self.seen.append(target)
                inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.target)
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with suppress(OSError):
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
    finally:
        writer.close()


@contextmanager
def proxying(target: int) -> Iterator[EgressProxy]:
    proxy, ready, loops = EgressProxy(target), threading.Event(), []
    ended = asyncio.Event()

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
        proxy.port = server.sockets[0].getsockname()[1]
        ready.set()
        await ended.wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        assert ready.wait(10)
        yield proxy
    finally:
        loops[0].call_soon_threadsafe(ended.set)
        thread.join(10)
