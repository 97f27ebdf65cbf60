"""Worker of one machine: Prefect's worker loops for the pool, and an extra slot for short flow runs.

    python -m flows.worker --pool retrieval --name machine-1 --limit 2

On SIGTERM, flow runs may finish within the grace period; interrupted ones return their work.
"""

from __future__ import annotations

import argparse
import asyncio
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
from flows.deployments import SHORT_WORKER_SUFFIX
from flows.worker.run_process import FORK_CONTEXT
from flows.worker.warm_worker import WarmWorker
from retrieval import logs, settings
from retrieval.database.database import UNAVAILABLE_ERRORS
from retrieval.database.listening import listen_for_notices
from retrieval.jobs.fair_queue import SHORT_QUEUE
from retrieval.jobs.notifications import FLOW_RUNS_CHANNEL, LISTENER_NAME

log = structlog.get_logger()

# 100 checks of 0.05 s: a stopping worker waits until its submitted flow runs have started. A flow run left Pending
# would wait until the dispatcher misses it.
SUBMIT_CHECKS: Final = 100
# In addition to the limit: long flow runs never delay short ones.
SHORT_RUN_SLOTS: Final = 1
CANCEL_CHECK_SECONDS: Final = 1.0
LOOP_RETRY_SECONDS: Final = 1.0
# Prefect frees the slot shortly after the process has ended.
SLOT_FREE_SECONDS: Final = 0.02


class PollTrigger:
    """Call `poll` on each notice of the dispatcher, and `check_runs` every `CANCEL_CHECK_SECONDS`."""

    # Prefect's own poll, every 10 s, covers lost notices and failed calls.

    def __init__(self, poll: Callable[[], Awaitable[Any]], check_runs: Callable[[], Awaitable[None]]) -> None:
        self._poll, self._check_runs = poll, check_runs
        self._triggered = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the loops in the worker's event loop."""
        url, trigger = settings.load_settings().database_url, self._triggered.set
        loops = [self._poll_on_trigger, self._check_repeatedly]
        if url is not None:
            loops.append(
                partial(listen_for_notices, url.get_secret_value(), FLOW_RUNS_CHANNEL, trigger, name=LISTENER_NAME)
            )
        self._tasks = [asyncio.create_task(_repeat_loop(loop)) for loop in loops]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def trigger_soon(self) -> None:
        """Trigger a poll once the slot of an ended flow run is free."""
        asyncio.get_running_loop().call_later(SLOT_FREE_SECONDS, self._triggered.set)

    async def _poll_on_trigger(self) -> None:
        while True:
            await self._triggered.wait()
            self._triggered.clear()
            with suppress(*prefect_errors.SERVER_ERRORS):
                await self._poll()

    async def _check_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(CANCEL_CHECK_SECONDS)
            with suppress(*prefect_errors.SERVER_ERRORS):
                await self._check_runs()


async def _repeat_loop(loop: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await loop()
        except UNAVAILABLE_ERRORS as error:
            log.warning("worker.not_listening", reason=type(error).__name__)
        except Exception:
            log.exception("worker.alarm_failed")
        await asyncio.sleep(LOOP_RETRY_SECONDS)


async def run_worker(pool: str, name: str, limit: int) -> None:
    """Work until SIGTERM or SIGINT."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    with registry.make_embedding_process(FORK_CONTEXT) as embedder:
        workers: list[WarmWorker] = []

        async def poll() -> None:
            # The first worker takes from all queues: the second one is asked only while no slot of the first is free.
            for worker in workers:
                if worker.is_setup:
                    await worker.get_and_submit_flow_runs()
                    if worker.limiter.available_tokens:
                        break

        async def check_runs() -> None:
            embedder.keep_alive()
            await asyncio.gather(*(worker.end_stopped() for worker in workers if worker.is_setup))

        poll_trigger = PollTrigger(poll, check_runs)
        make_worker = partial(WarmWorker, pool, embedder=embedder.address, on_run_end=poll_trigger.trigger_soon)
        workers.append(make_worker(name=name, limit=limit))
        workers.append(make_worker(name=name + SHORT_WORKER_SUFFIX, limit=SHORT_RUN_SLOTS, work_queues=[SHORT_QUEUE]))
        poll_trigger.start()
        try:
            await _run_workers(workers, stop, poll_trigger)
        finally:
            await poll_trigger.stop()


async def _run_workers(workers: Sequence[WarmWorker], stop: asyncio.Event, poll_trigger: PollTrigger) -> None:
    """Run the workers until `stop` or an error, then wait for submitted flow runs to start."""
    tasks = [asyncio.create_task(worker.start(), name=worker.name) for worker in workers]
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
        await poll_trigger.stop()
        for _ in range(SUBMIT_CHECKS):
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
    logs.drop_failed_output()
    parser = argparse.ArgumentParser(description="A worker of the Retrieval Service.")
    parser.add_argument("--pool", required=True)
    parser.add_argument("--name", required=True, help="the worker's name in Prefect")
    config = settings.load_settings()
    parser.add_argument("--limit", type=int, default=config.worker_limit, help="flow runs at the same time")
    options = parser.parse_args(arguments)
    registry.require_ocr_languages(config.ocr_languages)
    try:
        asyncio.run(run_worker(options.pool, options.name, options.limit))
    except PrefectHTTPStatusError as error:
        if hint := prefect_errors.login_hint(error):
            sys.exit(hint)
        raise
    except KeyboardInterrupt:
        with suppress(ValueError):
            sys.exit(0)
