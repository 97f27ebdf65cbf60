"""Dispatcher: creates flow runs of waiting job runs, recovers lost ones, collects garbage and sends webhooks.

Several dispatchers share the work by row locks; Prefect creates a flow run once per idempotency key.
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
from flows.dispatch.background_loop import HEARTBEAT_SECONDS, Heartbeat, LoopThread
from retrieval import logs, settings
from retrieval.connections import push_subscriptions, pushes
from retrieval.connections import schedules as connection_schedules
from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.database.listening import listen_for_notices
from retrieval.jobs import levers as recorded_levers
from retrieval.jobs.queries import breaker_timeout, job_queue
from retrieval.jobs.runs import JOB_RUNS_CHANNEL
from retrieval.maintenance import garbage
from retrieval.maintenance.index_upkeep import Upkeep
from retrieval.metrics import counts
from retrieval.network import fetch_guard
from retrieval.settings import Settings
from retrieval.webhooks import queries_feed
from retrieval.webhooks.sending import Sender

log = structlog.get_logger()

# A job run waits this long if its notice is lost; longer while the queue is idle.
QUEUE_CHECK_SECONDS = 1.0
IDLE_QUEUE_CHECK_SECONDS = 5.0
# Clients that send without a pause would cause a check per notice.
MIN_QUEUE_CHECK_SECONDS = 0.05
RECONCILE_SECONDS = 3.0
# Without open batches: each read of Prefect costs its server more than any other idle work.
IDLE_RECONCILE_SECONDS = 10.0
SCHEDULE_CHECK_SECONDS = 10.0
# Compare Prefect's schedules this often even if ours are unchanged.
SCHEDULE_RECONCILE_SECONDS = 30.0
SWEEP_SECONDS = 5.0
MAINTAIN_SECONDS = 60.0
# Check for documents to index in another language.
LANGUAGE_CHECK_SECONDS = 10.0
# While a webhook exists and a batch is open. Transactions of documents send no notices: all would wait for one lock.
OUTBOX_CHECK_SECONDS = 0.25
# Between a missing deployment and its registration, and between attempts.
REGISTER_DELAY_SECONDS = 2.0
REGISTER_TIMEOUT_SECONDS = 60.0

REPORT_LOOP = "report"
EVENTS_LOOP = "events"
REGISTER_LOOP = "register"
LEVERS_LOOP = "levers"
SUBSCRIBE_LOOP = "subscribe"
# A slow service delays only other subscriptions.
SUBSCRIBE_CHECK_SECONDS = 5.0
LEVERS_CHECK_SECONDS = 5.0
# While work waits or a lever holds it.
BUSY_LEVERS_CHECK_SECONDS = 2.0
# Without unfinished work, the pool, queues, workers and paused flow runs are read this seldom: five of the seven
# requests of a check.
IDLE_POOL_CHECK_SECONDS = 15.0
LoopStep = Callable[[LoopThread], Awaitable[None]]


class Dispatcher:
    """All loops, each on an own thread with own connections: a stalled loop blocks no other."""

    def __init__(self, config: Settings, db: Database) -> None:
        self.config = config
        self.wake, self.webhooks_due, self.busy, self.missing_deployment = (asyncio.Event() for _ in range(4))
        self._loop: asyncio.AbstractEventLoop | None = None
        self.workers = 1
        self.failed_batches: set[str] = set()
        self.pool = config.work_pool
        self.loops: dict[str, LoopStep] = {
            "dispatch": self.dispatch_waiting,
            "reconcile": self.reconcile_batches,
            "schedule": self.sync_schedules,
            "sweep": self.collect_garbage,
            "maintain": self.run_upkeep,
            "listen": self.listen_for_changes,
            "webhooks": self.send_webhooks,
        }
        self.heartbeat = Heartbeat(*self.loops)
        self.threads = {
            name: LoopThread(name, db)
            for name in (*self.loops, REPORT_LOOP, EVENTS_LOOP, REGISTER_LOOP, LEVERS_LOOP, SUBSCRIBE_LOOP)
        }
        sweep_db = db.sibling(size=garbage.SWEEP_THREADS + 2, role="sweep")
        stores = partial(context.open_stores, db=sweep_db)
        self.sender = Sender(
            db.sibling(size=4, role="dispatcher"), context.load_keys, fetch_guard.make_guard(config), self._wake_sender
        )
        self.sweeper, self.upkeep = garbage.GarbageCollector(sweep_db, stores), Upkeep(sweep_db, stores)

    async def run(self, stop: asyncio.Event) -> None:
        """Run the loops until `stop` is set."""
        loops = {
            **self.loops,
            REPORT_LOOP: self.write_reports,
            EVENTS_LOOP: self.emit_events,
            REGISTER_LOOP: self.register_missing,
            LEVERS_LOOP: self.read_levers,
            SUBSCRIBE_LOOP: self.renew_subscriptions,
        }
        tasks = [asyncio.create_task(self._repeat_step(name, step)) for name, step in loops.items()]
        log.info("dispatcher.started")
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(*UNAVAILABLE_ERRORS):
            await self.threads[REPORT_LOOP].run(self.heartbeat.deregister)
        self.sender.close()
        self.sweeper.close()
        self.upkeep.close()
        for thread in self.threads.values():
            thread.close()

    async def dispatch_waiting(self, thread: LoopThread) -> None:
        async with get_client() as client:
            while True:
                limit = self.workers * self.config.worker_limit
                has_due_push = await thread.run(pushes.start_due)
                # Before the batches: one that Prefect refuses ends the pass.
                await batches.start_evaluations(thread, client)
                # A slow Prefect needs long for several flow runs: each counts as a success.
                while await batches.dispatch_batches(
                    thread,
                    client,
                    self.missing_deployment.set,
                    size=self.config.batch_limit,
                    limit=limit,
                    failed_batches=self.failed_batches,
                    on_start=partial(self.heartbeat.record_success, "dispatch"),
                ):
                    self.busy.set()
                self.heartbeat.record_success("dispatch")
                checked_at = time.monotonic()
                is_busy = has_due_push or await thread.run(job_queue.has_unfinished_work)
                pause = QUEUE_CHECK_SECONDS if is_busy else IDLE_QUEUE_CHECK_SECONDS
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.wake.wait(), pause)
                pace = REGISTER_DELAY_SECONDS if self.missing_deployment.is_set() else MIN_QUEUE_CHECK_SECONDS
                await asyncio.sleep(checked_at + pace - time.monotonic())
                self.wake.clear()

    async def reconcile_batches(self, thread: LoopThread) -> None:
        attempts, lease = self.config.attempts, timedelta(seconds=self.config.lease_seconds)
        async with get_client() as client:
            while True:
                self.workers = await prefect_client.count_workers(client, self.pool)
                if await reconciliation.reconcile_batches(thread, client, attempts=attempts, lease=lease):
                    self.wake.set()
                self.heartbeat.record_success("reconcile")
                await self._wait_until_busy(thread)
                await asyncio.sleep(RECONCILE_SECONDS)

    async def _wait_until_busy(self, thread: LoopThread) -> None:
        """Without open batches, wait until this dispatcher creates one, or `IDLE_RECONCILE_SECONDS`."""
        self.busy.clear()
        if not await thread.run(job_queue.has_open_batch):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.busy.wait(), IDLE_RECONCILE_SECONDS)

    async def sync_schedules(self, thread: LoopThread) -> None:
        errors: dict[str, str] = {}
        reconciled_timings, reconcile_at = None, 0.0

        async def settle_pause(schedule_id: str, paused: bool) -> None:  # noqa: FBT001
            await thread.run(connection_schedules.settle_pause, schedule_id, paused=paused)

        async with get_client() as client:
            while True:
                timings = await thread.run(connection_schedules.list_timings)
                if timings != reconciled_timings or errors or time.monotonic() >= reconcile_at:
                    await schedules.reconcile_schedules(client, timings, errors, settle_pause)
                    reconciled_timings, reconcile_at = timings, time.monotonic() + SCHEDULE_RECONCILE_SECONDS
                self.heartbeat.record_success("schedule")
                await asyncio.sleep(SCHEDULE_CHECK_SECONDS)

    async def register_missing(self, _thread: LoopThread) -> None:
        """Register the deployments again after Prefect lost its database."""
        await self.missing_deployment.wait()
        await asyncio.sleep(REGISTER_DELAY_SECONDS)
        from flows import register  # imports a part of Prefect that no other loop needs

        try:
            async with asyncio.timeout(REGISTER_TIMEOUT_SECONDS):
                await register.register_deployments()
        except register.RegistrationError as error:
            log.warning("dispatcher.not_registered", reason=str(error))
            return
        self.missing_deployment.clear()
        log.warning("dispatcher.registered", reason="Prefect did not know a deployment any more")
        self.wake.set()

    async def read_levers(self, thread: LoopThread) -> None:
        """Record Prefect's pauses and limits, more often while work waits."""
        async with get_client() as client:
            states: levers.PoolStates | None = None
            states_due_at = 0.0
            while True:
                # Only a paused deployment holds new work back; the rest explains why work waits.
                if time.monotonic() >= states_due_at or await thread.run(job_queue.has_unfinished_work):
                    states, states_due_at = None, time.monotonic() + IDLE_POOL_CHECK_SECONDS
                try:
                    deployments, states = await levers.read_states(client, self.pool, states)
                except prefect_errors.SERVER_ERRORS as error:
                    await thread.run(recorded_levers.record_failed_read, levers.failure_lever(error, self.pool))
                    if isinstance(error, ObjectNotFound):
                        self.pool = self.config.work_pool  # the registered pool was deleted
                    raise
                registered_pool = (deployments[0].work_pool_name if deployments else None) or self.config.work_pool
                if registered_pool != self.pool:
                    self.pool, states = registered_pool, None
                    continue
                active_levers = levers.list_levers(deployments, states)
                await thread.run(recorded_levers.record_levers, active_levers)
                if active_levers:
                    states_due_at = 0.0  # seen at once when it ends
                is_held = bool(active_levers) or await thread.run(job_queue.has_waiting_work)
                await asyncio.sleep(BUSY_LEVERS_CHECK_SECONDS if is_held else LEVERS_CHECK_SECONDS)

    async def collect_garbage(self, thread: LoopThread) -> None:
        has_more = await thread.run(lambda _: self.sweeper.begin())
        self.heartbeat.record_success("sweep")
        if has_more:
            await thread.run(lambda _: self.sweeper.wait(QUEUE_CHECK_SECONDS))
        else:
            await asyncio.sleep(SWEEP_SECONDS)

    async def run_upkeep(self, thread: LoopThread) -> None:
        for _ in range(round(MAINTAIN_SECONDS / LANGUAGE_CHECK_SECONDS)):
            await asyncio.sleep(LANGUAGE_CHECK_SECONDS)
            self.upkeep.index_again(settings.load_settings().keyword_language)
        await thread.run(garbage.delete_expired)
        await thread.run(breaker_timeout.expire_runs)
        self.upkeep.begin()
        self.heartbeat.record_success("maintain")

    async def renew_subscriptions(self, thread: LoopThread) -> None:
        """Create subscriptions of push, and renew them before their end."""
        await thread.run(
            push_subscriptions.renew_due, context.load_keys(), context.open_push_connector, self.config.base_url
        )
        await asyncio.sleep(SUBSCRIBE_CHECK_SECONDS)

    async def send_webhooks(self, thread: LoopThread) -> None:
        """Send due webhook deliveries."""
        self._loop = asyncio.get_running_loop()
        while True:
            has_more = await thread.run(lambda _: self.sender.begin())
            pause = 0.0 if has_more else await thread.run(self._outbox_pause)
            self.heartbeat.record_success("webhooks")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.webhooks_due.wait(), pause)
            self.webhooks_due.clear()

    def _outbox_pause(self, _db: Database) -> float:
        """Return the seconds until the next check of the webhook outbox."""
        if not self.sender.idle() or self.sender.listening():
            return OUTBOX_CHECK_SECONDS
        return QUEUE_CHECK_SECONDS if self.sender.is_needed() else IDLE_QUEUE_CHECK_SECONDS

    async def emit_events(self, thread: LoopThread) -> None:
        """Emit events of job runs and connections to Prefect, if enabled."""
        is_enabled = self.config.prefect_events
        await thread.run(queries_feed.switch_recording, on=is_enabled)
        while is_enabled:
            count = await batches.emit_events(thread)
            await asyncio.sleep(0 if count == queries_feed.EVENT_PAGE_SIZE else QUEUE_CHECK_SECONDS)
        await asyncio.Event().wait()

    def _wake_sender(self) -> None:
        # Called from the sender's threads.
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self.webhooks_due.set)

    async def listen_for_changes(self, thread: LoopThread) -> None:
        """Wake the dispatcher on the API's notices of waiting job runs."""

        def wake() -> None:
            self.wake.set()
            self.webhooks_due.set()

        await listen_for_notices(
            thread.db.url, JOB_RUNS_CHANNEL, wake, alive=lambda: self.heartbeat.record_success("listen")
        )

    async def write_reports(self, thread: LoopThread) -> None:
        await thread.run(self.heartbeat.write_beats)
        await thread.run(counts.write_counts)
        await asyncio.sleep(HEARTBEAT_SECONDS)

    async def _repeat_step(self, name: str, step: LoopStep) -> None:
        """Repeat a step after errors of the database or Prefect; unfinished work waits in our tables."""
        while True:
            try:
                await step(self.threads[name])
            except (*UNAVAILABLE_ERRORS, *prefect_errors.SERVER_ERRORS) as error:
                self.heartbeat.record_failure(name, error)
                if isinstance(error, ObjectNotFound):
                    self.missing_deployment.set()
                log.warning("dispatcher.waiting", loop=name, reason=prefect_errors.failure_reason(error))
                await asyncio.sleep(1)
            except Exception as error:
                self.heartbeat.record_failure(name, error)
                log.exception("dispatcher.failed", loop=name)
                await asyncio.sleep(5)


async def run_dispatcher() -> None:
    """Run the loops until SIGTERM or SIGINT."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    await Dispatcher(settings.load_settings(), context.open_database()).run(stop)


if __name__ == "__main__":
    logs.configure_logs(settings.load_settings(), role="dispatcher")
    asyncio.run(run_dispatcher())
