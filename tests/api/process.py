"""`python -m api` in a process, on a free port, without settings of the environment."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrieval.security.secrets import KeyRing

PROJECT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(home: Path, **values: str) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("RETRIEVAL_")}
    return mine | {"RETRIEVAL_HOME": str(home), "RETRIEVAL_LOG_FORMAT": "json", "RETRIEVAL_CHECK_CONFIGS": "0"} | values


@contextmanager
def running(
    home: Path, database: str, ring: KeyRing, port: int | None = None, **values: str
) -> Iterator[tuple[str, subprocess.Popen[bytes], Path]]:
    """Yield address, process and log once ready; kill at the end."""
    port = port or free_port()
    key = ",".join(f"{name}:{base64.b64encode(value).decode()}" for name, value in ring.keys.items())
    log = home / f"api-{port}.log"
    mine = environment(
        home, RETRIEVAL_DATABASE_URL=database, RETRIEVAL_SECRET_KEY=key, RETRIEVAL_API_PORT=str(port), **values
    )
    with log.open("wb") as output:
        started = subprocess.Popen([sys.executable, "-m", "api"], cwd=PROJECT, env=mine, stdout=output, stderr=output)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(address, started, log)
        yield address, started, log
    finally:
        started.kill() if started.poll() is None else None
        started.wait(10)


def _wait(address: str, started: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            if httpx.get(f"{address}/ready?for=requests", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
        assert started.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
