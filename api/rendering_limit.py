"""Limits how many PDF pages are rendered at once and how many requests wait; beyond that: 503 with Retry-After."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from retrieval.errors import ErrorCode, ServiceError

AT_ONCE = 2
"""Drawn at once by one process, each for another organization."""
WAITING = 8
"""Under way and waiting, in one process."""
OF_ONE = 4
"""Of one organization, among these."""


class RenderingLimit:
    """Threads of their own, for a drawing reads a whole file and waits for a child. Used from one event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="drawing")
        self._held: Counter[str] = Counter()
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def run(self, organization: str, draw: Callable[[], bytes]) -> bytes:
        """What `draw` answers or raises. SERVICE_UNAVAILABLE with Retry-After where too many are waiting."""
        if self._held.total() >= WAITING or self._held[organization] >= OF_ONE:
            raise ServiceError(
                ErrorCode.SERVICE_UNAVAILABLE,
                "Too many pages are being drawn just now. Try again in a moment.",
                headers={"Retry-After": "2"},
            )
        self._held[organization] += 1
        drawing = asyncio.ensure_future(self._in_turn(organization, draw))
        drawing.add_done_callback(lambda _: self._release(organization))
        return await asyncio.shield(drawing)  # who hangs up leaves a drawing that is counted until it ends

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _in_turn(self, organization: str, draw: Callable[[], bytes]) -> bytes:
        async with self._turns[organization]:
            return await asyncio.get_running_loop().run_in_executor(self._threads, draw)

    def _release(self, organization: str) -> None:
        self._held[organization] -= 1
        if not self._held[organization]:
            del self._held[organization]
            del self._turns[organization]
