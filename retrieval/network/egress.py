"""Egress proxy: CONNECT to addresses resolved and checked here."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import structlog

from retrieval.settings import Settings

_MAX_HEAD_BYTES = 16 * 1024
log = structlog.get_logger()


class ProxyRefused(OSError):
    """The proxy refused a connection."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """Egress proxy; `url` has the credentials."""

    host: str
    port: int
    authorization: str | None
    url: str

    def __repr__(self) -> str:
        return f"<proxy {self.host}:{self.port}>"

    def open_tunnel(
        self, address: str, port: int, write: Callable[[bytes], object], read: Callable[[int], bytes]
    ) -> None:
        """Send CONNECT over a connection to the proxy. Raises ProxyRefused."""
        target = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if self.authorization:
            lines.append(f"Proxy-Authorization: {self.authorization}")
        write("\r\n".join([*lines, "", ""]).encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):  # by byte: further bytes belong to the tunnel
            byte = read(1)
            head += byte
            if not byte or len(head) > _MAX_HEAD_BYTES:
                raise ProxyRefused("The egress proxy broke off.")
        status = head.split(b"\r\n", 1)[0].split(b" ")[1:2]
        if not status or not status[0].startswith(b"2"):
            code = status[0].decode("latin-1")[:3] if status else ""
            log.warning("egress.refused", proxy=f"{self.host}:{self.port}", status=code, port=port)
            raise ProxyRefused(f"The egress proxy answers {code} to CONNECT.")

    def connect(self, address: str, port: int, timeout: float | None) -> socket.socket:
        """Connect to the address through the proxy. Raises OSError."""
        connection = socket.create_connection((self.host, self.port), timeout)
        try:
            self.open_tunnel(address, port, connection.sendall, connection.recv)
        except BaseException:
            connection.close()
            raise
        return connection


def find_proxy(settings: Settings) -> Proxy | None:
    """Return the proxy of the settings."""
    url = settings.egress_proxy.get_secret_value() if settings.egress_proxy else ""
    if not url:
        return None
    parts = urlsplit(url)
    authorization = None
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(login.encode()).decode()}"
    return Proxy(parts.hostname or "", parts.port or 80, authorization, url)
