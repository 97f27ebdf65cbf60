"""Background loops of one process: a thread and connections for each, their heartbeats, and notices of PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from retrieval import readiness
from retrieval.database.database import Database
from retrieval.readiness import Beat

P = ParamSpec("P")
T = TypeVar("T")
WRITE_SECONDS = 3.0
"""Between two writes of the heartbeats."""


class LoopThread:
    """Serial queue of work with at most two connections. Callers of a busy thread wait, those of others do not."""

    def __init__(self, name: str, db: Database) -> None:
        self.db = db.sibling(size=2, role="dispatcher")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, function: Callable[Concatenate[Database, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function on this database. If the caller gives up meanwhile, the thread stays busy until it ends."""
        work: partial[Any] = partial(function, self.db, *args, **kwargs)
        result: T = await asyncio.get_running_loop().run_in_executor(self._thread, work)
        return result

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self.db.close()


@dataclass(slots=True)
class _Last:
    """In seconds of this machine's monotonic clock."""

    began: float = field(default_factory=time.monotonic)
    succeeded: float | None = None
    reason: str | None = None


class Heartbeat:
    """Last success of each loop of this process, written to the database every few seconds."""

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
        readiness.record_loops(db, self.dispatcher, self.beats())

    def end(self, db: Database) -> None:
        readiness.deregister_dispatcher(db, self.dispatcher)
