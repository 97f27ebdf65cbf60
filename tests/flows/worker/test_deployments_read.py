"""A worker survives changes of a deployment between poll and submission."""

import json
import subprocess
import sys

import pytest

from tests.flows.worker.test_worker import OWN, PROJECT, eventually, new_pool

pytestmark = pytest.mark.service
# The worker, with these errors for the next requests of a deployment.
PROGRAM = """
import httpx
from pathlib import Path
from prefect.client.orchestration import PrefectClient
from prefect.exceptions import ObjectNotFound

errors = Path(__file__).with_name("errors")
truth = PrefectClient.read_deployment

async def read(client, deployment_id):
    kind, _, rest = errors.read_text().partition(" ")
    errors.write_text(rest)
    if kind == "deleted":
        raise ObjectNotFound(RuntimeError("404"))
    if kind == "late":
        raise httpx.ReadTimeout("Prefect is busy")
    return await truth(client, deployment_id)

PrefectClient.read_deployment = read

if __name__ == "__main__":
    from flows.worker import program

    program.main()
"""


@pytest.mark.slow
def test_a_run_whose_deployment_cannot_be_read_frees_its_slot(prefect_server, prefect_server_environment, tmp_path):
    assert prefect_server
    (tmp_path / "worker.py").write_text(PROGRAM)
    errors = tmp_path / "errors"
    errors.write_text("")
    with new_pool(prefect_server_environment, tmp_path) as pool, (tmp_path / "worker-0.log").open("wb") as log:
        command = [sys.executable, tmp_path / "worker.py", "--pool", pool.name, "--name", pool.name, "--limit", "1"]
        environment = pool.environment | {
            "PYTHONPATH": str(PROJECT),
            "WARM_TEST": pool.name,
            "RETRIEVAL_WORKER_ENTRYPOINTS": json.dumps(OWN),
        }
        worker = subprocess.Popen(command, env=environment, cwd=PROJECT, stdout=log, stderr=log, start_new_session=True)
        pool.workers.append(worker)
        eventually(lambda: "started!" in pool.log(), 120, pool.log)
        for kind in ("deleted", "late"):
            errors.write_text(kind)
            assert pool.finish(pool.submit("note"), 120) == "Crashed"
            assert not errors.read_text()
        assert pool.finish(pool.submit("note"), 120) == "Completed"
        assert worker.poll() is None
