"""Steps as Prefect tasks, with the one retry policy: only `Retryable` is tried again, with growing delays and jitter.

What asks for a longer wait than these tries come to is not tried by them: `waits` sits it out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task, exponential_backoff

from flows import long_waits, steps
from retrieval.errors import Retryable, Unavailable

W = TypeVar("W", steps.Work, steps.Discovery)
P = ParamSpec("P")
RETRIES = 4


def is_retryable(_task: Task[..., Any], _run: TaskRun, state: State[Any]) -> bool:
    """Prefect's question before each retry."""
    return (
        isinstance(state.data, Retryable) and not isinstance(state.data, Unavailable) and long_waits.is_soon(state.data)
    )


def _task(step: Callable[[W], None]) -> Task[[W], None]:
    return task(
        name=step.__name__,
        description=step.__doc__,
        retries=RETRIES,
        retry_delay_seconds=exponential_backoff(1),
        retry_jitter_factor=0.5,
        retry_condition_fn=is_retryable,
        cache_policy=NO_CACHE,
        persist_result=False,
    )(step)


discover = _task(steps.discover)
fetch = _task(steps.fetch)
parse = _task(steps.parse)
chunk = _task(steps.chunk)
embed = _task(steps.embed)
upsert = _task(steps.upsert)
shadow = _task(steps.shadow)


def named(task: Task[P, None], label: str) -> Task[P, None]:
    """Task with a name that shows its window, or the job run it lists."""
    return task.with_options(task_run_name=f"{task.name} {label}".strip())


Pipeline = Task[[steps.Work], None]
PIPELINE: tuple[Pipeline, ...] = (fetch, parse, chunk, embed, upsert)
"""In the order in which every document goes through them."""
REBUILDING: tuple[Pipeline, ...] = (chunk, embed, shadow)
"""What a document goes through for another model or vector store."""
