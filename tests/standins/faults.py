"""Faults of vendors on demand: refusals, resets, late, broken and foreign answers."""

from __future__ import annotations

import gzip
import json
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

P = TypeVar("P")


class Handler(BaseHTTPRequestHandler):
    """A stand-in's handler: HTTP/1.1, silent, with answers in JSON."""

    standin: Any
    """The stand-in of `serving`."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body go out in two writes, and the second would wait 40 ms

    def log_message(self, *_: object) -> None:
        pass

    def read_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def reply(self, code: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore disconnected clients."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Serve on loopback during the block; yield the port."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextmanager
def serving(standin: P, handler: type[Handler]) -> Iterator[P]:
    """Serve a stand-in on its `port` during the block; contract breaches in `violations` fail the test."""
    with served(type("Bound", (handler,), {"standin": standin})) as standin.port:  # type: ignore[attr-defined]
        yield standin
    assert not getattr(standin, "violations", ())


Fault = Callable[[Any], bool]
"""Does something wrong with a request; True if nothing else is to be done."""


def status(code: int, message: str = "SECRET VENDOR WORDS", **headers: str) -> Fault:
    """Return an error in the vendor's format; `Retry_After="3"` is a header."""

    def fault(handler: Handler) -> bool:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.reply(code, {"code": 2, "message": message, "details": []}, fields)
        return True

    return fault


def retire(*templates: str, but: str = "", code: int = 410) -> Callable[[str], Fault | None]:
    """Return a fault for removed path templates, except paths in `but`."""
    # The words are from Atlassian: https://github.com/atlassian-api/atlassian-python-api/issues/1560
    paths = ["[^/]+".join(map(re.escape, re.split(r"\{[^}]*\}", template.partition("?")[0]))) for template in templates]

    kept_path = re.split(r"[?\n]", but)[0]

    def fault(request: str) -> Fault | None:
        is_kept = bool(kept_path) and request.endswith(kept_path)
        is_retired = any(re.search(f"{path}$", request) for path in paths) and not is_kept
        return status(code, "This deprecated endpoint has been removed.") if is_retired else None

    return fault


def reset(handler: Handler) -> bool:
    """The connection is reset before an answer."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.close()
    return True


def cut(handler: Handler) -> bool:
    """Cut the answer in the middle of the body."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "500")
    handler.end_headers()
    handler.wfile.write(b'{"matches": [')
    handler.wfile.flush()
    return reset(handler)


def html(handler: Handler) -> bool:
    """A page of some other server."""
    handler.reply(200, b"<html>It works!</html>", {"Content-Type": "text/html"})
    return True


def packed(body: bytes, times: int = 2) -> Fault:
    """Return a repeatedly gzipped answer with matching headers, without a request for gzip."""
    for _ in range(times):
        body = gzip.compress(body)

    def fault(handler: Handler) -> bool:
        handler.reply(200, body, {"Content-Encoding": ", ".join(["gzip"] * times)})
        return True

    return fault


def slow(seconds: float) -> Fault:
    """The right answer, late."""

    def fault(_handler: Handler) -> bool:
        time.sleep(seconds)
        return False

    return fault


def drips(handler: Handler) -> bool:
    """Send single bytes for three seconds."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(60):
        handler.wfile.write(b" ")
        time.sleep(0.05)
    return reset(handler)
