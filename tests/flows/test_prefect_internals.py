"""What this service uses of Prefect beyond its public API, by name: a new Prefect shows here what it broke.

tests/architecture/test_prefect.py sees to it that nothing else is used, and nowhere but in flows/prefect_internals.
"""

from __future__ import annotations

import importlib
import inspect

import pytest

from tests.architecture.test_prefect import USED

PARAMETERS = {
    "prefect._internal.control_listener:_set_intent": ("value",),
    "prefect._flow_run_suspension:mark_flow_run_suspension_requested": ("flow_run_id", "state"),
    "prefect.client.base:clamped_poisson_interval": ("average_interval", "clamping_factor"),
    "prefect.engine:handle_engine_signals": ("flow_run_id",),
    "prefect.events.clients:get_events_client": (),
    "prefect.filesystems:LocalFileSystem": ("basepath",),
    "prefect.flow_engine:observe_flow_run_suspension": ("flow_run_id", "suspension_request", "polling_interval"),
    "prefect.flow_engine:run_flow": ("flow", "flow_run", "error_logger", "return_type"),
    "prefect.logging.loggers:flow_run_logger": ("flow_run",),
    "prefect.utilities.callables:parameter_schema": ("fn",),
    "prefect.utilities.math:clamped_poisson_interval": ("average_interval", "clamping_factor"),
    "prefect.workers.base:BaseJobConfiguration._base_environment": (),
    "prefect.workers.base:BaseWorker._get_scheduled_flow_runs": (),
    "prefect.client.orchestration:PrefectClient.get_scheduled_flow_runs_for_work_pool": (
        "work_pool_name",
        "scheduled_before",
        "work_queue_names",
    ),
    "prefect.client.orchestration:PrefectClient.hello": (),
    "prefect.workers.base:BaseWorker._give_worker_labels_to_flow_run": ("flow_run_id",),
    "prefect.workers.base:BaseWorker._propose_pending_state": ("flow_run",),
    "prefect.workers.base:BaseWorker._propose_submitting_state": ("flow_run",),
    "prefect.workers.base:BaseWorker.kill_infrastructure": ("infrastructure_pid", "configuration", "grace_seconds"),
}
"""Where it is, and the parameters that are passed or taken."""


@pytest.mark.parametrize("name", PARAMETERS)
def test_what_is_used_of_prefect_is_there_and_takes_the_same(name):
    module, _, path = name.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    assert set(PARAMETERS[name]) <= set(inspect.signature(found).parameters)


def test_a_worker_knows_which_runs_it_is_submitting():
    from prefect.workers.process import ProcessWorker

    assert ProcessWorker(work_pool_name="none")._submitting_flow_run_ids == set()


def test_a_worker_knows_what_to_ask_its_pool_for():
    from prefect.workers.process import ProcessWorker

    worker = ProcessWorker(work_pool_name="none", work_queues=["short"], prefetch_seconds=3)
    assert (worker._work_pool_name, set(worker._work_queues), worker._prefetch_seconds) == ("none", {"short"}, 3)


@pytest.mark.parametrize("used", sorted(name for name in USED if name.startswith("prefect.")))
def test_each_import_has_its_parameters_named(used):
    assert any(name.replace(":", ".").startswith(used.replace(":", ".")) for name in PARAMETERS)
