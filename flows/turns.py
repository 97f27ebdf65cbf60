"""When a batch gives its place in the worker to others: after a while, between two documents or pages."""

from __future__ import annotations

import threading
import time
from typing import Final

import structlog

from retrieval.database.database import Database
from retrieval.jobs.circuits import Circuits
from retrieval.jobs.queries import batches, job_queue
from retrieval.jobs.queries.batches import Lease

log = structlog.get_logger()

TURN_SECONDS: Final = 5.0
"""Seconds that a batch keeps its place, whoever waits."""
LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at who waits."""
GRACE_SECONDS: Final = 2.0
"""Seconds in which a waiting batch may find a place that is free anyway."""


class Turn:
    """A batch's turn in the worker. Threads may share it."""

    def __init__(self, db: Database, lease: Lease) -> None:
        self._db, self._lease = db, lease
        self._look_at = time.monotonic() + TURN_SECONDS
        self._over = False
        self._lock = threading.Lock()

    def is_over(self) -> bool:
        """Tell whether another batch should have this slot now; once True, it stays so."""
        with self._lock:
            current = time.monotonic()
            if not self._over and current >= self._look_at:
                self._over = job_queue.others_wait(self._db, self._lease.batch_id, seconds=GRACE_SECONDS)
                self._look_at = current + LOOK_SECONDS
            return self._over

    @property
    def has_ended(self) -> bool:
        """Last result of `is_over`."""
        return self._over

    def goes_on(self) -> bool:
        return not self.is_over()

    def hand_back(self, circuits: Circuits) -> int:
        """Release the remaining work for another turn, and close the batch; returns the number of job runs."""
        count = batches.hand_back(self._db, self._lease, waiting=circuits.waiting, held=circuits.held)
        log.info("batch.handed_back", batch_id=self._lease.batch_id, job_runs=count)
        return count
