"""Prefect beyond its documented API lies behind `flows/prefect_internals`, so that an upgrade has one place to look."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PLACE = PROJECT / "flows" / "prefect_internals"
SOURCES = [
    path
    for package in ("api", "bench", "connectors", "flows", "local", "retrieval", "ui")
    for path in sorted((PROJECT / package).rglob("*.py"))
]
DOCUMENTED = (
    "prefect",
    "prefect.artifacts",
    "prefect.cache_policies",
    "prefect.client.orchestration",
    "prefect.client.schemas",
    "prefect.context",
    "prefect.events",
    "prefect.exceptions",
    "prefect.flows",
    "prefect.logging",
    "prefect.server.api.server",
    "prefect.settings",
    "prefect.states",
    "prefect.tasks",
    "prefect.workers.base",
)
"""Modules of Prefect's API reference and guides; what they name without an underscore may be used anywhere in flows."""

USED = frozenset(
    {
        "prefect._internal.control_listener:_set_intent",
        "prefect._flow_run_suspension:mark_flow_run_suspension_requested",
        "prefect.client:base",
        "prefect.engine:handle_engine_signals",
        "prefect.events.clients:get_events_client",
        "prefect.filesystems:LocalFileSystem",
        "prefect.flow_engine",
        "prefect.flow_engine:run_flow",
        "prefect.logging.loggers:flow_run_logger",
        "prefect.utilities.callables:parameter_schema",
        "prefect.utilities.math:clamped_poisson_interval",
        "super()._give_worker_labels_to_flow_run",
        "super()._propose_pending_state",
        "self._client",
        "self._prefetch_seconds",
        "self._runs_task_group",
        "self._submitting_flow_run_ids",
        "self._work_pool_name",
        "self._work_queues",
    }
)


def internals_of(source: str) -> set[str]:
    """Imports from undocumented modules or of private names, and private members of the worker's base class."""
    from prefect.workers.base import BaseWorker
    from prefect.workers.process import ProcessWorker

    members = {name for name in (*dir(BaseWorker), *vars(ProcessWorker(work_pool_name="none"))) if name[0] == "_"}
    inherits = "BaseWorker" in source or "ClaimingWorker" in source
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "prefect":
            public = node.module in DOCUMENTED or (node.module or "").startswith("prefect.client.schemas.")
            found |= {f"{node.module}:{one.name}" for one in node.names if not public or one.name.startswith("_")}
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names if one.name.startswith("prefect.") and one.name not in DOCUMENTED}
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            of = ast.unparse(node.value)
            if of == "super()" or (inherits and of == "self" and node.attr in members):
                found.add(f"{of}.{node.attr}")
    return found


def test_what_is_private_or_undocumented_of_prefect_is_used_in_one_place():
    here, elsewhere = set(), {}
    for path in SOURCES:
        source = path.read_text()
        if "prefect" not in source:
            continue
        if path.is_relative_to(PLACE):
            here |= internals_of(source)
        elif found := internals_of(source):
            elsewhere[str(path.relative_to(PROJECT))] = found
    assert elsewhere == {}
    assert here == USED


def test_it_is_seen_where_it_is_used():
    source = inspect.cleandoc("""
        import prefect.flow_engine
        from prefect.engine import handle_engine_signals
        from prefect.flows import Flow, _private
        from prefect.workers.base import BaseWorker

        class Worker(BaseWorker):
            def look(self):
                return self._submitting_flow_run_ids, self._mine
    """)
    assert internals_of(source) == {
        "prefect.flow_engine",
        "prefect.engine:handle_engine_signals",
        "prefect.flows:_private",
        "self._submitting_flow_run_ids",
    }
