"""Limits how much of what is slow (drawing pages, reading files) goes on at once; beyond that: 503 with Retry-After."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from retrieval.errors import ErrorCode, ServiceError

T = TypeVar("T")

AT_ONCE = 2
"""Done at once by one process, each for another organization."""
WAITING = 8
"""Under way and waiting, in one process."""
OF_ONE = 4
"""Of one organization, among these."""


class RenderingLimit:
    """Threads of their own, for a drawing reads a whole file and waits for a child. Used from one event loop.

    what: what is done here, for the refusal and the threads.
    """

    def __init__(self, what: str = "pages are being drawn") -> None:
        self._what = what
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=what.rpartition(" ")[2])
        self._held: Counter[str] = Counter()
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def run(self, organization: str, draw: Callable[[], T]) -> T:
        """What `draw` answers or raises. SERVICE_UNAVAILABLE with Retry-After where too many are waiting."""
        if self._held.total() >= WAITING or self._held[organization] >= OF_ONE:
            raise ServiceError(
                ErrorCode.SERVICE_UNAVAILABLE,
                f"Too many {self._what} just now. Try again in a moment.",
                headers={"Retry-After": "2"},
            )
        self._held[organization] += 1
        drawing = asyncio.ensure_future(self._in_turn(organization, draw))
        drawing.add_done_callback(lambda _: self._release(organization))
        return await asyncio.shield(drawing)  # who hangs up leaves a drawing that is counted until it ends

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _in_turn(self, organization: str, draw: Callable[[], T]) -> T:
        async with self._turns[organization]:
            return await asyncio.get_running_loop().run_in_executor(self._threads, draw)

    def _release(self, organization: str) -> None:
        self._held[organization] -= 1
        if not self._held[organization]:
            del self._held[organization]
            del self._turns[organization]
