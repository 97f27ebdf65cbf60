"""Whatever process dies, no accepted document is lost or doubled and every job run reaches its end."""

import os
import signal
import time

import httpx
import pytest

DOCUMENTS = 200


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
    made = service_of_module(lease_seconds="6")
    made.expects_kills()
    return made


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("role", ["api", "worker", "prefect", "postgres"])
def test_a_killed_process_costs_no_document(service, role):
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
