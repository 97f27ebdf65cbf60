"""Problems by severity, the same in `/v1/problems` and `/v1/queue`."""

from __future__ import annotations

import json
import os
import time

import pytest

from retrieval.accounts import api_keys
from retrieval.jobs import levers
from retrieval.jobs.levers import Lever
from tests.api.support import client_of

PAUSED_POOL = "Prefect's work pool `retrieval` is paused: nothing new begins until it is resumed there."


@pytest.fixture
def pull(api_db):
    """Return a function that records levers of Prefect."""
    yield lambda *pulled: levers.record_levers(api_db, pulled)
    levers.record_levers(api_db, [])


def problems_of(client, **query):
    response = client.get("/v1/problems", params=query)
    assert response.status_code == 200, response.text
    return response.json()["data"]["problems"]


def queue_of(client):
    return client.get("/v1/queue").json()["data"]


def test_the_most_severe_problem_is_first_with_its_cause_remedy_and_age(org, space, library, pull):
    library.put(name="broken.pdf", status="FAILED", visible=False)
    org.text(space, "waits for a worker", name="waiting")
    pull(
        Lever("Prefect's server is slow: its last answer came after 9 s.", delays=True),
        Lever("Prefect's deployment `box` is paused: job runs of BOX wait until it is resumed there.", source="BOX"),
        Lever(PAUSED_POOL),
    )
    problems = problems_of(org.client, namespaceId=space)
    assert [(problem["severity"], problem["kind"]) for problem in problems if problem["kind"] != "MACHINE"] == [
        ("blocked", "PREFECT"),
        ("failing", "PREFECT"),
        ("attention", "FAILED_DOCUMENTS"),
        ("info", "PREFECT"),
    ]
    assert problems[0]["cause"] == "Prefect's work pool `retrieval` is paused."
    assert problems[0]["remedy"] == "Nothing new begins until it is resumed there."
    assert problems[0]["since"] is not None
    assert queue_of(org.client)["stalled"]


def test_a_hidden_passage_that_the_new_version_does_not_have_waits_for_a_person(org, space, library):
    document = library.put(["The price of an owl is five euros."])
    body = {"namespaceId": space, "reason": "outdated", "chunkIndex": 0}
    assert org.client.post(f"/v1/documents/{document}/hidden-passages", json=body).status_code == 200
    assert "HIDDEN_PASSAGES" not in {problem["kind"] for problem in problems_of(org.client, namespaceId=space)}
    library.put(["Owls are priced by weight."], document_id=document, generation=2)
    (problem,) = [p for p in problems_of(org.client, namespaceId=space) if p["kind"] == "HIDDEN_PASSAGES"]
    assert (problem["severity"], problem["count"]) == ("attention", 1)


@pytest.mark.parametrize(
    ("state", "restarts", "cause"),
    [
        ("restarting", 0, "The worker died and is starting again."),
        ("starting", 1, "The worker is starting again (3 s)."),
        ("starting", 0, "The worker is starting (3 s)."),
    ],
)
def test_a_worker_that_the_supervisor_restarts_is_starting_again(org, api_settings, pull, state, restarts, cause):
    pull(Lever("No worker of Prefect's work pool `retrieval` is online: start `retrieval worker`."))
    file = api_settings.home / "state.json"
    worker = {"name": "worker", "state": state, "pid": 1, "since": time.time() - 3, "restarts": restarts}
    file.write_text(json.dumps({"roles": [{"name": "api", "pid": os.getsid(0)}, worker]}))
    try:
        blocked = [problem for problem in problems_of(org.client) if problem["severity"] == "blocked"]
        queue = queue_of(org.client)
    finally:
        file.unlink()
    assert [problem["cause"] for problem in blocked] == [cause]
    assert queue["stalled"]
    assert cause in queue["reasons"]


def test_a_bound_key_sees_no_site_of_others(org, space):
    values = {"key": f"b-{org.id}", "org": org.id}
    org.db.rows(
        "insert into breakers (key, organization_id, name, reason, failures, patience, opened_at, open_until)"
        " values (%(key)s, %(org)s, 'docs.example.com', 'It answers 503.', 4, 60, now() - interval '1 minute',"
        " now() + interval '1 hour')",
        values,
    )
    bound = api_keys.create_key(org.db, org.ring, org.id, "bound", namespace=space).api_key
    try:
        (problem,) = [problem for problem in problems_of(org.client) if problem["kind"] == "NOT_ANSWERING"]
        with client_of(org.base, bound) as client:
            bound_problems = problems_of(client)
    finally:
        org.db.rows("delete from breakers where key = %(key)s", values)
    assert (problem["severity"], problem["count"]) == ("failing", 0)
    assert problem["cause"] == "docs.example.com does not answer: It answers 503."
    assert "docs.example.com" not in str(bound_problems)


def test_the_state_file_of_another_instance_is_not_taken(org, api_settings):
    file = api_settings.home / "state.json"
    worker = {"name": "worker", "state": "starting", "pid": 1, "since": time.time(), "restarts": 1}
    file.write_text(json.dumps({"roles": [{"name": "api", "pid": 1}, worker]}))
    try:
        assert not [problem for problem in problems_of(org.client) if problem["kind"] == "WORKER"]
    finally:
        file.unlink()
