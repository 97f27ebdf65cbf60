"""Deadline of calls to Prefect's API, adapted to response times."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Final, TypeVar

from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

ResultT = TypeVar("ResultT")

# First deadline of a call; longer answers are slow.
MIN_DEADLINE_SECONDS: Final = 5.0
MAX_DEADLINE_SECONDS: Final = 40.0
# So many fast answers in a row halve the deadline.
FAST_ANSWER_COUNT: Final = 10
# An answer within this share of the deadline is fast.
FAST_SHARE: Final = 0.25


class CallDeadline:
    """Deadline of calls: doubled by each timeout, halved by fast answers."""

    def __init__(self) -> None:
        self.seconds = MIN_DEADLINE_SECONDS
        # Seconds of a slow last answer; None after a fast answer or `MAX_DEADLINE_SECONDS` without any.
        self.slow_seconds: float | None = None
        self._fast_answers = 0

    async def wait_for(self, call: Awaitable[ResultT]) -> ResultT:
        """Await a call to Prefect; TimeoutError after the deadline."""
        allowed, began = self.seconds, time.monotonic()
        try:
            async with asyncio.timeout(allowed) as timeout:
                result = await call
        except (ObjectNotFound, PrefectHTTPStatusError):
            self._record_answer(time.monotonic() - began)
            raise
        except TimeoutError:
            if timeout.expired():
                self._record_timeout(allowed)
            raise
        self._record_answer(time.monotonic() - began)
        return result

    def _record_timeout(self, allowed: float) -> None:
        # Concurrent calls that miss the same deadline double it once.
        self.seconds = max(self.seconds, min(2 * allowed, MAX_DEADLINE_SECONDS))
        self._fast_answers = 0
        if allowed >= MAX_DEADLINE_SECONDS:
            self.slow_seconds = None

    def _record_answer(self, seconds: float) -> None:
        self.slow_seconds = seconds if seconds > MIN_DEADLINE_SECONDS else None
        self._fast_answers = self._fast_answers + 1 if seconds < FAST_SHARE * self.seconds else 0
        if self._fast_answers >= FAST_ANSWER_COUNT:
            self.seconds, self._fast_answers = max(MIN_DEADLINE_SECONDS, self.seconds / 2), 0


# Shared by the calls of this process.
deadline: Final = CallDeadline()
