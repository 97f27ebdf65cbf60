"""Steps as Prefect tasks, with the one retry policy: only `Retryable` is tried again, with growing delays and jitter.

What asks for a longer wait than these tries come to is not tried by them: `backoff` waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task, exponential_backoff

from flows import backoff, steps
from retrieval.errors import Retryable, Unavailable

P = ParamSpec("P")
R = TypeVar("R")
RETRIES = 4


def is_retryable(_task: Task[..., Any], _run: TaskRun, state: State[Any]) -> bool:
    """Prefect's question before each retry."""
    error = state.data
    return isinstance(error, Retryable) and not isinstance(error, Unavailable) and backoff.is_soon(error)


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
