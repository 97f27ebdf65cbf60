"""Every switch of Prefect's UI, against the bundled server: it answers at once, and ingestion works afterwards."""

import time

import pytest

SECONDS = 2.0
"""In which each switch has its answer; pausing a queue took 60 s, and failed, while Prefect's server ran on SQLite."""
POOL = "/work_pools/retrieval"


@pytest.fixture(scope="module")
def prefect(service):
    with service.prefect() as client:
        yield client


def turn(prefect, method, path, json=None):
    """Send what the UI sends; the answer's body."""
    began = time.monotonic()
    answer = prefect.request(method, path, json=json)
    seconds = time.monotonic() - began
    assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:300]}"
    assert seconds < SECONDS, f"{method} {path} took {seconds:.1f} s"
    return answer.json() if answer.content else None


def deployment(prefect):
    return prefect.get("/deployments/name/ingest-text/ingest-text").raise_for_status().json()


def waiting_run(prefect):
    """A flow run that no worker takes, since it is due in an hour."""
    state = {"type": "SCHEDULED", "state_details": {"scheduled_time": "2099-01-01T00:00:00Z"}}
    path = f"/deployments/{deployment(prefect)['id']}/create_flow_run"
    return turn(prefect, "POST", path, {"parameters": {"batch_id": "bat_none", "attempt": 1}, "state": state})["id"]


def set_state(prefect, run, kind, **details):
    return turn(prefect, "POST", f"/flow_runs/{run}/set_state", {"state": {"type": kind, **details}, "force": False})


def pause_pool(prefect):
    turn(prefect, "PATCH", POOL, {"is_paused": True})
    turn(prefect, "PATCH", POOL, {"is_paused": False})


def limit_pool(prefect):
    turn(prefect, "PATCH", POOL, {"concurrency_limit": 0})
    turn(prefect, "PATCH", POOL, {"concurrency_limit": None})


def pause_queues(prefect):
    for queue in prefect.post(f"{POOL}/queues/filter", json={}).json():
        path = f"{POOL}/queues/{queue['name']}"
        turn(prefect, "PATCH", path, {"is_paused": True})
        turn(prefect, "PATCH", path, {"is_paused": False})


def limit_queues(prefect):
    for queue in prefect.post(f"{POOL}/queues/filter", json={}).json():
        path = f"{POOL}/queues/{queue['name']}"
        turn(prefect, "PATCH", path, {"concurrency_limit": 0, "priority": queue["priority"]})
        turn(prefect, "PATCH", path, {"concurrency_limit": None})


def make_queue(prefect):
    turn(prefect, "POST", f"{POOL}/queues", {"name": "of-a-test", "priority": 9})
    turn(prefect, "DELETE", f"{POOL}/queues/of-a-test")


def pause_deployment(prefect):
    path = f"/deployments/{deployment(prefect)['id']}"
    turn(prefect, "POST", f"{path}/pause_deployment")
    turn(prefect, "POST", f"{path}/resume_deployment")


def limit_deployment(prefect):
    path = f"/deployments/{deployment(prefect)['id']}"
    turn(prefect, "PATCH", path, {"concurrency_limit": 1})
    turn(prefect, "PATCH", path, {"concurrency_limit": None})


def switch_schedules(prefect):
    path = f"/deployments/{deployment(prefect)['id']}"
    (made,) = turn(prefect, "POST", f"{path}/schedules", [{"schedule": {"interval": 864000}, "active": False}])
    turn(prefect, "PATCH", f"{path}/schedules/{made['id']}", {"active": True})
    turn(prefect, "PATCH", f"{path}/schedules/{made['id']}", {"active": False})
    turn(prefect, "DELETE", f"{path}/schedules/{made['id']}")


def limit_by_tag(prefect):
    turn(prefect, "POST", "/concurrency_limits/", {"tag": "of-a-test", "concurrency_limit": 1})
    turn(prefect, "POST", "/concurrency_limits/tag/of-a-test/reset", {})
    turn(prefect, "DELETE", "/concurrency_limits/tag/of-a-test")


def limit_globally(prefect):
    made = turn(prefect, "POST", "/v2/concurrency_limits/", {"name": "of-a-test", "limit": 1})
    turn(prefect, "PATCH", f"/v2/concurrency_limits/{made['id']}", {"active": False, "limit": 0})
    turn(prefect, "DELETE", f"/v2/concurrency_limits/{made['id']}")


def cancel_and_retry_run(prefect):
    run = waiting_run(prefect)
    assert set_state(prefect, run, "CANCELLED")["status"] == "ACCEPT"
    late = {"scheduled_time": "2099-01-01T00:00:00Z"}
    set_state(prefect, run, "SCHEDULED", name="AwaitingRetry", state_details=late)
    turn(prefect, "DELETE", f"/flow_runs/{run}")


def pause_and_suspend_run(prefect):
    run = waiting_run(prefect)
    running = {"state": {"type": "RUNNING"}, "force": True}
    assert turn(prefect, "POST", f"/flow_runs/{run}/set_state", running)["status"] == "ACCEPT"
    details = {"pause_timeout": "2099-01-01T00:00:00Z", "pause_reschedule": True}
    assert set_state(prefect, run, "PAUSED", name="Suspended", state_details=details)["status"] == "ACCEPT"
    turn(prefect, "POST", f"/flow_runs/{run}/resume")
    assert set_state(prefect, run, "CANCELLING")["status"] in ("ACCEPT", "REJECT")
    turn(prefect, "DELETE", f"/flow_runs/{run}")


def set_states(prefect):
    for kind in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED"):
        run = waiting_run(prefect)
        assert set_state(prefect, run, kind)["status"] == "ACCEPT"
        turn(prefect, "PATCH", f"/flow_runs/{run}", {"name": "renamed", "tags": ["of-a-test"]})
        turn(prefect, "DELETE", f"/flow_runs/{run}")


SWITCHES = (
    pause_pool,
    limit_pool,
    pause_queues,
    limit_queues,
    make_queue,
    pause_deployment,
    limit_deployment,
    switch_schedules,
    limit_by_tag,
    limit_globally,
    cancel_and_retry_run,
    pause_and_suspend_run,
    set_states,
)


def test_each_switch_of_prefects_ui_answers_at_once_and_ingestion_goes_on(service, prefect):
    for switch in SWITCHES:
        switch(prefect)
    service.wait(service.text("Sent after all switches.")["ingestJobRunId"], seconds=30)
