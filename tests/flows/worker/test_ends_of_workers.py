"""A worker with a full log disk continues; a failing one ends with its children."""

import subprocess
import sys

import pytest

from tests.flows.worker.test_worker import PROJECT

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


def test_a_worker_that_fails_ends_though_its_children_wait_for_it(tmp_path):
    program = tmp_path / "fails.py"
    program.write_text(FAILS)
    environment = {"PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "whatever it is" in done.stderr
