"""Long waits of a step: a vendor's Retry-After beyond the limit of one request, or a full disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog

from retrieval.database import disk_full
from retrieval.database.database import Database
from retrieval.errors import Retryable, Unavailable
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease

log = structlog.get_logger()

SOON: Final = 60.0
"""Seconds that a step's own tries come to: requests wait so long by themselves."""
LONGEST: Final = 600.0
"""Seconds for which a step holds its place in the worker, doing nothing."""
FULL: Final = 10.0
"""Seconds after which a step that met a full disk looks whether there is room: nobody is asked by that."""
LOOK: Final = 2.0
"""Seconds after which a cancellation is noticed."""


def is_soon(error: Retryable) -> bool:
    """Tell whether the step may be tried again at once: before the named time it would be refused again."""
    return (error.after or 0) <= SOON


async def wait_and_repeat(db: Database, lease: Lease, step: Callable[[], None]) -> None:
    """Run the step, and again after each wait that a vendor or a full disk requires. Retryable beyond `LONGEST` in
    total."""
    seconds_left = LONGEST
    while True:
        try:
            return await asyncio.to_thread(step)
        except Unavailable:
            raise
        except Retryable as error:
            is_full = disk_full.full_disk_reason(error) is not None
            wait = FULL if is_full else error.after or 0
            if is_soon(error) or wait > seconds_left:
                raise
        seconds_left -= wait
        event = "step.disk_full" if is_full else "step.rate_limited"
        log.info(event, batch_id=lease.batch_id, seconds=round(wait))
        await asyncio.to_thread(_pass, db, lease, wait)


def _pass(db: Database, lease: Lease, seconds: float) -> None:
    """Wait until the time is over, or the result is not needed."""
    ends = time.monotonic() + seconds
    while (seconds_left := ends - time.monotonic()) > 0 and batches.is_wanted(db, lease):
        time.sleep(min(seconds_left, LOOK))
