"""Lines of `up` for a person: each step of a start once it is done, what is waited for, and the end."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, TextIO

from local.instance import RoleRecord
from retrieval_client.cli.output import ProgressLine

STOPPING: Final = "Stopping. Nothing that was accepted is lost: unfinished job runs continue after the next start."
_NAMES = {
    "postgres": "PostgreSQL",
    "prefect": "Prefect",
    "migrate": "Database schema",
    "register": "Deployments in Prefect",
    "worker": "Worker",
    "dispatcher": "Dispatcher",
    "api": "API",
    "ui": "Admin app",
    "metrics": "Metrics",
}


class Console:
    """Lines on a stream with a line of progress; they are lost if the output is closed or on a full disk."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stdout
        self._clock = clock
        self._begin = clock()
        self._progress = ProgressLine(self._stream, clock)
        self._reported: set[str] = set()

    def say(self, line: str) -> None:
        """Print a line."""
        with contextlib.suppress(OSError):
            self._progress.clear()
            print(line, file=self._stream, flush=True)

    def report_start(self, roles: Sequence[RoleRecord]) -> None:
        """Print each role once when it is ready, with the seconds of its start; show those that are waited for."""
        for role in roles:
            if role.state in ("up", "done") and role.name not in self._reported:
                self._reported.add(role.name)
                seconds = time.time() - (role.since or time.time())
                self.say(f"  {_describe(role.name)} … {seconds:.1f} s")
        waiting = [_describe(role.name) for role in roles if role.state in ("starting", "restarting", "stalled")]
        self._wait_for(f"Waiting for {', '.join(waiting) or 'the first role'}")

    def report_stop(self, name: str) -> None:
        """Show the role whose end is waited for."""
        self._wait_for(f"Waiting for {_describe(name)} to end; Ctrl-C ends it at once")

    def clear(self) -> None:
        """Remove the line of progress from a terminal."""
        with contextlib.suppress(OSError):
            self._progress.clear()

    def restart_clock(self) -> None:
        """Count the seconds of waiting from now on."""
        self._begin = self._clock()

    def seconds(self) -> float:
        """Seconds since the last `restart_clock`."""
        return self._clock() - self._begin

    def _wait_for(self, what: str) -> None:
        with contextlib.suppress(OSError):
            self._progress.show(f"  {what} … {self.seconds():.0f} s")


def _describe(name: str) -> str:
    return _NAMES.get(name, name)
