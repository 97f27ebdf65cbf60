"""Background loops of a process: one thread with own connections per loop, and heartbeats."""

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
from retrieval.readiness import LoopReport

CallParams = ParamSpec("CallParams")
ResultT = TypeVar("ResultT")
HEARTBEAT_SECONDS = 3.0


class LoopThread:
    """Serial queue of database work on one thread with at most two connections."""

    def __init__(self, name: str, db: Database) -> None:
        self.db = db.sibling(size=2, role="dispatcher")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(
        self,
        function: Callable[Concatenate[Database, CallParams], ResultT],
        *args: CallParams.args,
        **kwargs: CallParams.kwargs,
    ) -> ResultT:
        """Run the function with this database; after a cancelled call the thread stays busy until the function ends."""
        work: partial[Any] = partial(function, self.db, *args, **kwargs)
        result: ResultT = await asyncio.get_running_loop().run_in_executor(self._thread, work)
        return result

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self.db.close()


@dataclass(slots=True)
class _LoopStatus:
    """Last success and last error of a loop, in monotonic seconds."""

    started_at: float = field(default_factory=time.monotonic)
    succeeded_at: float | None = None
    reason: str | None = None


class Heartbeat:
    """Last success of each loop, written to the database every few seconds."""

    def __init__(self, *loops: str) -> None:
        self.dispatcher = f"{platform.node()}:{os.getpid()}"
        self._statuses = {name: _LoopStatus() for name in loops}

    def record_success(self, loop: str) -> None:
        status = self._statuses[loop]
        status.succeeded_at, status.reason = time.monotonic(), None

    def record_failure(self, loop: str, error: Exception) -> None:
        if loop in self._statuses:
            self._statuses[loop].reason = type(error).__name__

    def list_beats(self) -> list[LoopReport]:
        current = time.monotonic()
        return [
            LoopReport(
                name,
                None if status.succeeded_at is None else current - status.succeeded_at,
                current - status.started_at,
                status.reason,
            )
            for name, status in self._statuses.items()
        ]

    def write_beats(self, db: Database) -> None:
        readiness.record_loops(db, self.dispatcher, self.list_beats())

    def deregister(self, db: Database) -> None:
        readiness.deregister_dispatcher(db, self.dispatcher)
