"""Registers `prefect.yaml` with Prefect's server: the work pool and one deployment per source. Safe to repeat."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from http import HTTPStatus
from typing import Any, cast

from prefect import Flow
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound, PrefectHTTPStatusError
from prefect.flows import load_flow_from_entrypoint

from flows import deployments, prefect_errors
from flows.worker.warm_worker import WarmWorker
from retrieval import settings
from retrieval.jobs import fair_queue


class RegistrationError(Exception):
    """Error of a registration, in plain words."""


async def register_deployments(pool: str | None = None) -> list[str]:
    """Create or update the work pool and the deployments of prefect.yaml, and return the deployments' names.

    `pool`: an existing work pool for the deployments; without it they stay in the one that was given before.
    """
    plan = deployments.read_plan()
    own_pool = settings.load_settings().work_pool
    async with get_client() as client:
        await _ensure_pool(client, own_pool, plan["work_pool"]["type"])
        await _ensure_queues(client, own_pool)
        pool = await _choose_pool(client, pool, own_pool)
        await _ensure_queues(client, pool)
        for deployment in plan["deployments"]:
            await _deploy(client, deployment, pool=pool)
    return [f"{deployment['name']}/{deployment['name']}" for deployment in plan["deployments"]]


async def _choose_pool(client: PrefectClient, given: str | None, own_pool: str) -> str:
    """Return the given pool, else that of the deployments if its type is one of Prefect's, else the service's own."""
    pool = given or await deployments.find_registered_pool(client)
    if pool == own_pool:
        return pool
    types = ", ".join(deployments.STOCK_TYPES)
    try:
        kind = (await client.read_work_pool(pool)).type
    except ObjectNotFound:
        advice = f"create it with `prefect work-pool create --type TYPE {pool}`, where TYPE is one of {types}"
        raise RegistrationError(f"Prefect has no work pool {pool}: {advice}.") from None
    if kind in deployments.STOCK_TYPES:
        return pool
    if given:
        raise RegistrationError(f"The work pool {pool} has the type {kind}; the deployments run in: {types}.")
    return own_pool


async def _ensure_pool(client: PrefectClient, name: str, kind: str) -> None:
    """Make the pool, or give the one that is there what it lacks; what operators have set in it stays."""
    template = WarmWorker.get_default_base_job_template()
    try:
        pool = await client.read_work_pool(name)
    except ObjectNotFound:
        description = "Flow runs of the Retrieval Service, in warm processes."
        new_pool = WorkPoolCreate(name=name, type=kind, base_job_template=template, description=description)
        await _unless_there(client.create_work_pool(new_pool))
        return
    if pool.type != kind:
        raise RegistrationError(
            f"The work pool {name} in Prefect is of the type {pool.type}, not {kind}: "
            "set RETRIEVAL_WORK_POOL to another name."
        )
    completed = _completed(pool.base_job_template, template)
    if completed != pool.base_job_template:
        await client.update_work_pool(name, WorkPoolUpdate(base_job_template=completed))


async def _ensure_queues(client: PrefectClient, pool: str) -> None:
    """Make the work queues that are missing, in the order of their priority; what operators have set in them stays."""
    existing = {queue.name for queue in await client.read_work_queues(work_pool_name=pool)}
    for priority, name in enumerate(fair_queue.QUEUES, 1):
        if name not in existing:
            creation = client.create_work_queue(name, work_pool_name=pool, description=_QUEUES[name], priority=priority)
            await _unless_there(creation)


async def _unless_there(made: Awaitable[object]) -> None:
    """Others may register at the same moment, as dispatchers do: what they have made serves as well."""
    try:
        await made
    except ObjectAlreadyExists:
        return
    except PrefectHTTPStatusError as error:
        if error.response.status_code != HTTPStatus.CONFLICT:
            raise


_QUEUES = {
    fair_queue.SHORT: "Short work without outside services; each worker keeps a slot for it.",
    fair_queue.DEFAULT: "An organization's first batch.",
    fair_queue.BULK: "An organization's further batches; they run when no organization's first batch waits.",
}


def _completed(there: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """`there`, and of `ours` what it lacks, at every level."""
    merged = ours | there
    for key in ours.keys() & there.keys():
        if isinstance(ours[key], dict) and isinstance(there[key], dict):
            merged[key] = _completed(there[key], ours[key])
    return merged


async def _deploy(client: PrefectClient, deployment: dict[str, Any], *, pool: str) -> None:
    flow = cast("Flow[..., Any]", await asyncio.to_thread(load_flow_from_entrypoint, deployment["entrypoint"]))
    await client.create_deployment(
        flow_id=await client.create_flow(flow),
        name=deployment["name"],
        description=flow.description,
        tags=deployment["tags"],
        entrypoint=deployment["entrypoint"],
        pull_steps=[],
        work_pool_name=pool,
        parameter_openapi_schema=flow.parameters.model_dump(exclude_unset=True),
        enforce_parameter_schema=True,
        version=deployments.compute_version(),
    )


def main(pool: str | None = None) -> list[str]:
    """Register, in the given work pool or as before; RegistrationError with a sentence where Prefect refuses us."""
    try:
        return asyncio.run(register_deployments(pool))
    except PrefectHTTPStatusError as error:
        if hint := prefect_errors.login_hint(error):
            raise RegistrationError(hint) from error
        raise


if __name__ == "__main__":
    try:
        names = main()
    except RegistrationError as error:
        sys.exit(str(error))
    for name in names:
        print(name)  # noqa: T201  (the command's output)
