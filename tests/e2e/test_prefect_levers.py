"""Levers of Prefect hold back work, and every status reports the cause."""

import json
import time

import pytest

POOL = "/work_pools/retrieval"


@pytest.fixture(scope="module")
def prefect(service):
    with service.prefect() as client:
        yield client


def deployment(prefect):
    return prefect.get("/deployments/name/ingest-text/ingest-text").raise_for_status().json()


def change_pool(prefect, **values):
    prefect.patch(POOL, json=values).raise_for_status()


def change_queue(prefect, **values):
    prefect.patch(f"{POOL}/queues/short", json=values).raise_for_status()


def change_deployment(prefect, action):
    prefect.post(f"/deployments/{deployment(prefect)['id']}/{action}").raise_for_status()


LEVERS = {
    "work pool `retrieval` is paused": (
        lambda prefect: change_pool(prefect, is_paused=True),
        lambda prefect: change_pool(prefect, is_paused=False),
    ),
    "work pool `retrieval` has a concurrency limit of 0": (
        lambda prefect: change_pool(prefect, concurrency_limit=0),
        lambda prefect: change_pool(prefect, concurrency_limit=None),
    ),
    "work queue `short` is paused": (
        lambda prefect: change_queue(prefect, is_paused=True),
        lambda prefect: change_queue(prefect, is_paused=False),
    ),
    "work queue `short` has a concurrency limit of 0": (
        lambda prefect: change_queue(prefect, concurrency_limit=0),
        lambda prefect: change_queue(prefect, concurrency_limit=None),
    ),
    "deployment `ingest-text` is paused": (
        lambda prefect: change_deployment(prefect, "pause_deployment"),
        lambda prefect: change_deployment(prefect, "resume_deployment"),
    ),
}


def queue_of(service):
    return service.ok(service.client.get("/v1/queue"))


def status_of(service):
    return json.loads(service.run("status", "--json").stdout)


def run_of(service, run):
    return service.job_run(run)


def of_each_kind():
    """Each lever; in CI a queue's only."""
    in_ci = "work queue `short` is paused"
    return [effect if effect == in_ci else pytest.param(effect, marks=pytest.mark.slow) for effect in LEVERS]


@pytest.mark.parametrize("effect", of_each_kind())
def test_a_lever_of_prefect_holds_work_and_every_place_says_so(service, prefect, effect):
    pull, release = LEVERS[effect]
    pull(prefect)
    try:
        service.until(lambda: any(effect in reason for reason in queue_of(service)["reasons"]))
        run = service.text(f"Held by: {effect}.")["ingestJobRunId"]
        holds_back = service.until(
            lambda: [n["reason"] for n in run_of(service, run)["notices"] if effect in n["reason"]]
        )
        assert holds_back, "the job run does not say what holds it back"
        status = status_of(service)
        assert any(effect in lever for lever in status["dispatch"]["levers"])
        assert effect in service.run("status").stdout
        time.sleep(1)
        assert run_of(service, run)["status"] != "COMPLETED", "the lever holds nothing back"
        if "pool" in effect:
            assert queue_of(service)["stalled"] is True
            assert status["healthy"] is False
    finally:
        release(prefect)
    service.wait(run)
    service.until(lambda: not any(effect in reason for reason in queue_of(service)["reasons"]))


def test_a_failed_run_in_prefect_names_the_document_and_the_reason(service, prefect):
    receipt = service.file("broken.pdf", b"%PDF-1.7\nnothing else")
    run = service.wait(receipt["ingestJobRunId"])[0]
    filters = {"flow_runs": {"tags": {"all_": [receipt["ingestJobRunId"]]}}}

    def ended():
        """Wait for the final state of the flow run; its job runs end a moment earlier."""
        (flow_run,) = prefect.post("/flow_runs/filter", json=filters).raise_for_status().json()
        return flow_run if flow_run["end_time"] else None

    flow_run = service.until(ended)
    error = run["documents"]["failed"][0]["error"]
    assert flow_run["state"]["type"] == "FAILED"
    assert flow_run["state"]["message"] == f"1 document: 1 failed. broken.pdf: {error}"
    of_run = {"flow_runs": {"id": {"any_": [flow_run["id"]]}}}
    task_names = {"fetch broken.pdf", "parse broken.pdf"}
    service.until(
        lambda: task_names <= {task["name"] for task in prefect.post("/task_runs/filter", json=of_run).json()},
    )
    key = f"results-{service.namespace.lower().replace('_', '-')}"
    artifact = prefect.get(f"/artifacts/{key}/latest").raise_for_status().json()
    assert "broken.pdf" in artifact["data"]
