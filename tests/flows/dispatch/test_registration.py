"""Registration with Prefect is repeatable, keeps operators' changes and reports refusals."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace

import httpx
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate

from flows import deployments, register
from flows.dispatch import dispatcher, levers
from flows.worker import warm_worker
from local import probes
from retrieval import settings
from retrieval.jobs import fair_queue
from tests.flows.conftest import PREFECT

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def registered(prefect_server):
    """Names of the deployments, registered in a pool of this module's own."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("RETRIEVAL_WORK_POOL", "registered")
        settings.load_settings.cache_clear()
        yield frozenset(asyncio.run(register.register_deployments()))
    settings.load_settings.cache_clear()


@pytest.fixture
def pool(registered):
    """Name of that pool."""
    settings.load_settings.cache_clear()
    return "registered"


def test_what_an_operator_set_in_the_pool_stays(pool):
    async def story():
        async with get_client() as client:
            work_pool = await client.read_work_pool(pool)
            template = work_pool.base_job_template
            variables = template["variables"]["properties"]
            variables["grace_seconds"]["default"] = 120
            del variables["labels"], template["job_configuration"]["labels"]  # as in an older version's pool
            changed = WorkPoolUpdate(
                base_job_template=template, concurrency_limit=3, is_paused=True, description="ours"
            )
            await client.update_work_pool(pool, changed)
            await register.register_deployments()
            return await client.read_work_pool(pool)

    work_pool = asyncio.run(story())
    variables = work_pool.base_job_template["variables"]["properties"]
    assert variables["grace_seconds"]["default"] == 120
    assert "labels" in variables
    assert (work_pool.concurrency_limit, work_pool.is_paused, work_pool.description) == (3, True, "ours")


def test_a_registration_without_a_pool_keeps_the_chosen_one(pool):
    async def story():
        async with get_client() as client:
            await client.create_work_pool(WorkPoolCreate(name="stock", type="process"))
            await register.register_deployments("stock")
            await register.register_deployments()
            queues = {queue.name for queue in await client.read_work_queues(work_pool_name="stock")}
            reasons = [lever.effect for lever in levers.list_levers(*await levers.read_states(client, "stock"))]
            chosen = await deployments.find_registered_pool(client)
            await client.delete_work_pool("stock")
        return chosen, queues, reasons

    chosen, queues, reasons = asyncio.run(story())
    assert chosen == "stock"
    assert set(fair_queue.WORK_QUEUES) <= queues
    assert any("prefect worker start --pool stock" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(None, r"no work pool strange.*prefect work-pool create"), ("ecs", r"type ecs.*process, docker, kubernetes")],
)
def test_a_pool_that_is_missing_or_of_another_type_is_refused(pool, kind, reason):
    async def story():
        async with get_client() as client:
            if kind:
                await client.create_work_pool(WorkPoolCreate(name="strange", type=kind))
        await register.register_deployments("strange")

    with pytest.raises(register.RegistrationError, match=reason):
        asyncio.run(story())


def test_a_registration_is_complete_only_with_each_name_in_its_version(pool, prefect_server, registered):
    plan = probes.Registration(
        frozenset(fair_queue.WORK_QUEUES),
        frozenset(name.partition("/")[0] for name in registered),
        deployments.compute_version(),
    )
    assert probes.is_registered(prefect_server, pool, {}, plan)
    assert not probes.is_registered(prefect_server, pool, {}, replace(plan, version="another"))
    assert not probes.is_registered(prefect_server, pool, {}, replace(plan, deployments=plan.deployments | {"lost"}))
    assert not probes.is_registered(prefect_server, "another", {}, plan)


def test_a_dispatcher_registers_what_prefect_has_forgotten(pool, db, monkeypatch):
    monkeypatch.setattr(dispatcher, "REGISTER_DELAY_SECONDS", 0.0)
    names = [deployment["name"] for deployment in deployments.read_plan()["deployments"]]

    async def story():
        looking = dispatcher.Dispatcher(settings.load_settings(), db)

        async def look():
            looking.missing_deployment.set()
            await looking.register_missing(looking.threads[dispatcher.REGISTER_LOOP])

        async with get_client() as client:
            await client.delete_work_pool(pool)  # and all deployments with their database
            for name in names:
                await client.delete_deployment((await client.read_deployment_by_name(f"{name}/{name}")).id)
            await look()
            recreated = {deployment.name: deployment for deployment in await client.read_deployments(limit=200)}
            queues = {queue.name for queue in await client.read_work_queues(work_pool_name=pool)}
        for thread in looking.threads.values():
            thread.close()
        return looking.wake.is_set(), recreated, queues

    woken, recreated, queues = asyncio.run(story())
    assert set(names) <= recreated.keys()
    assert woken
    assert {recreated[name].work_pool_name for name in names} == {pool}
    assert set(fair_queue.WORK_QUEUES) <= queues


COMPARED = {
    "entrypoint",
    "description",
    "tags",
    "work_pool_name",
    "work_queue_name",
    "pull_steps",
    "parameter_openapi_schema",
    "enforce_parameter_schema",
    "parameters",
    "job_variables",
    "schedules",
    "paused",
    "concurrency_limit",
    "path",
}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_prefect_deploy_makes_the_deployments_that_are_registered(
    prefect_server_environment, prefect_server, monkeypatch
):
    monkeypatch.setenv("RETRIEVAL_WORK_POOL", "retrieval")
    settings.load_settings.cache_clear()

    async def read():
        async with get_client() as client:
            read_deployments = [await client.read_deployment_by_name(name) for name in names]
        return {
            deployment.name: (deployment.id, deployment.model_dump(include=COMPARED)) for deployment in read_deployments
        }

    async def delete(registered):
        async with get_client() as client:
            for deployment_id, _ in registered.values():
                await client.delete_deployment(deployment_id)

    names = asyncio.run(register.register_deployments("retrieval"))
    registered = asyncio.run(read())
    asyncio.run(delete(registered))
    command = [PREFECT, "--no-prompt", "deploy", "--all"]
    done = subprocess.run(
        command, env=prefect_server_environment, cwd=settings.PROJECT_ROOT, capture_output=True, text=True, check=False
    )
    settings.load_settings.cache_clear()
    assert done.returncode == 0, done.stdout + done.stderr
    deployed = asyncio.run(read())
    assert deployed.keys() == registered.keys()
    different = {
        (name, key): (value, registered[name][1][key])
        for name, (_, values) in deployed.items()
        for key, value in values.items()
        if value != registered[name][1][key]
    }
    assert not different


PULL_STEPS = {"pull_steps": [{"x": {}}]}


@pytest.mark.slow
def test_deployments_have_no_pull_steps_even_if_an_older_version_made_some(pool, prefect_server):
    async def story():
        async with get_client() as client, httpx.AsyncClient(trust_env=False) as web:
            for planned in deployments.read_plan()["deployments"]:
                deployment = await client.read_deployment_by_name(f"{planned['name']}/{planned['name']}")
                changed = await web.patch(f"{prefect_server}/deployments/{deployment.id}", json=PULL_STEPS)
                assert changed.is_success
        await register.register_deployments()
        async with get_client() as client:
            registered = await client.read_deployments()
        return {
            planned.entrypoint: planned.pull_steps
            for planned in registered
            if planned.entrypoint in warm_worker.allowed_entrypoints()
        }

    steps = asyncio.run(story())
    assert set(steps) == warm_worker.allowed_entrypoints()
    assert not any(steps.values())
