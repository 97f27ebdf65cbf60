"""What this service uses of Prefect beyond its public API, by name: a new Prefect shows here what it broke."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

FLOWS = Path(__file__).resolve().parents[2] / "flows"
USED = {
    "prefect._internal.control_listener:_set_intent": ("value",),
    "prefect.engine:handle_engine_signals": ("flow_run_id",),
    "prefect.flow_engine:run_flow": ("flow", "flow_run", "error_logger", "return_type"),
    "prefect.logging.loggers:flow_run_logger": ("flow_run",),
    "prefect.server.api.server:create_app": ("final",),
    "prefect.server.database.configurations:AioSqliteConfiguration.begin_transaction": ("session", "with_for_update"),
    "prefect.workers.base:BaseWorker._propose_pending_state": ("flow_run",),
    "prefect.workers.base:BaseWorker.kill_infrastructure": ("infrastructure_pid", "configuration", "grace_seconds"),
}
"""Where it is, and the parameters that are passed or taken."""


@pytest.mark.parametrize("name", USED)
def test_what_is_used_of_prefect_is_there_and_takes_the_same(name):
    module, _, path = name.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    assert set(USED[name]) <= set(inspect.signature(found).parameters)


def test_a_worker_knows_which_runs_it_is_submitting():
    from prefect.workers.process import ProcessWorker

    assert ProcessWorker(work_pool_name="none")._submitting_flow_run_ids == set()


def test_nothing_else_of_prefect_is_used_that_is_private():
    """Imports of private modules and names, and methods of the base class that are called or replaced."""
    found = set()
    for path in FLOWS.rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("prefect"):
                private = "._" in (node.module or "")
                found |= {f"{node.module}:{one.name}" for one in node.names if private or one.name.startswith("_")}
            elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and ast.unparse(node.value) == "super()":
                found |= {f"super().{node.attr}"} - {"super().__init__"}
    assert found == {"prefect._internal.control_listener:_set_intent", "super()._propose_pending_state"}
