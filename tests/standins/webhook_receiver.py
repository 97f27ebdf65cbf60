"""A client's webhook endpoint on loopback; checks requests with PyPI's `standardwebhooks` and keeps them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.standins.faults import Handler, served


@dataclass
class Taken:
    """An accepted request."""

    id: str
    type: str
    data: dict[str, Any]
    timestamp: str
    at: float


@dataclass
class Receiver:
    """`answers`: statuses of the next requests, each used once; then `status`. `seen`: paths and headers of all."""

    port: int = 0
    secret: str = ""
    status: int = 204
    answers: list[int] = field(default_factory=list)
    delay: float = 0.0
    location: str = ""
    seen: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)
    forged: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def types(self) -> list[str]:
        return [delivery.type for delivery in self.taken]

    def wait(self, count: int, seconds: float = 15) -> list[Taken]:
        """Until so many were taken."""
        deadline = time.monotonic() + seconds
        while len(self.taken) < count:
            assert time.monotonic() < deadline, f"{len(self.taken)} of {count}: {self.types()}"
            time.sleep(0.01)
        return self.taken

    def receive(self, path: str, headers: dict[str, str], content: bytes) -> int:
        with self.lock:
            self.seen.append((path, headers, content))
            status = self.answers.pop(0) if self.answers else self.status
            try:
                body = Webhook(self.secret).verify(content, headers)
            except WebhookVerificationError as error:
                self.forged.append(str(error))
                return 401
            if 200 <= status < 300:
                self.taken.append(
                    Taken(headers["webhook-id"], body["type"], body["data"], body["timestamp"], time.monotonic())
                )
        return status


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver for as long as the block lasts."""
    receiver = Receiver()

    class Endpoint(Handler):
        def do_POST(self) -> None:  # noqa: N802
            content = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status = receiver.receive(self.path, headers, content)
            time.sleep(receiver.delay)
            self.reply(status, b"", {"Location": receiver.location} if receiver.location else None)

        def do_GET(self) -> None:  # noqa: N802
            receiver.seen.append((f"GET {self.path}", {}, b""))
            self.reply(200, b"")

    with served(Endpoint) as port:
        receiver.port = port
        yield receiver
