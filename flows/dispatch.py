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
from prefect.client.orchestration import PrefectClient, get_client
from prefect.exceptions import ObjectNotFound

from flows import context, levers, prefect_client, prefect_events, prefect_login, reconcile, schedules
from flows.lanes import Lane
from flows.pulse import WRITE_SECONDS, Pulse
from retrieval import logs, settings
from retrieval.connections import schedules as connections_by_schedule
from retrieval.database import listening
from retrieval.database.database import AWAY, Database
from retrieval.evaluations import runs
from retrieval.jobs import levers as recorded_levers
from retrieval.jobs import notifications
from retrieval.jobs.queries import batches, breaker_timeout, job_queue
from retrieval.jobs.runs import CHANNEL
from retrieval.maintenance import garbage
from retrieval.maintenance.index_upkeep import Upkeep
from retrieval.metrics import counts
from retrieval.network import fetch_guard
from retrieval.settings import Settings
from retrieval.webhooks import events
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
SCHEDULE_AGAIN_SECONDS = 60.0
"""After which Prefect's schedules are compared with ours although ours have not changed."""
SWEEP_SECONDS = 5.0
MAINTAIN_SECONDS = 60.0
LANGUAGES_SECONDS = 10.0
"""Between two looks for documents to index in another language."""
LISTEN_SECONDS = 10.0
"""How long the connection that listens may be silent until it is tried."""
LISTENED_SECONDS = 0.25
"""Between two looks into the outbox of webhooks while there is one and a batch is open: a notice within the
transactions that change something would have them all wait for one lock. The API tells afterwards what it changed."""
REGISTER_SECONDS = 10.0
"""After a deployment was missed: `retrieval register` may be at it."""
REGISTER_TIMEOUT = 60.0

REPORT = "report"
EVENTS = "events"
REGISTER = "register"
LEVERS = "levers"
LEVERS_SECONDS, LEVERS_BUSY_SECONDS = 5.0, 2.0
"""Between two looks at Prefect's levers, and while work waits or a lever holds it."""
Loop = Callable[[Lane], Awaitable[None]]


async def dispatch(lane: Lane, client: PrefectClient, missed: Callable[[], None], *, size: int, limit: int) -> int:
    """Start what waits: at once while fewer than 2 x limit batches are open, otherwise let it pile up.

    But for what is short, or its organization's only batch, and what a batch at work takes up. Where Prefect does
    not know a batch's deployment, the batch waits, and `missed` is called.
    """
    room = 2 * limit - await lane.run(batches.in_flight)
    await lane.run(batches.form, size=size, batches=room, places=limit)
    held_sources = await lane.run(recorded_levers.held_sources)
    waiting = [batch for batch in await lane.run(batches.undispatched) if batch.source not in held_sources]
    started = 0
    for batch in waiting:
        try:
            flow_run = await prefect_client.start(client, batch)
        except ObjectNotFound:
            log.warning("batch.not_dispatched", batch_id=batch.id, source=batch.source, reason="no deployment")
            missed()
            continue
        await lane.run(batches.dispatched, batch, flow_run)
        log.info("batch.dispatched", batch_id=batch.id, job_runs=len(batch.job_runs), attempt=batch.attempt)
        started += 1
        await lane.run(notifications.tell, notifications.FLOW_RUNS)
    return started


async def evaluate(lane: Lane, client: PrefectClient) -> None:
    """Start runs of evaluations that wait, or whose worker was lost."""
    due = await lane.run(runs.waiting)
    for index, run in enumerate(due):
        try:
            await prefect_client.start_evaluation(client, run["id"], run["attempt"], run["asked"])
        except prefect_client.AWAY:
            await lane.run(runs.not_started, [run_row["id"] for run_row in due[index:]])
            raise
        log.info("evaluation.dispatched", run_id=run["id"], attempt=run["attempt"])
        await lane.run(notifications.tell, notifications.FLOW_RUNS)


class Dispatcher:
    """All loops, each on a thread and connections of its own: one that stalls does not block the others."""

    def __init__(self, config: Settings, db: Database) -> None:
        self.config = config
        self.wake, self.due, self.busy, self.missed = (asyncio.Event() for _ in range(4))
        self._loop: asyncio.AbstractEventLoop | None = None
        self.workers = 1
        self.loops: dict[str, Loop] = {
            "dispatch": self.start_waiting,
            "reconcile": self.take_back,
            "schedule": self.schedule,
            "sweep": self.clean,
            "maintain": self.maintain,
            "listen": self.listen,
            "webhooks": self.tell,
        }
        self.pulse = Pulse(*self.loops)
        self.lanes = {name: Lane(name, db) for name in (*self.loops, REPORT, EVENTS, REGISTER, LEVERS)}
        swept = db.sibling(size=garbage.THREADS + 2, role="sweep")
        stores = partial(context.stores, db=swept)
        self.sender = Sender(
            db.sibling(size=4, role="dispatcher"), context.keys, fetch_guard.guard(config), self._wake_sender
        )
        self.sweeper, self.upkeep = garbage.Sweeper(swept, stores), Upkeep(swept, stores)

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
        with contextlib.suppress(*AWAY):
            await self.lanes[REPORT].run(self.pulse.end)
        self.sender.close()
        self.sweeper.close()
        self.upkeep.close()
        for lane in self.lanes.values():
            lane.close()

    async def start_waiting(self, lane: Lane) -> None:
        async with get_client() as client:
            while True:
                limit = self.workers * self.config.worker_limit
                while await dispatch(lane, client, self.missed.set, size=self.config.batch_limit, limit=limit):
                    self.busy.set()
                    self.pulse.succeeded("dispatch")
                await evaluate(lane, client)
                self.pulse.succeeded("dispatch")
                looked = time.monotonic()
                pause = LOOK_SECONDS if await lane.run(job_queue.is_any_unfinished) else QUIET_SECONDS
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.wake.wait(), pause)
                await asyncio.sleep(looked + PACE_SECONDS - time.monotonic())
                self.wake.clear()

    async def take_back(self, lane: Lane) -> None:
        attempts, lease = self.config.attempts, timedelta(seconds=self.config.lease_seconds)
        async with get_client() as client:
            while True:
                self.workers = await prefect_client.workers(client, self.config.work_pool)
                if await lane.run(job_queue.is_any_unclaimed):
                    at_work = await lane.run(job_queue.count_at_work)
                    closed = await prefect_client.closed(client, self.config.work_pool, at_work)
                    await lane.run(job_queue.close_queues, closed)
                if await reconcile.once(lane, client, attempts=attempts, lease=lease):
                    self.wake.set()
                self.pulse.succeeded("reconcile")
                await self._until_busy(lane)
                await asyncio.sleep(RECONCILE_SECONDS)

    async def _until_busy(self, lane: Lane) -> None:
        """While no batch is open: until this dispatcher makes one, or for some seconds, as others may."""
        self.busy.clear()
        if not await lane.run(job_queue.is_any_open):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.busy.wait(), IDLE_SECONDS)

    async def schedule(self, lane: Lane) -> None:
        troubled: dict[str, str] = {}
        told, again_at = None, 0.0
        async with get_client() as client:
            while True:
                schedules_wanted = await lane.run(connections_by_schedule.wanted)
                if schedules_wanted != told or troubled or time.monotonic() >= again_at:
                    await schedules.reconcile(client, schedules_wanted, troubled)
                    told, again_at = schedules_wanted, time.monotonic() + SCHEDULE_AGAIN_SECONDS
                self.pulse.succeeded("schedule")
                await asyncio.sleep(SCHEDULE_SECONDS)

    async def register_again(self, _lane: Lane) -> None:
        """Register again what Prefect has lost with its database, once a deployment is missed."""
        await self.missed.wait()
        await asyncio.sleep(REGISTER_SECONDS)
        from flows import register  # brings a part of Prefect that a dispatcher needs for nothing else

        self.missed.clear()
        try:
            async with asyncio.timeout(REGISTER_TIMEOUT):
                await register.register()
        except register.RegistrationError as error:
            log.warning("dispatcher.not_registered", reason=str(error))
            return
        log.warning("dispatcher.registered", reason="Prefect did not know a deployment any more")
        self.wake.set()

    async def read_levers(self, lane: Lane) -> None:
        """Record what holds ingestion back in Prefect, more often while work waits."""
        async with get_client() as client:
            while True:
                try:
                    read = await levers.read(client, self.config.work_pool)
                except prefect_client.AWAY as error:
                    await lane.run(recorded_levers.record, [levers.of_failure(error, self.config.work_pool)])
                    raise
                await lane.run(recorded_levers.record, read)
                busy = await lane.run(job_queue.is_any_unfinished)
                await asyncio.sleep(LEVERS_BUSY_SECONDS if busy or read else LEVERS_SECONDS)

    async def clean(self, lane: Lane) -> None:
        goes_on = await lane.run(lambda _: self.sweeper.begin())
        self.pulse.succeeded("sweep")
        if goes_on:
            await lane.run(lambda _: self.sweeper.wait(LOOK_SECONDS))
        else:
            await asyncio.sleep(SWEEP_SECONDS)

    async def maintain(self, lane: Lane) -> None:
        for _ in range(round(MAINTAIN_SECONDS / LANGUAGES_SECONDS)):
            await asyncio.sleep(LANGUAGES_SECONDS)
            self.upkeep.index_again(settings.load().keyword_language)
        await lane.run(garbage.forget)
        await lane.run(breaker_timeout.expire)
        self.upkeep.begin()
        self.pulse.succeeded("maintain")

    async def tell(self, lane: Lane) -> None:
        """Send due webhook deliveries."""
        self._loop = asyncio.get_running_loop()
        while True:
            has_more = await lane.run(lambda _: self.sender.begin())
            pause = 0.0 if has_more else await lane.run(self._until_next)
            self.pulse.succeeded("webhooks")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.due.wait(), pause)
            self.due.clear()

    def _until_next(self, _db: Database) -> float:
        """Seconds until the outbox of webhooks is looked into again."""
        if not self.sender.idle() or self.sender.listening():
            return LISTENED_SECONDS
        return LOOK_SECONDS if self.sender.is_needed() else QUIET_SECONDS

    async def emit(self, lane: Lane) -> None:
        """Emit events of job runs and connections to Prefect, if the setting is on."""
        on = self.config.prefect_events
        await lane.run(events.switch, on=on)
        while on:
            count = await prefect_events.emit(lane)
            await asyncio.sleep(0 if count == events.PAGE else LOOK_SECONDS)
        await asyncio.Event().wait()

    def _wake_sender(self) -> None:
        """From a thread that has sent something."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                self._loop.call_soon_threadsafe(self.due.set)

    async def listen(self, lane: Lane) -> None:
        """Wake the dispatcher whenever the API notifies that a job run waits."""
        async with await listening.connect(lane.db.url) as connection:
            await connection.execute("listen " + CHANNEL)
            self.wake.set()
            while True:
                async for _ in connection.notifies(timeout=LISTEN_SECONDS):
                    self.wake.set()
                    self.due.set()
                await connection.execute("select 1")
                self.pulse.succeeded("listen")

    async def report(self, lane: Lane) -> None:
        await lane.run(self.pulse.write)
        await lane.run(counts.write)
        await asyncio.sleep(WRITE_SECONDS)

    async def _for_ever(self, name: str, step: Loop) -> None:
        """Begin again whatever the database or Prefect do: what they could not take waits in our tables."""
        while True:
            try:
                await step(self.lanes[name])
            except (*AWAY, *prefect_client.AWAY) as error:
                self.pulse.failed(name, error)
                if isinstance(error, ObjectNotFound):
                    self.missed.set()
                log.warning("dispatcher.waiting", loop=name, reason=prefect_login.reason(error))
                await asyncio.sleep(1)
            except Exception as error:
                self.pulse.failed(name, error)
                log.exception("dispatcher.failed", loop=name)
                await asyncio.sleep(5)


async def run() -> None:
    """Until SIGTERM or SIGINT."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await Dispatcher(settings.load(), context.database()).run(stop)


if __name__ == "__main__":
    logs.configure(settings.load(), role="dispatcher")
    asyncio.run(run())
