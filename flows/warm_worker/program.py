"""The worker of one machine: Prefect's worker loops for the pool, woken by NOTIFY, and a place for short flow runs.

    python -m flows.warm_worker --pool retrieval --name machine-1 --limit 2

It takes work when the dispatcher notifies it through the database and when a place becomes free; Prefect's poll is
there for lost notices. More workers on the same pool, here or elsewhere, share the load. On SIGTERM running flow runs
may end within the grace period, then they are ended and hand back what they work on.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from prefect.exceptions import PrefectHTTPStatusError

from connectors import registry
from flows import prefect_login
from flows.prefect_client import SHORT_WORKER
from flows.warm_worker.alarm import Alarm
from flows.warm_worker.run_process import FORKS
from flows.warm_worker.worker import WarmWorker
from retrieval import logs
from retrieval.jobs.fair_queue import SHORT

if TYPE_CHECKING:
    from collections.abc import Sequence

SUBMIT_LOOKS: Final = 100
"""Of 0.05 s, for which a worker that stops lets a flow run begin that it has taken: Pending, it would wait for the
dispatcher to miss it."""
SHORT_PLACES: Final = 1
"""Beside the limit, for short flow runs alone: whatever fills the other places, these go on."""


async def work(pool: str, name: str, limit: int) -> None:
    """Until SIGTERM or SIGINT."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with registry.embedding_process(FORKS) as embedder:
        workers: list[WarmWorker] = []

        async def poll() -> None:
            await asyncio.gather(*(worker.get_and_submit_flow_runs() for worker in workers if worker.is_setup))

        async def look() -> None:
            embedder.keep_alive()
            await asyncio.gather(*(worker.end_cancelled() for worker in workers if worker.is_setup))

        alarm = Alarm(poll, look)
        everything = WarmWorker(pool, name=name, limit=limit, embedder=embedder.address, freed=alarm.ring_soon)
        short = WarmWorker(
            pool,
            name=name + SHORT_WORKER,
            limit=SHORT_PLACES,
            work_queues=[SHORT],
            embedder=embedder.address,
            freed=alarm.ring_soon,
        )
        workers += [everything, short]
        alarm.start()
        try:
            await _start(workers, stop, alarm)
        finally:
            await alarm.stop()


async def _start(workers: Sequence[WarmWorker], stop: asyncio.Event, alarm: Alarm) -> None:
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
    try:
        asyncio.run(work(options.pool, options.name, options.limit))
    except PrefectHTTPStatusError as error:
        if message := prefect_login.sentence(error):
            sys.exit(message)
        raise
    except KeyboardInterrupt:
        with suppress(ValueError):
            sys.exit(0)
