"""Pauses, limits and outages in Prefect with an effect on ingestion."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType, Worker, WorkerStatus, WorkPool, WorkQueue
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

from flows.deployments import FLOW_NAMES, STOCK_POOL_TYPES
from flows.dispatch import prefect_client
from flows.dispatch.call_deadline import deadline
from retrieval.jobs.levers import Lever

AWAY_LEVER = Lever("Prefect's server does not answer: nothing new begins until it is back.")
MAX_PAUSED_RUNS = 50


def describe_slowness(seconds: float) -> Lever:
    """Describe a slow Prefect server by the last answer; ingestion continues with delays."""
    return Lever(f"Prefect's server is slow: its last answer came after {seconds:.0f} s.", delays=True)


def failure_lever(error: Exception, pool_name: str) -> Lever:
    """Describe a failed read of Prefect."""
    # The dispatcher registers again whatever Prefect has lost.
    if isinstance(error, ObjectNotFound):
        return Lever(
            f"Prefect does not know the work pool `{pool_name}`: it is registered again, or run `retrieval register`."
        )
    if isinstance(error, TimeoutError) and deadline.slow_seconds is not None:
        return describe_slowness(deadline.slow_seconds)
    if not isinstance(error, PrefectHTTPStatusError):
        return AWAY_LEVER
    status = error.response.status_code
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return Lever(
            f"Prefect refuses the credentials ({status}): nothing new begins until PREFECT_API_AUTH_STRING or"
            " PREFECT_API_KEY of the dispatcher and the workers is one that Prefect accepts."
        )
    return Lever(f"Prefect's server answers with an error ({status}): nothing new begins until it is repaired.")


def _translate_missing_pool(error: Exception) -> Exception:
    """Return ObjectNotFound for a 404, else the error."""
    # Of a deleted pool, Prefect's client translates the 404 of the pool, but not that of its workers.
    if isinstance(error, PrefectHTTPStatusError) and error.response.status_code == HTTPStatus.NOT_FOUND:
        return ObjectNotFound(error)
    return error


@dataclass(frozen=True, slots=True)
class PoolStates:
    """Work pool with its queues, workers and paused flow runs."""

    pool: WorkPool
    queues: Sequence[WorkQueue]
    workers: Sequence[Worker]
    paused_runs: Sequence[FlowRun]


async def read_states(
    client: PrefectClient, pool_name: str, states: PoolStates | None = None
) -> tuple[list[DeploymentResponse], PoolStates]:
    """Read the service's deployments, and the states of their pool if not given. ObjectNotFound for a missing pool."""
    names = DeploymentFilter(name=DeploymentFilterName(any_=list(FLOW_NAMES.values())))
    # At once: a slow server delays the read by one answer.
    try:
        async with asyncio.TaskGroup() as calls:
            deployments = calls.create_task(
                deadline.wait_for(client.read_deployments(deployment_filter=names, limit=200))
            )
            if states is None:
                states = await _read_pool(client, pool_name)
    except ExceptionGroup as errors:
        raise _first_error(errors) from None
    return deployments.result(), states


async def _read_pool(client: PrefectClient, pool_name: str) -> PoolStates:
    paused = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PAUSED])))
    async with asyncio.TaskGroup() as calls:
        pool = calls.create_task(deadline.wait_for(client.read_work_pool(pool_name)))
        queues = calls.create_task(deadline.wait_for(client.read_work_queues(work_pool_name=pool_name)))
        workers = calls.create_task(deadline.wait_for(client.read_workers_for_work_pool(pool_name)))
        runs = calls.create_task(
            deadline.wait_for(client.read_flow_runs(flow_run_filter=paused, limit=MAX_PAUSED_RUNS))
        )
    return PoolStates(pool.result(), queues.result(), workers.result(), runs.result())


def _first_error(errors: ExceptionGroup[Exception]) -> Exception:
    first = errors.exceptions[0]
    return _first_error(first) if isinstance(first, ExceptionGroup) else _translate_missing_pool(first)


def list_levers(deployments: Sequence[DeploymentResponse], states: PoolStates) -> list[Lever]:
    """Return the levers in effect, and Prefect's slowness."""
    levers = [*_pool_levers(states.pool), *_queue_levers(states.queues), *_deployment_levers(deployments)]
    if not any(worker.status == WorkerStatus.ONLINE for worker in states.workers):
        pool_name, is_stock = states.pool.name, states.pool.type in STOCK_POOL_TYPES
        command = f"prefect worker start --pool {pool_name}" if is_stock else "retrieval worker"
        levers.append(Lever(f"No worker of Prefect's work pool `{pool_name}` is online: start `{command}`."))
    if deadline.slow_seconds is not None:
        levers.append(describe_slowness(deadline.slow_seconds))
    return levers + [
        Lever(f"Its flow run `{run.name}` is paused in Prefect: resume it there.", batch=run.parameters["batch_id"])
        for run in states.paused_runs
        if run.parameters.get("batch_id")
        and run.state is not None
        and not prefect_client.FlowRunState.from_state(run.state).is_service_pause
    ]


def _pool_levers(pool: WorkPool) -> Iterator[Lever]:
    label = f"Prefect's work pool `{pool.name}`"
    for reason in _describe_holds(label, "nothing new begins", pool.concurrency_limit, is_paused=pool.is_paused):
        yield Lever(reason)


def _queue_levers(queues: Sequence[WorkQueue]) -> Iterator[Lever]:
    for queue in queues:
        label = f"Prefect's work queue `{queue.name}`"
        effect = "its flow runs do not begin"
        for reason in _describe_holds(label, effect, queue.concurrency_limit, is_paused=queue.is_paused):
            yield Lever(reason, queue=queue.name)


def _deployment_levers(deployments: Sequence[DeploymentResponse]) -> Iterator[Lever]:
    sources = {flow: source for source, flow in FLOW_NAMES.items()}
    for deployment in deployments:
        source, limit = sources[deployment.name], deployment.global_concurrency_limit
        label = f"Prefect's deployment `{deployment.name}`"
        effect = f"job runs of {source} wait"
        for reason in _describe_holds(label, effect, limit.limit if limit else None, is_paused=deployment.paused):
            yield Lever(reason, source=source)


def _describe_holds(label: str, effect: str, limit: int | None, *, is_paused: bool) -> Iterator[str]:
    """Describe a pause or a limit of 0 with the effect."""
    if is_paused:
        yield f"{label} is paused: {effect} until it is resumed there."
    if limit == 0:
        yield f"{label} has a concurrency limit of 0: {effect} until it is raised."
