"""Waits of steps for vendors and disk space that are longer than the delays between a task's retries."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Final

import structlog

from retrieval.database import disk_full
from retrieval.database.database import Database
from retrieval.errors import Retryable, Unavailable
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease

log = structlog.get_logger()

RETRIES: Final = 4
"""Number of retries of a task."""
RETRY_SECONDS: Final = 60.0
"""Total delay of a task's retries."""
MAX_WAIT_SECONDS: Final = 600.0
"""Total time that a step waits for a vendor or for disk space."""
FULL_DISK_SECONDS: Final = 10.0
"""Time between two attempts on a full disk."""
CANCEL_CHECK_SECONDS: Final = 2.0
"""Time between two checks for cancellation while a step waits."""


def is_soon(error: Retryable) -> bool:
    """Check whether the error permits a retry within `RETRY_SECONDS`."""
    return (error.after or 0) <= RETRY_SECONDS


class LongWaits:
    """Waits for a vendor's Retry-After or for disk space, at most `MAX_WAIT_SECONDS` in total for each step."""

    def __init__(self, db: Database, lease: Lease) -> None:
        self._db, self._lease = db, lease
        self._seconds_left: defaultdict[str, float] = defaultdict(lambda: MAX_WAIT_SECONDS)

    def take_seconds(self, step: str, error: Retryable) -> float | None:
        """Return the seconds to wait before the step is repeated; None if it must give up."""
        is_full = disk_full.full_disk_reason(error) is not None
        seconds = FULL_DISK_SECONDS if is_full else error.after or 0
        if isinstance(error, Unavailable) or is_soon(error) or seconds > self._seconds_left[step]:
            return None
        self._seconds_left[step] -= seconds
        event = "step.disk_full" if is_full else "step.rate_limited"
        log.info(event, batch_id=self._lease.batch_id, seconds=round(seconds))
        return seconds

    def sleep(self, seconds: float) -> None:
        """Sleep until the time is over or the batch is cancelled."""
        ends = time.monotonic() + seconds
        while (seconds_left := ends - time.monotonic()) > 0 and batches.is_wanted(self._db, self._lease):
            time.sleep(min(seconds_left, CANCEL_CHECK_SECONDS))
