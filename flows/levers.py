"""Reads the levers of Prefect that hold ingestion back, by its client's public methods."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType, WorkerStatus, WorkPool, WorkQueue
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

from flows.prefect_client import FLOWS, within_deadline
from retrieval.jobs.levers import Lever

AWAY = Lever("Prefect's server does not answer: nothing new begins until it is back.")
_PAUSED_RUNS = 50


def of_failure(error: Exception, pool_name: str) -> Lever:
    """Lever of an unreachable Prefect. The dispatcher registers again what Prefect has lost."""
    if isinstance(error, ObjectNotFound):
        return Lever(
            f"Prefect does not know the work pool `{pool_name}`: it is registered again, or run `retrieval register`."
        )
    if not isinstance(error, PrefectHTTPStatusError):
        return AWAY
    status = error.response.status_code
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return Lever(
            f"Prefect refuses the credentials ({status}): nothing new begins until PREFECT_API_AUTH_STRING or"
            " PREFECT_API_KEY of the dispatcher and the workers is one that Prefect accepts."
        )
    return Lever(f"Prefect's server answers with an error ({status}): nothing new begins until it is repaired.")


@within_deadline
async def read(client: PrefectClient, pool_name: str) -> list[Lever]:
    """The levers that hold something back now."""
    pool = await client.read_work_pool(pool_name)
    queues = await client.read_work_queues(work_pool_name=pool_name)
    names = DeploymentFilter(name=DeploymentFilterName(any_=list(FLOWS.values())))
    deployments = await client.read_deployments(deployment_filter=names, limit=200)
    workers = await client.read_workers_for_work_pool(pool_name)
    levers = [*_of_pool(pool), *_of_queues(queues), *_of_deployments(deployments)]
    if not any(worker.status == WorkerStatus.ONLINE for worker in workers):
        levers.append(Lever(f"No worker of Prefect's work pool `{pool_name}` is online: start `retrieval worker`."))
    paused = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PAUSED])))
    runs = await client.read_flow_runs(flow_run_filter=paused, limit=_PAUSED_RUNS)
    return levers + [
        Lever(f"Its flow run `{run.name}` is paused in Prefect: resume it there.", batch=run.parameters["batch_id"])
        for run in runs
        if "batch_id" in run.parameters
    ]


def _of_pool(pool: WorkPool) -> Iterator[Lever]:
    if pool.is_paused:
        yield Lever(f"Prefect's work pool `{pool.name}` is paused: nothing new begins until it is resumed there.")
    if pool.concurrency_limit == 0:
        yield Lever(
            f"Prefect's work pool `{pool.name}` has a concurrency limit of 0: nothing new begins until it is raised."
        )


def _of_queues(queues: list[WorkQueue]) -> Iterator[Lever]:
    for queue in queues:
        label = f"Prefect's work queue `{queue.name}`"
        if queue.is_paused:
            yield Lever(f"{label} is paused: its flow runs do not begin until it is resumed there.", queue=queue.name)
        if queue.concurrency_limit == 0:
            effect = f"{label} has a concurrency limit of 0: its flow runs do not begin until it is raised."
            yield Lever(effect, queue=queue.name)


def _of_deployments(deployments: list[DeploymentResponse]) -> Iterator[Lever]:
    sources = {flow: source for source, flow in FLOWS.items()}
    for deployment in deployments:
        source, label = sources[deployment.name], f"Prefect's deployment `{deployment.name}`"
        limit = deployment.global_concurrency_limit
        if deployment.paused:
            yield Lever(f"{label} is paused: job runs of {source} wait until it is resumed there.", source=source)
        if limit is not None and limit.limit == 0:
            effect = f"{label} has a concurrency limit of 0: job runs of {source} wait until it is raised."
            yield Lever(effect, source=source)
