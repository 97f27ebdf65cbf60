"""Heartbeats of the dispatcher's loops, written to the database every few seconds."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass, field

from retrieval import readiness
from retrieval.database.database import Database
from retrieval.readiness import Beat

WRITE_SECONDS = 3.0


@dataclass(slots=True)
class _Last:
    """In seconds of this machine's monotonic clock."""

    began: float = field(default_factory=time.monotonic)
    succeeded: float | None = None
    reason: str | None = None


class Pulse:
    """Last success of each loop of this process."""

    def __init__(self, *loops: str) -> None:
        self.dispatcher = f"{platform.node()}:{os.getpid()}"
        self._last = {name: _Last() for name in loops}

    def succeeded(self, loop: str) -> None:
        last = self._last[loop]
        last.succeeded, last.reason = time.monotonic(), None

    def failed(self, loop: str, error: Exception) -> None:
        if loop in self._last:
            self._last[loop].reason = type(error).__name__

    def beats(self) -> list[Beat]:
        current = time.monotonic()
        return [
            Beat(name, None if last.succeeded is None else current - last.succeeded, current - last.began, last.reason)
            for name, last in self._last.items()
        ]

    def write(self, db: Database) -> None:
        readiness.record(db, self.dispatcher, self.beats())

    def end(self, db: Database) -> None:
        readiness.leave(db, self.dispatcher)
