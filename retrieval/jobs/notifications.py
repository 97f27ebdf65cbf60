"""Notifications of dispatchers about waiting job runs, and of workers about flow runs."""

from __future__ import annotations

import asyncio
from typing import LiteralString

import structlog

from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.jobs.runs import JOB_RUNS_CHANNEL

log = structlog.get_logger()

# A notifying transaction holds a server-wide lock during its flush to disk, so notices have a separate transaction, one
# for all requests of a few milliseconds. A lost notice costs seconds.

# Channel for workers.
FLOW_RUNS_CHANNEL: LiteralString = "flow_runs_waiting"
# Application name of a worker's connection, open for the life of the worker.
LISTENER_NAME = "retrieval worker listens"

NOTICE_INTERVAL_SECONDS = 0.01


def notify_listeners(db: Database, channel: LiteralString = JOB_RUNS_CHANNEL) -> None:
    """Wake all listeners. Blocks; a failed notice is lost."""
    try:
        db.execute("notify " + channel)
    except UNAVAILABLE_ERRORS as error:
        log.warning("notice.lost", reason=type(error).__name__)


class Notifications:
    """Sender of notices, one per event loop; `send` returns at once."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._task: asyncio.Task[None] | None = None
        self._is_pending = False

    def send(self) -> None:
        self._is_pending = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while self._is_pending:
            self._is_pending = False
            try:
                await self._db.async_execute("notify " + JOB_RUNS_CHANNEL, {}, plan_once=True)
            except UNAVAILABLE_ERRORS as error:
                log.warning("notification.lost", reason=type(error).__name__)
            await asyncio.sleep(NOTICE_INTERVAL_SECONDS)
