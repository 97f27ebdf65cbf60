"""Steps as Prefect tasks, with the one retry policy: only `Retryable` is tried again, with growing delays and jitter.

`wait_and_repeat` waits for what takes longer than these tries: a vendor's Retry-After, a full disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

import structlog
from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task, exponential_backoff

from flows import steps
from retrieval.database import disk_full
from retrieval.database.database import Database
from retrieval.errors import Retryable, Unavailable
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease

log = structlog.get_logger()

P = ParamSpec("P")
R = TypeVar("R")
RETRIES = 4


def is_retryable(_task: Task[..., Any], _run: TaskRun, state: State[Any]) -> bool:
    """Prefect's question before each retry."""
    error = state.data
    return isinstance(error, Retryable) and not isinstance(error, Unavailable) and is_soon(error)


def retried_task(function: Callable[P, R], *, name: str = "", retries: int = RETRIES) -> Task[P, R]:
    """Task of a function, under its own name or another, that Prefect retries and neither caches nor stores."""
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


def name_task(task: Task[P, R], label: str) -> Task[P, R]:
    """Task with a name that shows its window, or the job run it lists."""
    return task.with_options(task_run_name=f"{task.name} {label}".strip())


Pipeline = Task[[steps.Work], None]
PIPELINE: tuple[Pipeline, ...] = (fetch, parse, chunk, embed, upsert)
"""In the order in which every document goes through them."""
REBUILDING: tuple[Pipeline, ...] = (chunk, embed, shadow)
"""What a document goes through for another model or vector store."""


SOON: Final = 60.0
"""Seconds that a step's own tries come to: requests wait so long by themselves."""
LONGEST: Final = 600.0
"""Seconds for which a step holds its place in the worker, doing nothing."""
FULL: Final = 10.0
"""Seconds after which a step that met a full disk looks whether there is room: nobody is asked by that."""
LOOK: Final = 2.0
"""Seconds after which a cancellation is noticed."""


def is_soon(error: Retryable) -> bool:
    """Tell whether the step may be tried again at once: before the named time it would be refused again."""
    return (error.after or 0) <= SOON


async def wait_and_repeat(db: Database, lease: Lease, step: Callable[[], None]) -> None:
    """Run the step, and again after each wait that a vendor or a full disk requires. Retryable beyond `LONGEST` in
    total."""
    seconds_left = LONGEST
    while True:
        try:
            return await asyncio.to_thread(step)
        except Unavailable:
            raise
        except Retryable as error:
            is_full = disk_full.full_disk_reason(error) is not None
            wait = FULL if is_full else error.after or 0
            if is_soon(error) or wait > seconds_left:
                raise
        seconds_left -= wait
        event = "step.disk_full" if is_full else "step.rate_limited"
        log.info(event, batch_id=lease.batch_id, seconds=round(wait))
        await asyncio.to_thread(_pass, db, lease, wait)


def _pass(db: Database, lease: Lease, seconds: float) -> None:
    """Wait until the time is over, or the result is not needed."""
    ends = time.monotonic() + seconds
    while (seconds_left := ends - time.monotonic()) > 0 and batches.is_wanted(db, lease):
        time.sleep(min(seconds_left, LOOK))
