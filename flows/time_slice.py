"""Time slicing: after 5 s a batch yields its slot, between two documents or pages, if another batch waits."""

from __future__ import annotations

import threading
import time
from typing import Final

import structlog

from retrieval.database.database import Database
from retrieval.jobs.breaker_watch import Circuits
from retrieval.jobs.queries import batches, job_queue
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
