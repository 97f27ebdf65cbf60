"""Flows use only Prefect's documented API."""

from __future__ import annotations

import ast
import inspect
import re

from flows import prefect_errors
from retrieval.settings import PROJECT_ROOT

SOURCE_FILES = [
    path
    for package in ("api", "bench", "connectors", "flows", "local", "retrieval", "ui")
    for path in sorted((PROJECT_ROOT / package).rglob("*.py"))
]
# Modules documented in Prefect's API reference and guides.
DOCUMENTED = (
    "prefect",
    "prefect.artifacts",
    "prefect.automations",
    "prefect.blocks.webhook",
    "prefect.cache_policies",
    "prefect.client.orchestration",
    "prefect.client.schemas",
    "prefect.context",
    "prefect.events",
    "prefect.events.clients",
    "prefect.exceptions",
    "prefect.flows",
    "prefect.logging",
    "prefect.runtime",
    "prefect.server.api.server",
    "prefect.settings",
    "prefect.states",
    "prefect.tasks",
    "prefect.workers.base",
)

# Preloaded by the parent process of flow runs; no name of these modules is used.
AHEAD = frozenset({"prefect.flow_engine", "prefect.task_engine", "prefect.utilities.visualization"})


def internals_of(source: str) -> set[str]:
    """Imports from undocumented modules or of private names, and private members of the worker's base class."""
    from prefect.workers.base import BaseWorker
    from prefect.workers.process import ProcessWorker

    members = {name for name in (*dir(BaseWorker), *vars(ProcessWorker(work_pool_name="none"))) if name[0] == "_"}
    inherits = "BaseWorker" in source
    internals = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "prefect":
            public = node.module in DOCUMENTED or (node.module or "").startswith("prefect.client.schemas.")
            internals |= {
                f"{node.module}:{alias.name}" for alias in node.names if not public or alias.name.startswith("_")
            }
        elif isinstance(node, ast.Import):
            internals |= {
                alias.name for alias in node.names if alias.name.startswith("prefect.") and alias.name not in DOCUMENTED
            }
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            of = ast.unparse(node.value)
            if of == "super()" or (inherits and of == "self" and node.attr in members):
                internals.add(f"{of}.{node.attr}")
    return internals


def test_nothing_private_or_undocumented_of_prefect_is_used():
    sources = {str(path.relative_to(PROJECT_ROOT)): path.read_text() for path in SOURCE_FILES}
    used = {name: internals_of(source) - AHEAD for name, source in sources.items() if "prefect" in source}
    wrong = {name: internals for name, internals in used.items() if internals}
    assert not wrong, "Use what Prefect documents; add a module of its reference to DOCUMENTED in this test."


def test_no_private_method_of_a_worker_is_overridden():
    from prefect.workers.base import BaseJobConfiguration, BaseWorker

    from flows.worker.warm_worker import WarmConfiguration, WarmWorker

    for subclass, base in ((WarmWorker, BaseWorker), (WarmConfiguration, BaseJobConfiguration)):
        overridden = {name for name, value in vars(subclass).items() if callable(value) and hasattr(base, name)}
        private = {name for name in overridden if name.startswith("_") and not name.startswith("__")}
        assert not private, f"Rename these methods of {subclass.__name__}: Prefect has private ones of that name."


def given_names(path, states_of_prefect):
    """Return state names created by a flow module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in states_of_prefect:
            for value in [keyword.value for keyword in node.keywords if keyword.arg == "name"]:
                yield value.value if isinstance(value, ast.Constant) else getattr(prefect_errors, value.id)


def test_the_guide_has_each_state_of_prefect_and_of_the_flows():
    from prefect import states

    of_prefect = {name for name, _ in inspect.getmembers(states, inspect.isfunction) if name[0].isupper()}
    flow_states = {name for path in (PROJECT_ROOT / "flows").rglob("*.py") for name in given_names(path, of_prefect)}
    assert {"Interrupted", "CompletedWithFailures", "Waiting"} <= flow_states
    guide = (PROJECT_ROOT / "docs" / "guides" / "prefect.md").read_text(encoding="utf-8")
    section = guide.partition("## States")[2].partition("\n## ")[0]
    cells = " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("|"))
    assert of_prefect | flow_states <= set(re.findall(r"[A-Za-z]+", cells))
