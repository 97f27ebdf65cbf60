"""Threads for live checks that may hang: few, apart from all others, never waited for at exit.

A pool would do neither: its threads serve everybody, and Python waits for them at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable


class ProbeThreads:
    """At most `limit` calls at once; who comes later waits for one to end. Used from one event loop."""

    def __init__(self, limit: int) -> None:
        self._free = asyncio.Semaphore(limit)

    async def run(self, call: Callable[[], None]) -> None:
        """What `call` raises is raised here. Cancelled, it leaves the call to itself, still counted until it ends."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def settle(error: Exception | None) -> None:
            self._free.release()
            if ended.done():
                return
            if error is None:
                ended.set_result(None)
            else:
                ended.set_exception(error)

        def work() -> None:
            outcome: Exception | None = None
            try:
                call()
            except Exception as error:  # noqa: BLE001  (carried over to the task that waits)
                outcome = error
            with contextlib.suppress(RuntimeError):  # the loop may have ended meanwhile
                loop.call_soon_threadsafe(settle, outcome)

        threading.Thread(target=work, name="probe", daemon=True).start()
        await ended
