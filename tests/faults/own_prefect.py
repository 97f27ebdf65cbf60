"""A Prefect server of the operator's, with a login, which dies, forgets all and comes back when it is told to."""

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

SECONDS = 120.0
"""In which it answers after a start."""
LOGIN = "retrieval:a-login-of-the-operators-own"


class _Group(Process):
    """A process that leads a group."""

    __slots__ = ()

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)


class OwnPrefect:
    """`retrieval prefect` in a home of its own, as on another machine; its database is in a PostgreSQL there."""

    def __init__(self, home: Path) -> None:
        self._home = home
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        postgres.start(self._home)
        own = {name: value for name, value in os.environ.items() if not name.startswith(("RETRIEVAL_", "PREFECT_"))}
        own |= {"RETRIEVAL_HOME": str(self._home), "RETRIEVAL_PREFECT_PORT": str(self.port)}
        own["RETRIEVAL_PREFECT_DATABASE_URL"] = postgres.prefect_url(self._home)
        own |= {"RETRIEVAL_PREFECT_LOGIN": LOGIN, "DO_NOT_TRACK": "1"}
        with self._home.with_suffix(".log").open("ab") as log:
            self._process = subprocess.Popen(
                [COMMAND, "prefect"], env=own, stdout=log, stderr=log, start_new_session=True
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
        """The server, if it lives; signals go to all that it has started, too."""
        found = Process.from_pid(self._process.pid) if self._process and self._process.poll() is None else None
        return found and _Group(found.pid, found.started)

    def kill(self) -> None:
        """It, and whatever it has started."""
        if found := self.process:
            found.send_signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(30)

    def forget(self) -> None:
        """Delete its database, as on a machine that was lost; it has to be dead."""
        postgres.stop(self._home)
        shutil.rmtree(self._home, ignore_errors=True)
