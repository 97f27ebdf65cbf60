"""Output of `up`: each finished step, current waits, the end."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, TextIO

from local.instance import RoleRecord
from retrieval_client.cli.output import ProgressLine

STOPPING_MESSAGE: Final = (
    "Stopping. Nothing that was accepted is lost: unfinished job runs continue after the next start."
)
_ROLE_TITLES = {
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
    """Lines on a stream with a progress line; dropped if the stream is closed or its disk is full."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stdout
        self._clock = clock
        self._begin = clock()
        self._progress = ProgressLine(self._stream, clock)
        self._reported: set[str] = set()

    def print_line(self, line: str) -> None:
        with contextlib.suppress(OSError):
            self._progress.clear()
            print(line, file=self._stream, flush=True)

    def report_start(self, roles: Sequence[RoleRecord]) -> None:
        """Print each role once when ready, with its seconds; show the roles still starting."""
        for role in roles:
            if role.state in ("up", "done") and role.name not in self._reported:
                self._reported.add(role.name)
                seconds = time.time() - (role.since or time.time())
                self.print_line(f"  {_describe(role.name)} … {seconds:.1f} s")
        waiting = [_describe(role.name) for role in roles if role.state in ("starting", "restarting", "stalled")]
        self._show_progress(f"Waiting for {', '.join(waiting) or 'the first role'}")

    def report_stop(self, name: str) -> None:
        """Show the role that is ending."""
        self._show_progress(f"Waiting for {_describe(name)} to end; press Ctrl-C to end it now")

    def clear(self) -> None:
        """Remove the progress line."""
        with contextlib.suppress(OSError):
            self._progress.clear()

    def restart_clock(self) -> None:
        self._begin = self._clock()

    def elapsed_seconds(self) -> float:
        """Return the seconds since the last `restart_clock`."""
        return self._clock() - self._begin

    def _show_progress(self, message: str) -> None:
        with contextlib.suppress(OSError):
            self._progress.show(f"  {message} … {self.elapsed_seconds():.0f} s")


def _describe(name: str) -> str:
    return _ROLE_TITLES.get(name, name)
