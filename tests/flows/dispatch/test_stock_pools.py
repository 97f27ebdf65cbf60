"""Deployments in a work pool of Prefect's own types, with the stock process worker."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid

import pytest
from prefect.client.schemas.actions import WorkPoolCreate

from tests.flows import workshop
from tests.flows.conftest import PREFECT
from tests.flows.crawling import accept
from tests.flows.worker.test_worker import PROJECT, eventually, stop


@pytest.fixture(scope="module")
def shop(db, prefect_server, prefect_server_environment, tmp_path_factory):
    assert prefect_server
    folder = tmp_path_factory.mktemp("shop")
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        workshop.opened(
            db, monkeypatch, prefect_server_environment, folder, webScraperConfig={"provider": "BUILTIN"}
        ) as opened,
    ):
        yield opened


def run_register(shop, *arguments):
    """Run `retrieval register` as an operator does."""
    environment = shop.pool.environment | {
        "RETRIEVAL_HOME": str(shop.pool.folder / "home"),
        "RETRIEVAL_PREFECT_API_URL": shop.pool.environment["PREFECT_API_URL"],
        "RETRIEVAL_WORK_POOL": shop.pool.name,
    }
    command = [sys.executable, "-m", "local.cli", "register", *arguments]
    return subprocess.run(command, env=environment, cwd=PROJECT, capture_output=True, text=True, check=False)


@pytest.fixture
def process_pool(shop):
    """Work pool of type process with the deployments registered."""
    name = f"process-{uuid.uuid4().hex[:8]}"
    shop.pool.client.create_work_pool(WorkPoolCreate(name=name, type="process"))
    done = run_register(shop, "--pool", name)
    assert done.returncode == 0, done.stderr
    yield name
    shop.pool.client.delete_work_pool(name)


def start_process_worker(shop, pool):
    """Start `prefect worker start` with the service's settings, outside of the project's folder."""
    number = len(shop.pool.workers)
    variables = {"WARM_TEST": shop.pool.name, "PREFECT_WORKER_HEARTBEAT_SECONDS": "1"}
    for name in ("DATABASE_URL", "SECRET_KEY", "FILES_DIRECTORY", "LEASE_SECONDS", "FETCH_ALLOW", "FETCH_HOST_DELAY"):
        variables[f"RETRIEVAL_{name}"] = shop.pool.environment[f"RETRIEVAL_{name}"]
    with (shop.pool.folder / f"worker-{number}.log").open("wb") as output:
        worker = subprocess.Popen(
            [PREFECT, "worker", "start", "--type", "process", "--pool", pool, "--name", f"stock-{number}"],
            env=shop.pool.environment | variables,
            cwd=shop.pool.folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    shop.pool.workers.append(worker)
    eventually(lambda: "started!" in shop.pool.log(number), 120, lambda: shop.pool.log(number))
    return worker


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_stock_process_worker_ingests_and_recovers_from_an_interruption(shop, slow_site, process_pool):
    worker = start_process_worker(shop, process_pool)
    text = shop.space.text("Owls hunt mice at night.", "owls").job_run_id
    assert shop.until(lambda: shop.done(text), 120).outcome == "SUCCEEDED"
    flow_run = shop.flow_run(text)
    assert flow_run.work_pool_name == process_pool
    assert shop.space.search("owls at night") == ["owls"]

    crawl = accept(shop.space, "WEBSITE", url=f"{slow_site.url}/p0", maxDepth=5, maxLinks=60)
    shop.until(lambda: shop.is_worked_on(crawl) and shop.space.run(crawl).progress["found"], 120)
    stop(worker, 60)
    start_process_worker(shop, process_pool)
    ended = shop.until(lambda: shop.done(crawl), 180)
    assert (ended.outcome, ended.failed) == ("SUCCEEDED", [])
    assert shop.batch(crawl)["attempt"] == 2

    secret = shop.pool.environment["RETRIEVAL_DATABASE_URL"]
    stored = [
        shop.pool.client.read_work_pool(process_pool).model_dump_json(),
        shop.pool.client.read_flow_run(flow_run.id).model_dump_json(),
        shop.pool.client.read_deployment(flow_run.deployment_id).model_dump_json(),
    ]
    assert secret not in json.dumps(stored)
