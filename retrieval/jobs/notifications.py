"""Notifies dispatchers of waiting job runs, and workers of flow runs.

A transaction that notifies holds a lock of the whole server during its flush to disk, so notices have a transaction of
their own, one for all requests accepted within a few milliseconds. A lost notice costs some seconds.
"""

from __future__ import annotations

import asyncio
from typing import LiteralString

import structlog

from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.jobs.runs import CHANNEL

log = structlog.get_logger()

FLOW_RUNS: LiteralString = "flow_runs_waiting"
"""NOTIFY channel on which dispatchers tell workers that flow runs wait. A lost notice costs a poll's seconds."""
LISTENER = "retrieval worker listens"
"""The name of the connection on which a worker listens; it is there for as long as the worker lives."""

PAUSE = 0.01
"""Seconds in which further job runs share a notice."""


def notify_listeners(db: Database, channel: LiteralString = CHANNEL) -> None:
    """Wake all listeners. Blocks; a notice that cannot be sent is lost."""
    try:
        db.execute("notify " + channel)
    except UNAVAILABLE_ERRORS as error:
        log.warning("notice.lost", reason=type(error).__name__)


class Notifications:
    """One per event loop. `send` returns at once."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._task: asyncio.Task[None] | None = None
        self._again = False

    def send(self) -> None:
        self._again = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while self._again:
            self._again = False
            try:
                await self._db.async_execute("notify " + CHANNEL, {}, plan_once=True)
            except UNAVAILABLE_ERRORS as error:
                log.warning("notification.lost", reason=type(error).__name__)
            await asyncio.sleep(PAUSE)
