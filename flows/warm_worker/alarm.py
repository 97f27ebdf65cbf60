"""Wakes a worker: when the database notifies that flow runs wait, and when one of its places has become free."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import structlog

from flows import prefect_client
from retrieval import settings
from retrieval.database import listening
from retrieval.database.database import AWAY
from retrieval.jobs.notifications import FLOW_RUNS, LISTENER

log = structlog.get_logger()

LISTEN_SECONDS: Final = 30.0
"""How long the connection that listens may be silent until it is tried."""
CANCEL_SECONDS: Final = 0.5
"""How often cancellations are looked for while flow runs are at work."""
AGAIN_SECONDS: Final = 1.0
"""After an unknown error."""
FREE_SECONDS: Final = 0.02
"""After the end of a flow run, until its place is free."""


class Alarm:
    """Calls `poll` when it rings, and `look` again and again. Without a database there is Prefect's poll alone.

    What fails here is left to that poll.
    """

    def __init__(self, poll: Callable[[], Awaitable[Any]], look: Callable[[], Awaitable[None]]) -> None:
        self._poll, self._look = poll, look
        self._ringing = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """From the worker's event loop. What fails in an unknown way is logged, and begun again."""
        url = settings.load().database_url
        loops = [self._answer, self._look_around]
        if url is not None:
            loops.append(partial(self._listen, url.get_secret_value()))
        self._tasks = [asyncio.create_task(_for_ever(loop)) for loop in loops]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def ring_soon(self) -> None:
        """A place becomes free in a moment."""
        asyncio.get_running_loop().call_later(FREE_SECONDS, self._ringing.set)

    async def _answer(self) -> None:
        while True:
            await self._ringing.wait()
            self._ringing.clear()
            with suppress(*prefect_client.AWAY):
                await self._poll()

    async def _look_around(self) -> None:
        while True:
            await asyncio.sleep(CANCEL_SECONDS)
            with suppress(*prefect_client.AWAY):
                await self._look()

    async def _listen(self, url: str) -> None:
        while True:
            try:
                async with await listening.connect(url, application_name=LISTENER) as connection:
                    await connection.execute("listen " + FLOW_RUNS)
                    self._ringing.set()
                    while True:
                        async for _ in connection.notifies(timeout=LISTEN_SECONDS):
                            self._ringing.set()
                        await connection.execute("select 1")
            except AWAY as error:
                log.warning("worker.not_listening", reason=type(error).__name__)
                await asyncio.sleep(1)


async def _for_ever(loop: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await loop()
        except Exception:
            log.exception("worker.alarm_failed")
            await asyncio.sleep(AGAIN_SECONDS)
