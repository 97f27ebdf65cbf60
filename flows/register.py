"""Registers `prefect.yaml` with Prefect's server: the work pool and one deployment per source. Safe to repeat."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import yaml
from prefect import Flow
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.flows import load_flow_from_entrypoint
from prefect.utilities.callables import parameter_schema

from flows.worker import WarmWorker
from retrieval import settings


async def register() -> list[str]:
    """Create or update everything that prefect.yaml names; the deployments' names."""
    plan = yaml.safe_load((settings.PROJECT / "prefect.yaml").read_text())
    pool = settings.load().work_pool
    async with get_client() as client:
        await client.create_work_pool(
            WorkPoolCreate(
                name=pool,
                type=plan["work_pool"]["type"],
                base_job_template=WarmWorker.get_default_base_job_template(),
                description="Flow runs of the Retrieval Service, in warm processes.",
            ),
            overwrite=True,
        )
        for deployment in plan["deployments"]:
            await _deploy(client, deployment, pull=plan["pull"], pool=pool)
    return [f"{deployment['name']}/{deployment['name']}" for deployment in plan["deployments"]]


async def _deploy(client: PrefectClient, deployment: dict[str, Any], *, pull: list[dict[str, Any]], pool: str) -> None:
    flow = cast("Flow[..., Any]", await asyncio.to_thread(load_flow_from_entrypoint, deployment["entrypoint"]))
    await client.create_deployment(
        flow_id=await client.create_flow(flow),
        name=deployment["name"],
        description=deployment["description"],
        tags=deployment["tags"],
        entrypoint=deployment["entrypoint"],
        pull_steps=pull,
        work_pool_name=pool,
        parameter_openapi_schema=parameter_schema(flow).model_dump(),
        enforce_parameter_schema=True,
    )


if __name__ == "__main__":
    for name in asyncio.run(register()):
        print(name)  # noqa: T201  (the command's output)
