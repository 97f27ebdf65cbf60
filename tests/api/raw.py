"""HTTP requests as exact bytes on a socket."""

from __future__ import annotations

import contextlib
import re
import socket
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    """Status (0 if closed without an answer), headers with lowercase names, and body."""

    status: int
    headers: dict[str, str]
    body: bytes


def connect(base: str, source: str | None = None, seconds: float = 20) -> socket.socket:
    """Connect to the server at `base` from the local address `source`."""
    parts = urlsplit(base)
    return socket.create_connection(
        (parts.hostname or "", parts.port or 80), seconds, source_address=(source, 0) if source else None
    )


def request(method: str, target: str | bytes, *headers: str, body: bytes = b"") -> bytes:
    """Return the bytes of a request."""
    line = target.encode("latin-1") if isinstance(target, str) else target
    length = [f"Content-Length: {len(body)}"] if body else []
    fields = "".join(f"{header}\r\n" for header in ("Host: localhost", *length, *headers))
    return method.encode() + b" " + line + b" HTTP/1.1\r\n" + fields.encode("latin-1") + b"\r\n" + body


def ask(base: str, content: bytes, *, source: str | None = None, seconds: float = 20) -> Answer:
    """Send bytes and return the answer; reads until the server closes."""
    with connect(base, source, seconds) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may have answered before all was sent
            connection.sendall(content)
        return read(connection)


def read(connection: socket.socket) -> Answer:
    """Read an answer up to the end of the connection or of Content-Length."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while not _is_whole(got) and (piece := connection.recv(65536)):
            got += piece
    return parsed(got)


class Session:
    """Connection kept open across requests until the `with` block ends."""

    def __init__(self, base: str, source: str | None = None) -> None:
        self._base, self._source = base, source
        self._made: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._made:
            self._made.close()
        self._made = None

    def ask(self, content: bytes) -> Answer:
        self._made = connection = self._made or connect(self._base, self._source)
        connection.sendall(content)
        answer = read(connection)
        if answer.headers.get("connection") == "close" or "content-length" not in answer.headers:
            connection.close()
            self._made = None
        return answer


def _is_whole(got: bytes) -> bool:
    head, end, body = got.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *(\d+)", head.lower())
    return bool(end and length) and len(body) >= int(length[1])  # type: ignore[index]


def parsed(got: bytes) -> Answer:
    """Parse the bytes of an answer."""
    head, _, body = got.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = (line.partition(":") for line in lines)
    status = first.split(" ")[1] if " " in first else "0"
    return Answer(int(status), {name.lower(): value.strip() for name, _, value in headers}, body)
