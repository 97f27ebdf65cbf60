"""The dispatcher: accepted job runs become flow runs, lost ones are taken back, deleted things are swept.

Several may run; they share the work by row locks, and a flow run asked for twice is created once.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from datetime import timedelta

import psycopg
import structlog
from prefect.client.orchestration import PrefectClient, get_client

from flows import context, prefect_server, reconcile, schedules
from retrieval import batches, logs, settings, sweep
from retrieval import schedules as connections_by_schedule
from retrieval.database import AWAY, Database
from retrieval.runs import CHANNEL

log = structlog.get_logger()

LOOK_SECONDS = 1.0
"""How long a job run waits if its notice is lost."""
RECONCILE_SECONDS = 3.0
SCHEDULE_SECONDS = 10.0
SWEEP_SECONDS = 5.0
MAINTAIN_SECONDS = 60.0
PREFECT_SECONDS = 60.0
"""A client that has once connected may wait for ever for a server that is gone; then a fresh one is made."""


async def dispatch(db: Database, client: PrefectClient, *, size: int, limit: int) -> int:
    """Start what waits: at once while fewer than 2 x limit batches are open, otherwise let it pile up."""
    room = 2 * limit - await asyncio.to_thread(batches.in_flight, db)
    if room > 0:
        await asyncio.to_thread(batches.form, db, size=size, batches=room)
    waiting = await asyncio.to_thread(batches.undispatched, db)
    for batch in waiting:
        flow_run = await prefect_server.start(client, batch)
        await asyncio.to_thread(batches.dispatched, db, batch, flow_run)
        log.info("batch.dispatched", batch_id=batch.id, job_runs=len(batch.job_runs), attempt=batch.attempt)
    return len(waiting)


async def run() -> None:
    """All loops, until SIGTERM or SIGINT."""
    config, db = settings.load(), context.database()
    stop, wake = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    workers = 1
    lease = timedelta(seconds=config.lease_seconds)

    async def start_waiting() -> None:
        async with get_client() as client:
            while True:
                async with asyncio.timeout(PREFECT_SECONDS):
                    while await dispatch(db, client, size=config.batch_limit, limit=workers * config.worker_limit):
                        pass
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(wake.wait(), LOOK_SECONDS)
                wake.clear()

    async def take_back() -> None:
        nonlocal workers
        async with get_client() as client:
            while True:
                async with asyncio.timeout(PREFECT_SECONDS):
                    workers = await prefect_server.workers(client, config.work_pool)
                    if await reconcile.once(db, client, attempts=config.attempts, lease=lease):
                        wake.set()
                await asyncio.sleep(RECONCILE_SECONDS)

    async def schedule() -> None:
        async with get_client() as client:
            while True:
                async with asyncio.timeout(PREFECT_SECONDS):
                    await schedules.reconcile(client, await asyncio.to_thread(connections_by_schedule.wanted, db))
                await asyncio.sleep(SCHEDULE_SECONDS)

    async def clean() -> None:
        while await asyncio.to_thread(sweep.run, db, context.stores):
            pass
        await asyncio.sleep(SWEEP_SECONDS)

    async def maintain() -> None:
        await asyncio.sleep(MAINTAIN_SECONDS)
        await asyncio.to_thread(sweep.forget, db)
        await asyncio.to_thread(sweep.maintain, db, context.stores)

    loops = [
        _for_ever("dispatch", start_waiting),
        _for_ever("reconcile", take_back),
        _for_ever("schedule", schedule),
        _for_ever("sweep", clean),
        _for_ever("maintain", maintain),
        _for_ever("listen", lambda: _listen(db, wake)),
    ]
    tasks = [asyncio.create_task(one) for one in loops]
    log.info("dispatcher.started")
    await stop.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    db.close()


async def _listen(db: Database, wake: asyncio.Event) -> None:
    """Wake the dispatcher whenever the API says that a job run waits."""
    connection = await psycopg.AsyncConnection.connect(db.url, autocommit=True)
    async with connection:
        await connection.execute("listen " + CHANNEL)
        wake.set()
        async for _ in connection.notifies():
            wake.set()


async def _for_ever(name: str, step: Callable[[], Awaitable[None]]) -> None:
    """Begin again whatever the database or Prefect do: what they could not take waits in our tables."""
    while True:
        try:
            await step()
        except (*AWAY, *prefect_server.AWAY) as error:
            log.warning("dispatcher.waiting", loop=name, reason=type(error).__name__)
            await asyncio.sleep(1)
        except Exception:
            log.exception("dispatcher.failed", loop=name)
            await asyncio.sleep(5)


if __name__ == "__main__":
    logs.configure(settings.load(), role="dispatcher")
    asyncio.run(run())
