"""Prefect tasks of the pipeline: retries, names and tags."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

import structlog
from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.logging import get_run_logger
from prefect.tasks import Task, exponential_backoff

from flows import steps
from flows.deployments import FLOWS
from flows.steps import Predecessors, StepResult, Work
from retrieval.database import disk_full
from retrieval.database.database import Database
from retrieval.errors import Fatal, Retryable, Unavailable
from retrieval.ingestion.queries import results, run_documents
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease, Superseded
from retrieval.logs import without_query

log = structlog.get_logger()

P = ParamSpec("P")
R = TypeVar("R")
RETRIES: Final = 4
RETRY_SECONDS: Final = 60.0
"""Total delay of a task's retries."""
MAX_WAIT_SECONDS: Final = 600.0
"""Total time that a step waits for a vendor or for disk space."""
FULL_DISK_SECONDS: Final = 10.0
"""Time between two attempts on a full disk."""
CANCEL_CHECK_SECONDS: Final = 2.0
"""Time between two checks for cancellation while a step waits."""


def is_soon(error: Retryable) -> bool:
    """Check whether the error permits a retry within `RETRY_SECONDS`."""
    return (error.after or 0) <= RETRY_SECONDS


def is_retryable(_task: Task[..., Any], _run: TaskRun, state: State[Any]) -> bool:
    """Decide for Prefect whether a failed task run is retried."""
    error = state.data
    return isinstance(error, Retryable) and not isinstance(error, Unavailable) and is_soon(error)


def retried_task(function: Callable[P, R], *, name: str = "", retries: int = RETRIES) -> Task[P, R]:
    """Make a task that retries `Retryable` errors with growing delays and stores no result."""
    # No timeout: Prefect cannot interrupt a task in a thread. Each request of a step has a timeout of its own.
    return task(
        name=name or function.__name__,
        description=function.__doc__,
        retries=retries,
        retry_delay_seconds=exponential_backoff(1),
        retry_jitter_factor=0.5,
        retry_condition_fn=is_retryable,
        cache_policy=NO_CACHE,
        persist_result=False,
    )(function)


discover = retried_task(steps.discover)
fetch = retried_task(steps.fetch)
parse = retried_task(steps.parse)
chunk = retried_task(steps.chunk)
embed = retried_task(steps.embed)
upsert = retried_task(steps.upsert)
shadow = retried_task(steps.shadow)

StepTask = Task[[Work, Predecessors], StepResult]
REBUILDING: Final[tuple[StepTask, ...]] = (chunk, embed, shadow)
"""Steps of a document for another model or vector store."""


def name_task(step: Task[P, R], label: str, source: str = "") -> Task[P, R]:
    """Name a task run by its documents, and tag it with step and source for concurrency limits."""
    tags = [step.name, *([FLOWS[source].removeprefix("ingest-")] if source else [])]
    return step.with_options(task_run_name=f"{step.name} {label}".strip(), tags=tags)


async def run_step(step: StepTask, work: Work, after: Predecessors = None) -> Predecessors:
    """Run a step as a task, settle its job runs and return its result; `after` if no open document is left.

    Documents that the step cannot process fail with the reason.
    """
    if step is not fetch and not run_documents.open_of(work.db, work.window):
        return after
    result = after
    named_step, waits = name_task(step, work.label, work.lease.source), LongWaits(work.db, work.lease)
    while True:
        try:
            result = await asyncio.to_thread(named_step, work, after)
        except Unavailable as error:  # the documents wait for the vendor's breaker
            get_run_logger().warning("%s: %s", step.name, error)
        except Retryable as error:
            if await waits.wait(error):
                continue
            get_run_logger().warning("%s gave up: %s", step.name, without_query(str(error)))
            _fail_remaining(step.name, work, error)
        except Superseded:
            raise
        except Fatal as error:
            get_run_logger().warning("%s failed: %s", step.name, without_query(str(error)))
            run_documents.fail_items(work.db, work.lease, dict.fromkeys(work.window, str(error)))
        results.settle_runs(work.db, work.lease)
        return result


def _fail_remaining(step: str, work: Work, error: Retryable) -> None:
    """Fail the documents that have not passed the step and wait for no breaker."""
    remaining = [key for key in run_documents.not_past(work.db, work.lease, work.window, step) if not work.waits(key)]
    reasons = {key: _exhausted_message(step, error.each.get(key, error)) for key in remaining}
    run_documents.fail_items(work.db, work.lease, reasons)


def _exhausted_message(step: str, error: Retryable) -> str:
    attempts = f"It was tried {RETRIES + 1} times; retry when the cause is gone."
    later = f"It asks to wait for {(error.after or 0) / 60:,.0f} minutes: retry after that."
    return f"{step}: {error} {attempts if is_soon(error) else later}"


class LongWaits:
    """Waits of a step for a vendor's Retry-After or for disk space, at most `MAX_WAIT_SECONDS` in total."""

    def __init__(self, db: Database, lease: Lease) -> None:
        self._db, self._lease, self._seconds_left = db, lease, MAX_WAIT_SECONDS

    async def wait(self, error: Retryable) -> bool:
        """Wait as the error requires; return False if the step must give up."""
        is_full = disk_full.full_disk_reason(error) is not None
        seconds = FULL_DISK_SECONDS if is_full else error.after or 0
        if isinstance(error, Unavailable) or is_soon(error) or seconds > self._seconds_left:
            return False
        self._seconds_left -= seconds
        event = "step.disk_full" if is_full else "step.rate_limited"
        log.info(event, batch_id=self._lease.batch_id, seconds=round(seconds))
        await asyncio.to_thread(self._sleep, seconds)
        return True

    def _sleep(self, seconds: float) -> None:
        """Sleep until the time is over or the batch is cancelled."""
        ends = time.monotonic() + seconds
        while (seconds_left := ends - time.monotonic()) > 0 and batches.is_wanted(self._db, self._lease):
            time.sleep(min(seconds_left, CANCEL_CHECK_SECONDS))


async def wait_and_repeat(db: Database, lease: Lease, step: Callable[[], R]) -> R:
    """Call a step in a thread, and again after each wait that a vendor or a full disk requires."""
    waits = LongWaits(db, lease)
    while True:
        try:
            return await asyncio.to_thread(step)
        except Retryable as error:
            if not await waits.wait(error):
                raise
