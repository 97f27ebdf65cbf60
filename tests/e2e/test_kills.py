"""Whatever process dies, no accepted document is lost or doubled and every job run reaches its end."""

import os
import signal
import time

import httpx
import pytest

from tests.standins.webhook_receiver import receiving

DOCUMENTS = 200
EVENTS = (
    "INGEST_JOB_RUN_QUEUED",
    "DOCUMENTS_QUEUED_FOR_INGESTION",
    "INGEST_JOB_RUN_PROCESSING",
    "DOCUMENTS_PROCESSING",
    "DOCUMENTS_READY",
    "INGEST_JOB_RUN_COMPLETED",
)


def post_all(service, restarts: str):
    """Post the documents one by one; an answer that got lost in a restart is asked for again by name."""
    runs = {}
    for number in range(DOCUMENTS):
        text = f"Kill test {restarts} document number {number}: " + f"the word is {restarts}{number}x. " * 20
        for _ in range(120):
            try:
                runs[number] = service.text(text, name=f"{restarts} {number}")["ingestJobRunId"]
                break
            except (httpx.HTTPError, AssertionError):
                time.sleep(0.5)
        else:
            pytest.fail(f"document {number} could not be posted for a minute")
        if number == DOCUMENTS // 2:
            os.kill(service.pid(restarts), signal.SIGKILL)
    return runs


@pytest.fixture(scope="module")
def service(service_of_module):
    made = service_of_module(lease_seconds="6", fetch_allow="127.0.0.0/8")
    made.expects_kills()
    return made


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("role", ["api", "worker", "prefect", "postgres", "dispatcher"])
def test_a_killed_process_costs_no_document(service, role, receiver):
    service.wait(service.text("warm")["ingestJobRunId"])
    runs = post_all(service, role)
    assert len(runs) == DOCUMENTS
    deadline = time.monotonic() + 180
    while True:
        try:
            done = service.wait(*runs.values(), seconds=max(deadline - time.monotonic(), 1))
            break
        except (httpx.HTTPError, AssertionError):
            assert time.monotonic() < deadline
            time.sleep(0.5)
    assert {len(run["documents"]["completed"]) for run in done} == {1}, [
        run for run in done if not run["documents"]["completed"]
    ][:3]
    names = [document["name"] for document in service.documents()]
    assert sorted(n for n in names if n.startswith(role)) == sorted(f"{role} {number}" for number in range(DOCUMENTS))
    for number in (0, DOCUMENTS // 2, DOCUMENTS - 1):
        hits = service.search(f"{role}{number}x", topK=3, hybridConfig={"semanticWeight": 0, "keywordWeight": 1})
        assert [hit["document"]["name"] for hit in hits] == [f"{role} {number}"]
    assert_told(receiver, set(runs.values()))


@pytest.fixture
def receiver(service):
    """An endpoint that hears of the service's namespace while the test runs."""
    with receiving() as place:
        asked = {"url": place.url, "events": ["*"], "namespaceId": service.namespace}
        made = service.ok(service.client.post("/v1/webhooks", json=asked))
        place.secret = made["secret"]
        yield place
        service.client.delete(f"/v1/webhooks/{made['webhook']['id']}")


def assert_told(receiver, runs, seconds=90):
    """Every event of every job run at least once, in order for each, the end last."""
    deadline = time.monotonic() + seconds
    while not runs <= {one.data.get("ingestJobRunId") for one in receiver.taken if one.type == EVENTS[-1]}:
        assert time.monotonic() < deadline, f"{len(receiver.taken)} events came"
        time.sleep(0.2)
    assert receiver.forged == []
    first = {one.id: one for one in reversed(receiver.taken)}
    sequences = sorted(one.data["sequence"] for one in first.values())
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
    for run in runs:
        told = [one for one in first.values() if one.data.get("ingestJobRunId") == run]
        told.sort(key=lambda one: one.at)
        assert [one.data["sequence"] for one in told] == sorted(one.data["sequence"] for one in told)
        assert {one.type.replace("UPDATE", "INGESTION") for one in told} == set(EVENTS)
        assert told[-1].type == EVENTS[-1]
