"""The dispatcher: makes flow runs of waiting job runs, recovers lost ones, collects garbage, sends webhooks.

Several may run; they share the work by row locks, and a flow run asked for twice is created once.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

import structlog
from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound

from flows import context, prefect_errors
from flows.dispatch import batches, levers, prefect_client, reconciliation, schedules
from flows.dispatch.background_loop import WRITE_SECONDS, Heartbeat, LoopThread
from retrieval import logs, settings
from retrieval.connections import schedules as connection_schedules
from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.database.listening import listen_for_notices
from retrieval.jobs import levers as recorded_levers
from retrieval.jobs.queries import breaker_timeout, job_queue
from retrieval.jobs.runs import CHANNEL
from retrieval.maintenance import garbage
from retrieval.maintenance.index_upkeep import Upkeep
from retrieval.metrics import counts
from retrieval.network import fetch_guard
from retrieval.settings import Settings
from retrieval.webhooks import queries_feed
from retrieval.webhooks.sending import Sender

log = structlog.get_logger()

LOOK_SECONDS = 1.0
"""How long a job run waits if its notice is lost."""
QUIET_SECONDS = 5.0
"""The same while none waits and no batch is open, and how long a delivery waits while there is no webhook."""
PACE_SECONDS = 0.05
"""Between two looks for what waits: while clients send without a pause, each of their notices would be one."""
RECONCILE_SECONDS = 3.0
IDLE_SECONDS = 10.0
"""Between two looks at Prefect while no batch is open: each costs its server more than anything else that is idle."""
SCHEDULE_SECONDS = 10.0
SCHEDULE_AGAIN_SECONDS = 30.0
"""After which Prefect's schedules are compared with ours although ours have not changed."""
SWEEP_SECONDS = 5.0
MAINTAIN_SECONDS = 60.0
LANGUAGES_SECONDS = 10.0
"""Between two looks for documents to index in another language."""
LISTENED_SECONDS = 0.25
"""Between two looks into the outbox of webhooks while there is one and a batch is open: a notice within the
transactions that change something would have them all wait for one lock. The API tells afterwards what it changed."""
REGISTER_SECONDS = 2.0
"""Between a missed deployment and the registration, and between two tries of it."""
REGISTER_TIMEOUT = 60.0

REPORT = "report"
EVENTS = "events"
REGISTER = "register"
LEVERS = "levers"
LEVERS_SECONDS, LEVERS_BUSY_SECONDS = 5.0, 2.0
"""Between two looks at Prefect's levers, and while work waits or a lever holds it."""
Loop = Callable[[LoopThread], Awaitable[None]]


class Dispatcher:
    """All loops, each on a thread and connections of its own: one that stalls does not block the others."""

    def __init__(self, config: Settings, db: Database) -> None:
        self.config = config
        self.wake, self.due, self.busy, self.missed = (asyncio.Event() for _ in range(4))
        self._loop: asyncio.AbstractEventLoop | None = None
        self.workers = 1
        self.pool = config.work_pool
        self.loops: dict[str, Loop] = {
            "dispatch": self.start_waiting,
            "reconcile": self.take_back,
            "schedule": self.schedule,
            "sweep": self.clean,
            "maintain": self.maintain,
            "listen": self.listen,
            "webhooks": self.tell,
        }
        self.heartbeat = Heartbeat(*self.loops)
        self.threads = {name: LoopThread(name, db) for name in (*self.loops, REPORT, EVENTS, REGISTER, LEVERS)}
        swept = db.sibling(size=garbage.SWEEP_THREADS + 2, role="sweep")
        stores = partial(context.open_stores, db=swept)
        self.sender = Sender(
            db.sibling(size=4, role="dispatcher"), context.load_keys, fetch_guard.make_guard(config), self._wake_sender
        )
        self.sweeper, self.upkeep = garbage.GarbageCollector(swept, stores), Upkeep(swept, stores)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`."""
        loops = {
            **self.loops,
            REPORT: self.report,
            EVENTS: self.emit,
            REGISTER: self.register_again,
            LEVERS: self.read_levers,
        }
        tasks = [asyncio.create_task(self._for_ever(name, step)) for name, step in loops.items()]
        log.info("dispatcher.started")
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(*UNAVAILABLE_ERRORS):
            await self.threads[REPORT].run(self.heartbeat.end)
        self.sender.close()
        self.sweeper.close()
        self.upkeep.close()
        for thread in self.threads.values():
            thread.close()

    async def start_waiting(self, thread: LoopThread) -> None:
        async with get_client() as client:
            while True:
                limit = self.workers * self.config.worker_limit
                # A slow Prefect takes long for several flow runs: each is a success.
                while await batches.dispatch_batches(
                    thread,
                    client,
                    self.missed.set,
                    size=self.config.batch_limit,
                    limit=limit,
                    on_start=partial(self.heartbeat.succeeded, "dispatch"),
                ):
                    self.busy.set()
                await batches.start_evaluations(thread, client)
                self.heartbeat.succeeded("dispatch")
                looked = time.monotonic()
                pause = LOOK_SECONDS if await thread.run(job_queue.is_any_unfinished) else QUIET_SECONDS
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.wake.wait(), pause)
                pace = REGISTER_SECONDS if self.missed.is_set() else PACE_SECONDS
                await asyncio.sleep(looked + pace - time.monotonic())
                self.wake.clear()

    async def take_back(self, thread: LoopThread) -> None:
        attempts, lease = self.config.attempts, timedelta(seconds=self.config.lease_seconds)
        async with get_client() as client:
            while True:
                self.workers = await prefect_client.count_workers(client, self.pool)
                if await reconciliation.reconcile_batches(thread, client, attempts=attempts, lease=lease):
                    self.wake.set()
                self.heartbeat.succeeded("reconcile")
                await self._until_busy(thread)
                await asyncio.sleep(RECONCILE_SECONDS)

    async def _until_busy(self, thread: LoopThread) -> None:
        """While no batch is open: until this dispatcher makes one, or for some seconds, as others may."""
        self.busy.clear()
        if not await thread.run(job_queue.is_any_open):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.busy.wait(), IDLE_SECONDS)

    async def schedule(self, thread: LoopThread) -> None:
        troubled: dict[str, str] = {}
        reconciled, again_at = None, 0.0

        async def settle_pause(schedule_id: str, paused: bool) -> None:  # noqa: FBT001
            await thread.run(connection_schedules.settle_pause, schedule_id, paused=paused)

        async with get_client() as client:
            while True:
                schedules_wanted = await thread.run(connection_schedules.wanted_schedules)
                if schedules_wanted != reconciled or troubled or time.monotonic() >= again_at:
                    await schedules.reconcile_schedules(client, schedules_wanted, troubled, settle_pause)
                    reconciled, again_at = schedules_wanted, time.monotonic() + SCHEDULE_AGAIN_SECONDS
                self.heartbeat.succeeded("schedule")
                await asyncio.sleep(SCHEDULE_SECONDS)

    async def register_again(self, _thread: LoopThread) -> None:
        """Register again what Prefect has lost with its database, once a deployment is missed."""
        await self.missed.wait()
        await asyncio.sleep(REGISTER_SECONDS)
        from flows import register  # brings a part of Prefect that a dispatcher needs for nothing else

        try:
            async with asyncio.timeout(REGISTER_TIMEOUT):
                await register.register_deployments()
        except register.RegistrationError as error:
            log.warning("dispatcher.not_registered", reason=str(error))
            return
        self.missed.clear()
        log.warning("dispatcher.registered", reason="Prefect did not know a deployment any more")
        self.wake.set()

    async def read_levers(self, thread: LoopThread) -> None:
        """Record what holds ingestion back in Prefect, more often while work waits."""
        async with get_client() as client:
            while True:
                try:
                    read = await levers.read_levers(client, self.pool)
                    registered_pool = await prefect_client.find_registered_pool(client)
                except prefect_errors.AWAY as error:
                    await thread.run(recorded_levers.record_failed_read, levers.of_failure(error, self.pool))
                    if isinstance(error, ObjectNotFound):
                        self.pool = self.config.work_pool  # a pool that was deleted is not asked for again
                    raise
                if registered_pool != self.pool:
                    self.pool = registered_pool
                    continue
                await thread.run(recorded_levers.record_levers, read)
                busy = await thread.run(job_queue.is_any_unfinished)
                await asyncio.sleep(LEVERS_BUSY_SECONDS if busy or read else LEVERS_SECONDS)

    async def clean(self, thread: LoopThread) -> None:
        goes_on = await thread.run(lambda _: self.sweeper.begin())
        self.heartbeat.succeeded("sweep")
        if goes_on:
            await thread.run(lambda _: self.sweeper.wait(LOOK_SECONDS))
        else:
            await asyncio.sleep(SWEEP_SECONDS)

    async def maintain(self, thread: LoopThread) -> None:
        for _ in range(round(MAINTAIN_SECONDS / LANGUAGES_SECONDS)):
            await asyncio.sleep(LANGUAGES_SECONDS)
            self.upkeep.index_again(settings.load_settings().keyword_language)
        await thread.run(garbage.delete_expired)
        await thread.run(breaker_timeout.expire_runs)
        self.upkeep.begin()
        self.heartbeat.succeeded("maintain")

    async def tell(self, thread: LoopThread) -> None:
        """Send due webhook deliveries."""
        self._loop = asyncio.get_running_loop()
        while True:
            has_more = await thread.run(lambda _: self.sender.begin())
            pause = 0.0 if has_more else await thread.run(self._until_next)
            self.heartbeat.succeeded("webhooks")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.due.wait(), pause)
            self.due.clear()

    def _until_next(self, _db: Database) -> float:
        """Seconds until the outbox of webhooks is looked into again."""
        if not self.sender.idle() or self.sender.listening():
            return LISTENED_SECONDS
        return LOOK_SECONDS if self.sender.is_needed() else QUIET_SECONDS

    async def emit(self, thread: LoopThread) -> None:
        """Emit events of job runs and connections to Prefect, if the setting is on."""
        on = self.config.prefect_events
        await thread.run(queries_feed.switch_recording, on=on)
        while on:
            count = await batches.emit_events(thread)
            await asyncio.sleep(0 if count == queries_feed.PAGE else LOOK_SECONDS)
        await asyncio.Event().wait()

    def _wake_sender(self) -> None:
        """From a thread that has sent something."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                self._loop.call_soon_threadsafe(self.due.set)

    async def listen(self, thread: LoopThread) -> None:
        """Wake the dispatcher whenever the API notifies that a job run waits."""

        def wake() -> None:
            self.wake.set()
            self.due.set()

        await listen_for_notices(thread.db.url, CHANNEL, wake, alive=lambda: self.heartbeat.succeeded("listen"))

    async def report(self, thread: LoopThread) -> None:
        await thread.run(self.heartbeat.write)
        await thread.run(counts.write_counts)
        await asyncio.sleep(WRITE_SECONDS)

    async def _for_ever(self, name: str, step: Loop) -> None:
        """Begin again whatever the database or Prefect do: what they could not take waits in our tables."""
        while True:
            try:
                await step(self.threads[name])
            except (*UNAVAILABLE_ERRORS, *prefect_errors.AWAY) as error:
                self.heartbeat.failed(name, error)
                if isinstance(error, ObjectNotFound):
                    self.missed.set()
                log.warning("dispatcher.waiting", loop=name, reason=prefect_errors.failure_reason(error))
                await asyncio.sleep(1)
            except Exception as error:
                self.heartbeat.failed(name, error)
                log.exception("dispatcher.failed", loop=name)
                await asyncio.sleep(5)


async def run_dispatcher() -> None:
    """Run the loops until SIGTERM or SIGINT."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await Dispatcher(settings.load_settings(), context.open_database()).run(stop)


if __name__ == "__main__":
    logs.configure_logs(settings.load_settings(), role="dispatcher")
    asyncio.run(run_dispatcher())
