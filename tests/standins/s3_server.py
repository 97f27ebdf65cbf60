"""S3-compatible storage on loopback: moto's server behind a proxy with faults."""

from __future__ import annotations

import http.client
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from uuid import uuid4

from tests.standins import faults

Fault = Callable[["_Handler"], bool]
"""Does something wrong with a request; True if nothing else is to be done."""


@dataclass
class Storage:
    """A storage; each request uses one of `faults` (None passes); `seen` has (method, path with query) of each."""

    port: int
    faults: list[Fault | None] = field(default_factory=list)
    seen: list[tuple[str, str]] = field(default_factory=list)
    always: Fault | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def config(self, name: str, **overrides: str) -> dict[str, object]:
        """A fileStorageConfig for a bucket here."""
        keys = {"accessKeyId": "standin", "secretAccessKey": "canary-s3-secret"}
        base = {"type": "S3_COMPATIBLE", "bucket": name, "region": "us-east-1", "endpoint": self.endpoint}
        return {**base, "credentials": keys} | overrides

    backend: int = 0
    """moto's own port."""

    def call(self, method: str, path: str) -> int:
        """Send a request past all faults; return the status."""
        return self._ask(method, path)[0]

    def object_keys(self, bucket: str) -> list[str]:
        """Every key in the bucket."""
        return re.findall(r"<Key>([^<]*)</Key>", self._ask("GET", f"/{bucket}")[1].decode())

    def _ask(self, method: str, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.backend, timeout=20)
        signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=standin/20260101/us-east-1/s3/aws4_request"}
        connection.request(method, path, headers=signed)
        answered = connection.getresponse()
        body = answered.read()
        connection.close()
        return answered.status, body


def answer(status: int, code: str = "", **headers: str) -> Fault:
    """Return an S3 error, or an HTML page without a code."""

    def fault(handler: _Handler) -> bool:
        handler.body()
        text = (
            f"<Error><Code>{code}</Code><Message>SECRET VENDOR WORDS</Message></Error>" if code else "<html>no</html>"
        )
        handler.reply(status, {"Content-Type": "application/xml", **headers}, text.encode())
        return True

    return fault


def reset(handler: _Handler) -> bool:
    """The connection is reset before an answer."""
    handler.body()
    return faults.reset(handler)


def truncated(handler: _Handler) -> bool:
    """Half of the body, then the connection ends."""
    handler.truncate = True
    return False


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    storage: Storage
    truncate = False
    _body: bytes | None = None

    def handle_any(self) -> None:
        self._body, self.truncate = None, False
        self.storage.seen.append((self.command, self.path))
        fault = self.storage.faults.pop(0) if self.storage.faults else self.storage.always
        if fault is not None and fault(self):
            return
        connection = http.client.HTTPConnection("127.0.0.1", self.storage.backend, timeout=20)
        headers = {
            name: value for name, value in self.headers.items() if name.lower() not in {"expect", "connection", "host"}
        }
        connection.request(self.command, self.path, body=self.body(), headers=headers)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        self.reply(response.status, dict(response.getheaders()), data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815

    def body(self) -> bytes:
        if self._body is None:
            self._body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return self._body

    def reply(self, status: int, headers: dict[str, str], data: bytes) -> None:
        self.send_response_only(status)
        forwarded = {n: v for n, v in headers.items() if n.lower() not in {"connection", "transfer-encoding"}}
        if not any(name.lower() == "content-length" for name in forwarded):
            forwarded["Content-Length"] = str(len(data))
        for name, value in forwarded.items():
            self.send_header(name, value)
        self.end_headers()
        if self.truncate:
            data, self.close_connection = data[: len(data) // 2], True
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_args: object) -> None:
        pass


@contextmanager
def running() -> Iterator[Storage]:
    """Run moto's server and the proxy in this process."""
    from moto.server import ThreadedMotoServer

    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    _, backend = moto.get_host_and_port()
    handler = type("Handler", (_Handler,), {})
    try:
        with faults.served(handler) as port:
            handler.storage = Storage(port, backend=backend)
            yield handler.storage
    finally:
        moto.stop()


def bucket(storage: Storage) -> str:
    """A new bucket, empty."""
    name = f"b-{uuid4().hex[:12]}"
    assert storage.call("PUT", f"/{name}") == 200
    return name
