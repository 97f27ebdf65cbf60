"""Registration of `prefect.yaml` with Prefect's server: the work pool and one deployment per source. Idempotent."""

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
    """Registration refused; the message is for the operator."""


async def register_deployments(pool: str | None = None) -> list[str]:
    """Create or update the work pool and deployments of prefect.yaml; return the deployments' names."""
    # Without `pool`, the deployments stay in their registered pool.
    plan = deployments.read_plan()
    own_pool = settings.load_settings().work_pool
    async with get_client() as client:
        await _ensure_pool(client, own_pool, plan["work_pool"]["type"])
        await _ensure_queues(client, own_pool)
        pool = await _choose_pool(client, pool, own_pool)
        await _ensure_queues(client, pool)
        for deployment in plan["deployments"]:
            await _create_deployment(client, deployment, pool=pool)
    return [f"{deployment['name']}/{deployment['name']}" for deployment in plan["deployments"]]


async def _choose_pool(client: PrefectClient, requested_pool: str | None, own_pool: str) -> str:
    """Return the requested pool, else a registered stock pool, else the service's own."""
    pool = requested_pool or await deployments.find_registered_pool(client)
    if pool == own_pool:
        return pool
    types = ", ".join(deployments.STOCK_POOL_TYPES)
    try:
        kind = (await client.read_work_pool(pool)).type
    except ObjectNotFound:
        advice = f"create it with `prefect work-pool create --type TYPE {pool}`, where TYPE is one of {types}"
        raise RegistrationError(f"Prefect has no work pool {pool}: {advice}.") from None
    if kind in deployments.STOCK_POOL_TYPES:
        return pool
    if requested_pool:
        raise RegistrationError(f"The work pool {pool} has the type {kind}; the deployments run in: {types}.")
    return own_pool


async def _ensure_pool(client: PrefectClient, name: str, kind: str) -> None:
    """Create the pool, or add missing variables to the template."""
    # Settings of operators stay.
    template = WarmWorker.get_default_base_job_template()
    try:
        pool = await client.read_work_pool(name)
    except ObjectNotFound:
        description = "Flow runs of the Retrieval Service, in warm processes."
        new_pool = WorkPoolCreate(name=name, type=kind, base_job_template=template, description=description)
        await _ignore_conflict(client.create_work_pool(new_pool))
        return
    if pool.type != kind:
        raise RegistrationError(
            f"The work pool {name} in Prefect is of the type {pool.type}, not {kind}: "
            "set RETRIEVAL_WORK_POOL to another name."
        )
    merged = _merge_template(pool.base_job_template, template)
    if merged != pool.base_job_template:
        await client.update_work_pool(name, WorkPoolUpdate(base_job_template=merged))


async def _ensure_queues(client: PrefectClient, pool: str) -> None:
    """Create missing work queues in the order of their priority."""
    existing = {queue.name for queue in await client.read_work_queues(work_pool_name=pool)}
    for priority, name in enumerate(fair_queue.WORK_QUEUES, 1):
        if name not in existing:
            creation = client.create_work_queue(
                name, work_pool_name=pool, description=_QUEUE_DESCRIPTIONS[name], priority=priority
            )
            await _ignore_conflict(creation)


async def _ignore_conflict(creation: Awaitable[object]) -> None:
    """Await a creation; accept an existing object."""
    # Dispatchers may register at the same moment.
    try:
        await creation
    except ObjectAlreadyExists:
        return
    except PrefectHTTPStatusError as error:
        if error.response.status_code != HTTPStatus.CONFLICT:
            raise


_QUEUE_DESCRIPTIONS = {
    fair_queue.SHORT_QUEUE: "Short work without outside services; each worker keeps a slot for it.",
    fair_queue.DEFAULT_QUEUE: "An organization's first batch.",
    fair_queue.BULK_QUEUE: "An organization's further batches; they run when no organization's first batch waits.",
}


def _merge_template(template: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Add missing defaults to a template at every level."""
    merged = defaults | template
    for key in defaults.keys() & template.keys():
        if isinstance(defaults[key], dict) and isinstance(template[key], dict):
            merged[key] = _merge_template(template[key], defaults[key])
    return merged


async def _create_deployment(client: PrefectClient, deployment: dict[str, Any], *, pool: str) -> None:
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
    """Register in the given or current work pool; RegistrationError if Prefect refuses the login."""
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
