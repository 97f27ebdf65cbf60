"""Context of a flow run: lease, time slice, circuit breakers and intake of a batch."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Final, Self

import psycopg
import structlog
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.client.schemas.responses import SetStateStatus
from prefect.context import FlowRunContext
from prefect.logging import get_run_logger
from prefect.states import Suspended

from flows import request_context
from flows.prefect_errors import NO_ANSWER_ERRORS, PAUSE_KEY_PREFIX
from flows.steps import Discovery, Work
from retrieval import settings
from retrieval.database.database import Database
from retrieval.ingestion.queries import run_documents
from retrieval.ingestion.queries.listings import PendingListing
from retrieval.jobs.breaker_watch import Circuits
from retrieval.jobs.queries import batch_append, batches, job_queue, suspension
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.security.secrets import KeyRing
from retrieval.sources import CONNECTED_SOURCES

log = structlog.get_logger()

# A batch keeps its slot at least this long.
TIME_SLICE_SECONDS: Final = 5.0
QUEUE_CHECK_SECONDS: Final = 1.0
# A waiting batch may take another free slot within this time.
FREE_SLOT_SECONDS: Final = 2.0
YIELDED_REASON: Final = "The run yielded its slot to waiting work; it resumes automatically in its turn."
BLOCKED_REASON: Final = "A service does not respond; the run resumes automatically for the next attempt."
EARLY_REASON: Final = "An earlier job run of the connection is unfinished; the run resumes automatically after it."
# Pause between two appends: one pass over a few texts costs as much as one over many.
APPEND_SECONDS: Final = 0.5


class RunContext:
    """Batch of a flow run with database, keys, lease, time slice, circuit breakers and intake."""

    def __init__(self, db: Database, keys: KeyRing, lease: Lease) -> None:
        self.db, self.keys, self.lease = db, keys, lease
        self.circuits = Circuits(db, lease)
        self.time_slice = TimeSlice(db, lease)
        self.intake = Intake(db, lease)
        # The dispatcher forms no such batch, but a flow run that requests its own may come too early.
        self.is_early = lease.source in CONNECTED_SOURCES and job_queue.is_behind_its_connection(db, lease.batch_id)
        # Suspended in Prefect: the process ends, and the same flow run continues later.
        self.is_suspended = False

    @property
    def namespace(self) -> str:
        return self.lease.scope.namespace

    @property
    def is_blocked(self) -> bool:
        """Check for job runs waiting for an open circuit breaker."""
        return self.circuits.has_blocked_work

    def should_continue(self) -> bool:
        """Check if the batch may start another document, page or window."""
        # An open circuit breaker does not count: documents of other vendors continue.
        return not self.is_early and not self.time_slice.is_over()

    def make_work(self, window: Sequence[DocumentKey]) -> Work:
        """Prepare a window of documents for the steps."""
        label = run_documents.window_label(self.db, window)
        return Work(
            self.db,
            self.keys,
            self.lease,
            window,
            label=label,
            should_continue=self.should_continue,
            circuits=self.circuits,
        )

    def make_discovery(self, listing: PendingListing) -> Discovery:
        """Prepare the listing of a job run's documents."""
        return Discovery(self.db, self.keys, self.lease, listing, self.should_continue, self.circuits)

    async def hand_back(self) -> int:
        """Return unfinished job runs to the queue and suspend the flow run; 0 if a person suspended the flow run."""
        if suspension.is_suspended(self.db, self.lease):
            suspension.leave_suspended(self.db, self.lease)
            self.is_suspended = True
            return 0
        reason = BLOCKED_REASON if self.is_blocked else EARLY_REASON if self.is_early else YIELDED_REASON
        # Suspended first: the dispatcher may resume the flow run as soon as its job runs are back in the queue.
        self.is_suspended = await suspend_flow_run(f"{PAUSE_KEY_PREFIX}{self.lease.fence}", reason)
        count = batches.return_runs(
            self.db,
            self.lease,
            blocked_runs=self.circuits.blocked_runs,
            scope_breakers=self.circuits.scope_breakers,
            suspended=self.is_suspended,
        )
        log.info("batch.handed_back", batch_id=self.lease.batch_id, job_runs=count, suspended=self.is_suspended)
        return count

    async def close_batch(self) -> int:
        """Finish the batch or hand it back; return the number of returned job runs."""
        handed_back = 0
        if self.time_slice.has_ended or self.is_blocked or self.is_early:
            handed_back = await self.hand_back()
        else:
            batches.finish_batch(self.db, self.lease)
        self.circuits.release_probes()
        return handed_back


async def suspend_flow_run(key: str, reason: str) -> bool:
    """Suspend this flow run; False if Prefect refuses, as outside of a deployment."""
    flow_run = FlowRunContext.get()
    if flow_run is None or flow_run.flow_run is None or flow_run.flow_run.deployment_id is None:
        return False
    state: State[None] = Suspended(pause_key=key, message=reason)
    async with get_client() as client:
        result = await client.set_flow_run_state(flow_run.flow_run.id, state)
    return result.status == SetStateStatus.ACCEPT


class TimeSlice:
    """Time of a batch in a worker slot, until another batch waits. Thread-safe."""

    def __init__(self, db: Database, lease: Lease) -> None:
        self._db, self._lease = db, lease
        self._check_at = time.monotonic() + TIME_SLICE_SECONDS
        self._lock = threading.Lock()
        self.has_ended = False

    def is_over(self) -> bool:
        """Check for waiting batches or a suspension by a person; stays True."""
        with self._lock:
            current = time.monotonic()
            if not self.has_ended and current >= self._check_at:
                self.has_ended = job_queue.should_yield(
                    self._db, self._lease.batch_id, seconds=FREE_SLOT_SECONDS
                ) or suspension.is_suspended(self._db, self._lease)
                self._check_at = current + QUEUE_CHECK_SECONDS
            return self.has_ended


class Intake:
    """Append waiting job runs to a running batch; rename the flow run at the end."""

    def __init__(self, db: Database, lease: Lease) -> None:
        self._db, self._lease = db, lease
        self._appended_at = 0.0
        self._last_count = 0
        self._renaming: asyncio.Task[None] | None = None
        self.joined = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._renaming is None:
            return
        if kind is not None:
            self._renaming.cancel()
            return
        await self._renaming
        await self._rename_flow_run()

    async def append_waiting(self) -> None:
        """Append waiting job runs to the batch."""
        if not self._lease.grows:
            return
        if self._last_count:
            await asyncio.sleep(self._appended_at + APPEND_SECONDS - time.monotonic())
        self._appended_at = time.monotonic()
        self._last_count = await self._append()

    async def _append(self) -> int:
        size = settings.load_settings().batch_limit
        joined = await asyncio.to_thread(batch_append.append_waiting, self._db, self._lease, size=size)
        request_context.trace_joined(joined, self._lease)
        self.joined += len(joined)
        if joined and self._renaming is None:
            self._renaming = asyncio.create_task(self._rename_flow_run())
        return len(joined)

    async def _rename_flow_run(self) -> None:
        """Name the flow run after the batch's job runs."""
        # The name shows which job runs a cancellation in Prefect ends: all of the batch.
        flow_run = FlowRunContext.get()
        if flow_run is None or flow_run.flow_run is None:
            return
        try:
            name = await asyncio.to_thread(batch_append.describe_batch, self._db, self._lease)
            async with get_client() as client:
                await client.update_flow_run(flow_run.flow_run.id, name=name)
        except (psycopg.Error, *NO_ANSWER_ERRORS) as error:  # the documents do not depend on the name
            get_run_logger().warning("The flow run could not be renamed: %s", type(error).__name__)
