"""Deadline of calls to Prefect's API, which follows the speed of its answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Final, TypeVar

from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

T = TypeVar("T")

SHORTEST_SECONDS: Final = 5.0
"""First deadline of a call, and the time from which an answer is slow."""
LONGEST_SECONDS: Final = 40.0
FAST_ANSWERS: Final = 10
"""Number of fast answers in a row after which the deadline is halved."""
FAST_SHARE: Final = 0.25
"""Share of the deadline within which an answer is fast."""


class CallDeadline:
    """Deadline of a call: doubled by each timeout, halved by fast answers, remembered between calls."""

    def __init__(self) -> None:
        self.seconds = SHORTEST_SECONDS
        self.slow_seconds: float | None = None
        """Seconds of the last answer if it was slow; None after a fast one, and after silence of `LONGEST_SECONDS`."""
        self._fast_answers = 0

    async def wait_for(self, call: Awaitable[T]) -> T:
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
        self.seconds = max(self.seconds, min(2 * allowed, LONGEST_SECONDS))
        self._fast_answers = 0
        if allowed >= LONGEST_SECONDS:
            self.slow_seconds = None

    def _record_answer(self, seconds: float) -> None:
        self.slow_seconds = seconds if seconds > SHORTEST_SECONDS else None
        self._fast_answers = self._fast_answers + 1 if seconds < FAST_SHARE * self.seconds else 0
        if self._fast_answers >= FAST_ANSWERS:
            self.seconds, self._fast_answers = max(SHORTEST_SECONDS, self.seconds / 2), 0


deadline: Final = CallDeadline()
"""Deadline of the calls of this process."""
