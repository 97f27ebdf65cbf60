"""Prefect tasks of the pipeline: retries, names and tags."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar, cast

from prefect import tags, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.settings import get_current_settings
from prefect.tasks import Task, exponential_backoff

from flows import steps
from flows.deployments import FLOW_NAMES
from flows.long_waits import MAX_RETRIES, LongWaits, permits_task_retry
from flows.step_outcome import Predecessors, StepResult, TaskResult
from flows.steps import Work
from flows.tag_limits import tag_limits
from retrieval.database.database import Database
from retrieval.errors import Retryable, Unavailable
from retrieval.ingestion.queries import results
from retrieval.jobs.queries.batches import Lease

StepParams = ParamSpec("StepParams")
ResultT = TypeVar("ResultT")
# No result is stored. A flow without a storage would request the default one from Prefect's server in each run.
RESULT_STORAGE: Final[Any] = get_current_settings().results.local_storage_path
_label: ContextVar[str] = ContextVar("label", default="")


def is_retryable(_task: Task[..., Any], _run: TaskRun, state: State[Any]) -> bool:
    """Decide for Prefect if a failed task run is retried."""
    error = state.data
    return isinstance(error, Retryable) and not isinstance(error, Unavailable) and permits_task_retry(error)


def retried_task(
    function: Callable[StepParams, ResultT], *, name: str = "", retries: int = MAX_RETRIES, has_tag: bool = True
) -> Task[StepParams, ResultT]:
    """Make a task without stored results; `Retryable` errors are retried with growing delays."""
    name = name or function.__name__
    # No timeout: Prefect cannot interrupt a task in a thread. Each request of a step has a timeout of its own.
    return task(
        name=name,
        task_run_name=partial(_name_run, name),
        tags=[name] if has_tag else [],
        description=function.__doc__,
        retries=retries,
        retry_delay_seconds=exponential_backoff(1),
        retry_jitter_factor=0.5,
        retry_condition_fn=is_retryable,
        cache_policy=NO_CACHE,
        persist_result=False,
    )(function)


def _name_run(step: str) -> str:
    return f"{step} {_label.get()}".strip()


# `name_task` adds the tags.
discover = retried_task(steps.discover, has_tag=False)
fetch = retried_task(steps.fetch, has_tag=False)
parse = retried_task(steps.parse, has_tag=False)
chunk = retried_task(steps.chunk, has_tag=False)
embed = retried_task(steps.embed, has_tag=False)
upsert = retried_task(steps.upsert, has_tag=False)
upsert_inactive = retried_task(steps.upsert_inactive, name=steps.INACTIVE_UPSERT_STEP, has_tag=False)

StepTask = Task[[Any, Predecessors], TaskResult]


def name_task(step: Task[StepParams, ResultT], label: str, source: str = "") -> Callable[StepParams, ResultT]:
    """Return a call of the step with a task run named after the documents, tagged with step and source if limited."""
    candidates = {step.name, *([FLOW_NAMES[source].removeprefix("ingest-")] if source else [])}

    # `Task.with_options` would read and parse the source code of the step, a sixth of a flow run's CPU.
    def call_step(*args: StepParams.args, **kwargs: StepParams.kwargs) -> ResultT:
        token = _label.set(label)
        try:
            with tags(*tag_limits.filter_limited(candidates)):
                return step(*args, **kwargs)
        finally:
            _label.reset(token)

    return call_step


async def run_step(step: StepTask, work: Work, predecessors: Predecessors = None) -> Predecessors:
    """Run a step as a task, then cancel documents of cancelled job runs and complete finished job runs."""
    # A step that waits for a vendor or for disk space is repeated as another task.
    if not work.has_work_for(step.name):
        return predecessors
    named_step = name_task(step, work.label, work.lease.source)
    while True:
        returned = await asyncio.to_thread(named_step, work, predecessors)
        data = await returned.aresult(raise_on_failure=False) if isinstance(returned, State) else returned
        result = cast("StepResult", data)
        if not result.wait_seconds:
            break
        await asyncio.to_thread(work.long_waits.sleep, result.wait_seconds)
    results.settle_runs(work.db, work.lease)
    return result


async def wait_and_repeat(db: Database, lease: Lease, step: Callable[[], ResultT]) -> ResultT:
    """Call a step in a thread, again after waits for a vendor or a full disk."""
    waits = LongWaits(db, lease)
    while True:
        try:
            return await asyncio.to_thread(step)
        except Retryable as error:
            seconds = waits.take_seconds("", error)
            if seconds is None:
                raise
        await asyncio.to_thread(waits.sleep, seconds)
