"""A worker with a full log disk continues; a failing one ends with its children."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.worker.test_worker import OWN, PROJECT, eventually, new_pool, stop

pytestmark = pytest.mark.service

FAILS = """
import asyncio, time
from connectors import registry
from flows.worker.run_process import FORK_CONTEXT

if __name__ == "__main__":
    with registry.make_embedding_process(FORK_CONTEXT):
        FORK_CONTEXT.Process(target=time.sleep, args=(600,), daemon=True).start()
        raise RuntimeError("whatever it is")
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_worker_that_can_log_nothing_works_on(prefect_server, prefect_server_environment, tmp_path):
    assert prefect_server
    with new_pool(prefect_server_environment, tmp_path) as pool, Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "flows.worker", "--pool", pool.name, "--name", "w", "--limit", "1"]
        environment = pool.environment | {"WARM_TEST": pool.name, "RETRIEVAL_WORKER_ENTRYPOINTS": json.dumps(OWN)}
        worker = subprocess.Popen(
            command, env=environment, cwd=PROJECT, stdout=full, stderr=full, start_new_session=True
        )
        pool.workers.append(worker)
        eventually(lambda: pool.name in {work_pool.name for work_pool in pool.client.read_work_pools()}, 120, str)
        runs = [pool.submit("note", text=str(number)) for number in range(3)]
        assert [pool.finish(run, seconds=60) for run in runs] == ["Completed"] * 3
        assert sorted(line.split()[1] for line in pool.lines()) == ["0", "1", "2"]
        stop(worker)
        assert worker.returncode == 0


def test_a_worker_that_fails_ends_though_its_children_wait_for_it(tmp_path):
    program = tmp_path / "fails.py"
    program.write_text(FAILS)
    environment = {"PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "whatever it is" in done.stderr
