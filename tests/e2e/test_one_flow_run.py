"""A job run of a discovering source is one flow run across yields, suspensions and restarts."""

import os
import signal
import time

import pytest

from tests.standins import slow_site

# Own service and crawls of half a minute. Quick: yields in tests/flows/test_time_slice.py, states of flow runs in
# tests/flows/dispatch/test_reconciliation.py.
pytestmark = pytest.mark.slow

PAGES = 24
PAGE_SECONDS = 1.0


@pytest.fixture(scope="module")
def site():
    with slow_site.serving(PAGES, PAGE_SECONDS, is_flat=True) as served:
        yield served.url


@pytest.fixture(scope="module")
def service(service_of_module):
    """Service with one slot for flow runs plus one for short texts."""
    return service_of_module(worker_limit="1", fetch_allow="127.0.0.0/8")


@pytest.fixture(scope="module")
def prefect(service):
    with service.prefect() as client:
        yield client


def crawl(service, site):
    body = {
        "namespaceId": service.namespace,
        "ingestConfig": {"source": "WEBSITE", "config": {"url": f"{site}/p0", "maxDepth": 1, "maxLinks": PAGES}},
    }
    return service.ok(service.client.post("/v1/ingest/website", json=body))["ingestJobRunId"]


def flow_runs_of(prefect, job_run):
    return prefect.post("/flow_runs/filter", json={"flow_runs": {"tags": {"all_": [job_run]}}}).json()


def states_of(prefect, flow_run):
    states = prefect.get("/flow_run_states/", params={"flow_run_id": flow_run["id"]}).json()
    return [state["name"] for state in sorted(states, key=lambda state: state["timestamp"])]


def running_flow_run(service, prefect, job_run):
    def read():
        return [run for run in flow_runs_of(prefect, job_run) if run["state_type"] == "RUNNING"]

    return service.until(read)[0]


def read_pages(service, job_run):
    progress = service.job_run(job_run)["progress"] or {}
    return progress.get("fetched", 0) + progress.get("succeeded", 0)


def set_state(prefect, flow_run, **state):
    answer = prefect.post(f"/flow_runs/{flow_run['id']}/set_state", json={"state": state, "force": False})
    assert answer.json()["status"] == "ACCEPT", answer.text


def test_a_crawl_that_yields_its_slot_goes_on_in_the_same_flow_run(service, prefect, site):
    job_run = crawl(service, site)
    flow_run = running_flow_run(service, prefect, job_run)
    time.sleep(2)
    waiting = service.file("long.txt", b"A long report about harbours. " * 4000)["ingestJobRunId"]
    service.wait(waiting)
    assert service.job_run(job_run)["status"] != "COMPLETED", "the crawl ended before it had to yield"
    (run,) = service.wait(job_run)
    assert len(run["documents"]["completed"]) == PAGES
    service.until(lambda: "Completed" in states_of(prefect, flow_run))
    assert [entry["id"] for entry in flow_runs_of(prefect, job_run)] == [flow_run["id"]]
    states = states_of(prefect, flow_run)
    assert "Suspended" in states
    assert "Resuming" in states
    assert "Crashed" not in states


def test_a_persons_suspend_waits_for_the_persons_resume(service, prefect, site):
    job_run = crawl(service, site)
    flow_run = running_flow_run(service, prefect, job_run)
    set_state(prefect, flow_run, type="PAUSED", name="Suspended", state_details={"pause_reschedule": True})
    service.until(
        lambda: any("is paused in Prefect" in notice["reason"] for notice in service.job_run(job_run)["notices"]),
    )
    time.sleep(15)
    pages = read_pages(service, job_run)
    time.sleep(5)
    assert read_pages(service, job_run) == pages, "the suspended flow run goes on"
    assert states_of(prefect, flow_run)[-1] == "Suspended"
    assert service.job_run(job_run)["status"] != "COMPLETED"
    prefect.post(f"/flow_runs/{flow_run['id']}/resume", json={}).raise_for_status()
    (run,) = service.wait(job_run)
    assert len(run["documents"]["completed"]) == PAGES
    assert [entry["id"] for entry in flow_runs_of(prefect, job_run)] == [flow_run["id"]]


@pytest.mark.parametrize("state", ["Completed", "Failed"])
def test_a_final_state_that_a_person_sets_is_obeyed(service, prefect, site, state):
    job_run = crawl(service, site)
    flow_run = running_flow_run(service, prefect, job_run)
    time.sleep(3)
    set_state(prefect, flow_run, type=state.upper(), name=state)
    (run,) = service.wait(job_run)
    assert run["outcome"] == "CANCELLED"
    time.sleep(5)
    assert states_of(prefect, flow_run)[-1] == state
    assert len(flow_runs_of(prefect, job_run)) == 1


def test_a_suspended_flow_run_that_is_cancelled_cancels_its_job_run(service, prefect, site):
    job_run = crawl(service, site)
    flow_run = running_flow_run(service, prefect, job_run)
    set_state(prefect, flow_run, type="PAUSED", name="Suspended", state_details={"pause_reschedule": True})
    time.sleep(8)
    set_state(prefect, flow_run, type="CANCELLED", name="Cancelled")
    (run,) = service.wait(job_run)
    assert run["outcome"] == "CANCELLED"


def test_a_killed_worker_is_replaced_and_the_same_flow_run_goes_on(service, prefect, site):
    service.expects_kills()
    job_run = crawl(service, site)
    flow_run = running_flow_run(service, prefect, job_run)
    time.sleep(3)
    os.kill(service.pid("worker"), signal.SIGKILL)
    (run,) = service.wait(job_run)
    assert len(run["documents"]["completed"]) == PAGES
    assert [entry["id"] for entry in flow_runs_of(prefect, job_run)] == [flow_run["id"]]
    states = states_of(prefect, flow_run)
    assert "Interrupted" in states
    assert "Failed" not in states
