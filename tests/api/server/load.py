"""A load of strangers on an API: idle connections, guessed keys and stalled uploads, sent by a process of its own.

python -m tests.api.server.load HOST:PORT    (the key of the uploads is KEY of the environment)
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

GUESSER, UPLOADER = "127.0.5.1", "127.0.5.2"
IDLE = [f"127.0.6.{number}" for number in range(1, 6)]
"""Addresses of the load, so many that none of them reaches its own bound; the good client has the usual one."""


@dataclass
class Load:
    """What strangers, and one careless client, do all at once. `key` is valid: uploads without one end at once."""

    address: tuple[str, int]
    key: str = field(repr=False)
    idle: int = 2000
    wrong: int = 600
    stalled: int = 300

    def run(self, ended: threading.Event, ready: threading.Event) -> None:
        """Until `ended`; `ready` once every connection has been tried for the first time."""
        guessing = threading.Thread(target=self._guess, args=(ended,), daemon=True)
        guessing.start()
        with selectors.DefaultSelector() as selector:
            missing = [(IDLE[number % len(IDLE)], b"") for number in range(self.idle)]
            missing += [(UPLOADER, self._upload())] * self.stalled
            while not ended.is_set():
                for source, first in missing:
                    with contextlib.suppress(OSError):
                        made = socket.create_connection(self.address, 10, source_address=(source, 0))
                        made.sendall(first)
                        selector.register(made, selectors.EVENT_READ, (source, first))
                missing = []
                ready.set()
                for key, _ in selector.select(0.5):
                    if _has_ended(key.fileobj):  # type: ignore[arg-type]
                        selector.unregister(key.fileobj)
                        key.fileobj.close()  # type: ignore[union-attr]
                        missing.append(key.data)
            for key in list(selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]
        guessing.join(5)

    def _guess(self, ended: threading.Event) -> None:
        transport = httpx.HTTPTransport(local_address=GUESSER)
        with httpx.Client(base_url="http://{}:{}".format(*self.address), transport=transport, timeout=30) as client:
            number = 0
            while not ended.wait(60 / self.wrong):
                number += 1
                with contextlib.suppress(httpx.HTTPError):
                    client.get("/v1/namespaces", headers={"Authorization": f"Bearer rtr_wrong{number}"})

    def _upload(self) -> bytes:
        return (
            "POST /v1/ingest/file HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"
            f"Authorization: Bearer {self.key}\r\nContent-Length: 1000000\r\n\r\n"
            '--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nsome of it'
        ).encode()


def _has_ended(made: socket.socket) -> bool:
    try:
        return not made.recv(65536)
    except OSError:
        return True


@contextmanager
def under(load: Load) -> Iterator[subprocess.Popen[str]]:
    """Run the load in a process of its own while the block runs."""
    address = f"{load.address[0]}:{load.address[1]}"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.api.server.load", address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "KEY": load.key},
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.stdin.close()
            process.wait(30)


def be_the_load(load: Load) -> None:
    """Until standard input ends."""
    wanted = load.idle + load.stalled + 64
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(wanted, hard)), hard))
    ended, ready = threading.Event(), threading.Event()
    running = threading.Thread(target=load.run, args=(ended, ready))
    running.start()
    ready.wait()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    ended.set()
    running.join(30)


if __name__ == "__main__":
    host, _, port = sys.argv[1].rpartition(":")
    be_the_load(Load((host, int(port)), os.environ["KEY"]))
