"""Prefect's base worker cancels a pending flow run by its process, under PREFECT_WORKER_ENABLE_CANCELLATION."""

from __future__ import annotations

import asyncio
import platform
from pathlib import Path
from uuid import uuid4

import pytest
from prefect.exceptions import InfrastructureNotAvailable, InfrastructureNotFound

from flows.worker.run_process import RunProcess
from flows.worker.warm_worker import WarmConfiguration, WarmWorker

pytestmark = pytest.mark.service


def test_a_pending_run_is_ended_with_its_process():
    flow_run = uuid4()
    environment = {"PREFECT_API_URL": "http://127.0.0.1:1/api", "PREFECT__FLOW_RUN_ID": str(flow_run)}

    async def kill():
        worker, process = WarmWorker("retrieval"), RunProcess(environment, None)
        worker._processes[flow_run] = process
        await worker.kill_infrastructure(process.name, WarmConfiguration())
        return process.pid, await process.wait()

    pid, code = asyncio.run(asyncio.wait_for(kill(), 60))
    assert code == 0, "a cancelled run is no crash"
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("host", "error"), [(platform.node(), InfrastructureNotFound), ("another-machine", InfrastructureNotAvailable)]
)
def test_a_process_of_another_worker_is_left_alone(host, error):
    with pytest.raises(error, match=f"{host}:1"):
        asyncio.run(WarmWorker("retrieval").kill_infrastructure(f"{host}:1", WarmConfiguration()))
