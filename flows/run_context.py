"""State of a flow run: its time slice, and the job runs that join its batch."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Final, Self

import psycopg
import structlog
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.logging import get_run_logger

from flows import request_context
from flows.prefect_errors import SILENT
from retrieval import settings
from retrieval.database.database import Database
from retrieval.jobs import levers
from retrieval.jobs.breaker_watch import Circuits
from retrieval.jobs.queries import batch_append, batches, job_queue
from retrieval.jobs.queries.batches import Lease

log = structlog.get_logger()

TURN_SECONDS: Final = 5.0
"""Seconds that a batch keeps its slot, whoever waits."""
LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at who waits."""
GRACE_SECONDS: Final = 2.0
"""Seconds in which a waiting batch may find a slot that is free anyway."""


class TimeSlice:
    """A batch's time in its slot. Threads may share it."""

    def __init__(self, db: Database, lease: Lease) -> None:
        self._db, self._lease = db, lease
        self._look_at = time.monotonic() + TURN_SECONDS
        self._lock = threading.Lock()
        self.has_ended = False
        """Last result of `is_over`."""

    def is_over(self) -> bool:
        """Tell whether another batch should have this slot now; once True, it stays so."""
        with self._lock:
            current = time.monotonic()
            if not self.has_ended and current >= self._look_at:
                self.has_ended = job_queue.others_wait(self._db, self._lease.batch_id, seconds=GRACE_SECONDS)
                self._look_at = current + LOOK_SECONDS
            return self.has_ended

    def goes_on(self) -> bool:
        return not self.is_over()

    def hand_back(self, circuits: Circuits) -> int:
        """Release the remaining work for another flow run, and close the batch; returns the number of job runs."""
        count = batches.hand_back(self._db, self._lease, waiting=circuits.waiting, held=circuits.held)
        log.info("batch.handed_back", batch_id=self._lease.batch_id, job_runs=count)
        return count


PACE_SECONDS: Final = 0.5
"""Between two looks while something joins: each pass over a few texts costs as much as one over many."""


class Intake:
    """Job runs that join the batch while it is at work. Leaving it names the flow run after all that it has done."""

    def __init__(self, db: Database, lease: Lease) -> None:
        self._db, self._lease = db, lease
        self._looked = 0.0
        self._found = 0
        self._named: asyncio.Task[None] | None = None
        self.joined = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._named is None:
            return
        if kind is not None:
            self._named.cancel()
            return
        await self._named
        await self._name()

    async def take_next(self) -> bool:
        """Take up synchronizations that waited for those of this batch; tell whether there are any.

        Those of a connection follow each other. With a flow run for each, what piled up during an outage takes minutes.
        """
        if not self._lease.follows or self._lease.source in await asyncio.to_thread(levers.held_sources, self._db):
            return False
        return bool(await self._append())

    async def look(self) -> None:
        """Take up what waits; at once, but while something has just joined, in turns."""
        if not self._lease.grows:
            return
        if self._found:
            await asyncio.sleep(self._looked + PACE_SECONDS - time.monotonic())
        self._looked = time.monotonic()
        self._found = await self._append()

    async def _append(self) -> int:
        """Add what waits to the batch; how many job runs."""
        size = settings.load_settings().batch_limit
        joined = await asyncio.to_thread(batch_append.append_waiting, self._db, self._lease, size=size)
        request_context.follow_joined(joined, self._lease)
        self.joined += len(joined)
        if joined and self._named is None:
            self._named = asyncio.create_task(self._name())
        return len(joined)

    async def _name(self) -> None:
        """People find in Prefect what it is about; a cancellation there is one of all of them."""
        context = FlowRunContext.get()
        if context is None or context.flow_run is None:
            return
        try:
            name = await asyncio.to_thread(batch_append.describe_batch, self._db, self._lease)
            async with get_client() as client:
                await client.update_flow_run(context.flow_run.id, name=name)
        except (psycopg.Error, *SILENT) as error:  # the work itself is done; nothing of it depends on a name
            get_run_logger().warning("Its name was not changed: %s", type(error).__name__)
