"""Requests that wait for a job run to move on: one statement for all of them, four times a second."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import structlog

from retrieval.database.database import AWAY, Database
from retrieval.statuses import RunStatus

log = structlog.get_logger()

LOOK_SECONDS = 0.25
LONGEST_SECONDS = 30
_GONE = "GONE"
_ORDER = (*RunStatus, _GONE)
"""How a run moves on."""


class RunWaits:
    """One per event loop. Whoever waits holds no connection, and those that wait for one run are one entry."""

    def __init__(self, db: Database, ending: threading.Event) -> None:
        self._db = db
        self._ending = ending
        self._wanted: Counter[str] = Counter()
        self._seen: dict[str, str] = {}
        self._looked = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def past(self, job_run_id: str, status: RunStatus, *, seconds: float) -> None:
        """Until the run's status is another, the run is gone, the time is up or the process is about to end."""
        if seconds <= 0:
            return
        self._wanted[job_run_id] += 1
        self._seen.setdefault(job_run_id, status)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        try:
            async with asyncio.timeout(seconds), self._looked:
                await self._looked.wait_for(lambda: self._ending.is_set() or self._is_past(job_run_id, status))
        except TimeoutError:
            return
        finally:
            self._wanted[job_run_id] -= 1
            if not self._wanted[job_run_id]:
                del self._wanted[job_run_id], self._seen[job_run_id]

    def _is_past(self, job_run_id: str, status: RunStatus) -> bool:
        """What was seen last may be older than what the waiting request knows: a status never goes backwards."""
        seen = self._seen.get(job_run_id)
        return seen is None or _ORDER.index(seen) > _ORDER.index(status)

    async def _look(self) -> None:
        while self._wanted:
            await asyncio.sleep(LOOK_SECONDS)
            asked = sorted(self._wanted)
            try:
                rows = await self._db.async_rows(
                    "select id, status from job_runs where id = any(%(ids)s)", {"ids": asked}, plan_once=True
                )
            except AWAY as error:
                log.warning("run_waits.waiting", reason=type(error).__name__)
            else:
                found = {row["id"]: row["status"] for row in rows}
                for job_run_id in self._seen.keys() & asked:  # others have come since, and are looked for next time
                    self._seen[job_run_id] = found.get(job_run_id, _GONE)
            async with self._looked:
                self._looked.notify_all()
