"""An operator's Prefect server with a login: kill, restart, loss of its database."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import httpx

from local import postgres
from local.processes import Process
from tests.e2e.conftest import COMMAND

# Time for a start.
SECONDS = 120.0
LOGIN = "retrieval:a-login-of-the-operators-own"


class _Group(Process):
    """Leader of a process group."""

    __slots__ = ()

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)


class OwnPrefect:
    """`retrieval prefect` in its own home, with a database in its own PostgreSQL."""

    def __init__(self, home: Path) -> None:
        self._home = home
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start and wait for an answer."""
        postgres.start(self._home)
        server_environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("RETRIEVAL_", "PREFECT_"))
        }
        server_environment |= {"RETRIEVAL_HOME": str(self._home), "RETRIEVAL_PREFECT_PORT": str(self.port)}
        server_environment["RETRIEVAL_PREFECT_DATABASE_URL"] = postgres.prefect_url(self._home)
        server_environment |= {"RETRIEVAL_PREFECT_LOGIN": LOGIN, "DO_NOT_TRACK": "1"}
        with self._home.with_suffix(".log").open("ab") as log:
            self._process = subprocess.Popen(
                [COMMAND, "prefect"], env=server_environment, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + SECONDS
        while not self._answers():
            assert time.monotonic() < deadline, self._home.with_suffix(".log").read_text()[-2000:]
            time.sleep(0.3)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/api/health", timeout=5).is_success
        except httpx.HTTPError:
            return False

    @property
    def process(self) -> Process | None:
        """The live server; signals go to its whole group."""
        server = Process.from_pid(self._process.pid) if self._process and self._process.poll() is None else None
        return server and _Group(server.pid, server.started)

    def kill(self) -> None:
        """Kill the server's process group."""
        if process := self.process:
            process.send_signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(30)

    def forget(self) -> None:
        """Delete the database of the stopped server."""
        postgres.stop(self._home)
        shutil.rmtree(self._home, ignore_errors=True)
