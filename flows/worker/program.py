"""The worker of one machine: Prefect's worker loops for the pool, woken by NOTIFY, and a slot for short flow runs.

    python -m flows.worker --pool retrieval --name machine-1 --limit 2

It takes work when the dispatcher notifies it through the database and when a slot becomes free; Prefect's poll is
there for lost notices. More workers on the same pool, here or elsewhere, share the load. On SIGTERM running flow runs
may end within the grace period, then they are ended and hand back what they work on.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import structlog
from prefect.exceptions import PrefectHTTPStatusError

from connectors import registry
from flows import prefect_errors
from flows.deployments import SHORT_WORKER
from flows.worker.run_process import FORKS
from flows.worker.warm_worker import WarmWorker
from retrieval import logs, settings
from retrieval.database.database import UNAVAILABLE_ERRORS
from retrieval.database.listening import listen_for_notices
from retrieval.jobs.fair_queue import SHORT
from retrieval.jobs.notifications import FLOW_RUNS, LISTENER

log = structlog.get_logger()

SUBMIT_LOOKS: Final = 100
"""Of 0.05 s, for which a worker that stops lets a flow run begin that it has taken: Pending, it would wait for the
dispatcher to miss it."""
SHORT_PLACES: Final = 1
"""Beside the limit, for short flow runs alone: whatever fills the other slots, these go on."""
CANCEL_SECONDS: Final = 0.5
"""How often cancellations are looked for while flow runs are at work."""
AGAIN_SECONDS: Final = 1.0
"""After an error of a loop."""
FREE_SECONDS: Final = 0.02
"""After the end of a flow run, until its slot is free."""


class Alarm:
    """Calls `poll` when it rings, and `look` again and again. Without a database there is Prefect's poll alone.

    What fails here is left to that poll.
    """

    def __init__(self, poll: Callable[[], Awaitable[Any]], look: Callable[[], Awaitable[None]]) -> None:
        self._poll, self._look = poll, look
        self._ringing = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the loops in the worker's event loop. One that fails is begun again."""
        url, ring = settings.load_settings().database_url, self._ringing.set
        loops = [self._answer, self._look_around]
        if url is not None:
            loops.append(partial(listen_for_notices, url.get_secret_value(), FLOW_RUNS, ring, name=LISTENER))
        self._tasks = [asyncio.create_task(_repeat(loop)) for loop in loops]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def ring_soon(self) -> None:
        """Ring when a slot has become free, in a moment."""
        asyncio.get_running_loop().call_later(FREE_SECONDS, self._ringing.set)

    async def _answer(self) -> None:
        while True:
            await self._ringing.wait()
            self._ringing.clear()
            with suppress(*prefect_errors.AWAY):
                await self._poll()

    async def _look_around(self) -> None:
        while True:
            await asyncio.sleep(CANCEL_SECONDS)
            with suppress(*prefect_errors.AWAY):
                await self._look()


async def _repeat(loop: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await loop()
        except UNAVAILABLE_ERRORS as error:
            log.warning("worker.not_listening", reason=type(error).__name__)
        except Exception:
            log.exception("worker.alarm_failed")
        await asyncio.sleep(AGAIN_SECONDS)


async def run_worker(pool: str, name: str, limit: int) -> None:
    """Work until SIGTERM or SIGINT."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with registry.embedding_process(FORKS) as embedder:
        workers: list[WarmWorker] = []

        async def poll() -> None:
            await asyncio.gather(*(worker.get_and_submit_flow_runs() for worker in workers if worker.is_setup))

        async def look() -> None:
            embedder.keep_alive()
            await asyncio.gather(*(worker.end_stopped() for worker in workers if worker.is_setup))

        alarm = Alarm(poll, look)
        make_worker = partial(WarmWorker, pool, embedder=embedder.address, freed=alarm.ring_soon)
        workers.append(make_worker(name=name, limit=limit))
        workers.append(make_worker(name=name + SHORT_WORKER, limit=SHORT_PLACES, work_queues=[SHORT]))
        alarm.start()
        try:
            await _run_workers(workers, stop, alarm)
        finally:
            await alarm.stop()


async def _run_workers(workers: Sequence[WarmWorker], stop: asyncio.Event, alarm: Alarm) -> None:
    """Run the workers until `stop`, or until one of them fails. What is being submitted then still begins."""
    tasks = [asyncio.create_task(worker.start(), name=worker.name) for worker in workers]
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
        await alarm.stop()
        for _ in range(SUBMIT_LOOKS):
            if not any(worker.is_submitting for worker in workers):
                break
            await asyncio.sleep(0.05)
    finally:
        for task in (stopped, *tasks):
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    if errors := [error for error in ended if isinstance(error, Exception)]:
        raise errors[0]


def main(arguments: Sequence[str] | None = None) -> None:
    logs.lose_what_does_not_fit()
    parser = argparse.ArgumentParser(description="A worker of the Retrieval Service.")
    parser.add_argument("--pool", required=True)
    parser.add_argument("--name", required=True, help="the worker's name in Prefect")
    parser.add_argument("--limit", type=int, default=os.cpu_count() or 1, help="flow runs at the same time")
    options = parser.parse_args(arguments)
    registry.require_ocr_languages(settings.load_settings().ocr_languages)
    try:
        asyncio.run(run_worker(options.pool, options.name, options.limit))
    except PrefectHTTPStatusError as error:
        if hint := prefect_errors.login_hint(error):
            sys.exit(hint)
        raise
    except KeyboardInterrupt:
        with suppress(ValueError):
            sys.exit(0)
