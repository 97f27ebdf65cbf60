"""Adaptive deadline of calls to Prefect's API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Final, TypeVar

from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

ResultT = TypeVar("ResultT")

# Initial deadline. An answer after more seconds is reported as slow.
MIN_DEADLINE_SECONDS: Final = 5.0
MAX_DEADLINE_SECONDS: Final = 40.0
# Number of consecutive fast answers that halves the deadline.
FAST_ANSWER_COUNT: Final = 10
# An answer is fast within this share of the deadline.
FAST_SHARE: Final = 0.25


class CallDeadline:
    """Deadline, doubled by a timeout and halved by `FAST_ANSWER_COUNT` fast answers."""

    def __init__(self) -> None:
        self.seconds = MIN_DEADLINE_SECONDS
        # Duration of the last answer if it was slow. None if it was not, or if a call of `MAX_DEADLINE_SECONDS` timed
        # out: Prefect then counts as unreachable.
        self.slow_seconds: float | None = None
        self._fast_answers = 0

    async def wait_for(self, call: Awaitable[ResultT]) -> ResultT:
        """Await a call to Prefect; TimeoutError after the deadline."""
        deadline_seconds, started_at = self.seconds, time.monotonic()
        try:
            async with asyncio.timeout(deadline_seconds) as timeout:
                result = await call
        except (ObjectNotFound, PrefectHTTPStatusError):
            # An error status is an answer too.
            self._record_answer(time.monotonic() - started_at)
            raise
        except TimeoutError:
            # Otherwise the timeout of a caller expired.
            if timeout.expired():
                self._record_timeout(deadline_seconds)
            raise
        self._record_answer(time.monotonic() - started_at)
        return result

    def _record_timeout(self, missed_seconds: float) -> None:
        # Concurrent calls that miss the same deadline double it once.
        self.seconds = max(self.seconds, min(2 * missed_seconds, MAX_DEADLINE_SECONDS))
        self._fast_answers = 0
        if missed_seconds >= MAX_DEADLINE_SECONDS:
            self.slow_seconds = None

    def _record_answer(self, seconds: float) -> None:
        self.slow_seconds = seconds if seconds > MIN_DEADLINE_SECONDS else None
        self._fast_answers = self._fast_answers + 1 if seconds < FAST_SHARE * self.seconds else 0
        if self._fast_answers >= FAST_ANSWER_COUNT:
            self.seconds = max(MIN_DEADLINE_SECONDS, self.seconds / 2)
            self._fast_answers = 0


# One deadline for all calls of this process.
deadline: Final = CallDeadline()
