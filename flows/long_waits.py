"""Waits of a step for vendors and disk space beyond the delays of a task's retries."""

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

# A step is tried five times: Prefect retries a task after 1, 2, 4 and 8 s, in all 15 s. `LongWaits` waits for a longer
# Retry-After, outside of these retries.
MAX_RETRIES: Final = 4
TASK_RETRY_SECONDS: Final = 15.0
# Total wait of a step for a vendor or for disk space.
STEP_WAIT_SECONDS: Final = 600.0
FULL_DISK_WAIT_SECONDS: Final = 10.0
CANCEL_CHECK_SECONDS: Final = 2.0


def permits_task_retry(error: Retryable) -> bool:
    """Check if the vendor's Retry-After, if any, is within the delays of Prefect's task retries."""
    return (error.after or 0) <= TASK_RETRY_SECONDS


class LongWaits:
    """Waits for Retry-After or disk space, at most `STEP_WAIT_SECONDS` per step."""

    def __init__(self, db: Database, lease: Lease) -> None:
        self._db, self._lease = db, lease
        self._remaining_seconds: defaultdict[str, float] = defaultdict(lambda: STEP_WAIT_SECONDS)

    def take_seconds(self, step: str, error: Retryable) -> float | None:
        """Return the seconds of a long wait, taken from the step's time; None if Prefect retries or no time is left."""
        is_disk_full = disk_full.full_disk_reason(error) is not None
        seconds = FULL_DISK_WAIT_SECONDS if is_disk_full else error.after or 0
        if isinstance(error, Unavailable) or permits_task_retry(error) or seconds > self._remaining_seconds[step]:
            return None
        self._remaining_seconds[step] -= seconds
        event = "step.disk_full" if is_disk_full else "step.rate_limited"
        log.info(event, batch_id=self._lease.batch_id, seconds=round(seconds))
        return seconds

    def sleep(self, seconds: float) -> None:
        """Sleep until the time is over or the batch is cancelled."""
        ends = time.monotonic() + seconds
        while (remaining_seconds := ends - time.monotonic()) > 0 and batches.has_unfinished_runs(self._db, self._lease):
            time.sleep(min(remaining_seconds, CANCEL_CHECK_SECONDS))
