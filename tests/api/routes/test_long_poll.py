"""Long polling of job runs."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.api.support import assert_error


@pytest.fixture
def run(org):
    """Idle job run with functions for delayed status changes and for reading."""
    space = org.namespace()
    job_run = org.text(space)["data"]["ingestJobRunId"]

    class Run:
        def read(self, **query):
            start = time.monotonic()
            answer = org.client.get(f"/v1/ingest-job-runs/{job_run}", params={"namespaceId": space, **query})
            return answer, time.monotonic() - start

        def moves_on(self, status, seconds):
            def move():
                time.sleep(seconds)
                org.db.rows(
                    "update job_runs set status = %(status)s where id = %(id)s returning id",
                    {"status": status, "id": job_run},
                )

            thread = threading.Thread(target=move)
            thread.start()
            return thread

    return Run()


def status_of(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["status"]


def test_the_answer_comes_when_the_status_changes(run):
    moving = run.moves_on("PROCESSING", 0.7)
    answer, seconds = run.read(waitSeconds=20)
    moving.join()
    assert status_of(answer) == "PROCESSING"
    assert 0.5 < seconds < 5


def test_an_unchanged_run_is_answered_at_the_timeout(run):
    answer, seconds = run.read(waitSeconds=1)
    assert status_of(answer) == "QUEUED"
    assert 0.9 < seconds < 4


def test_a_completed_run_and_another_status_than_the_known_one_answer_at_once(run):
    answer, seconds = run.read(waitSeconds=20, since="PROCESSING")
    assert status_of(answer) == "QUEUED"
    assert seconds < 5
    run.moves_on("COMPLETED", 0).join()
    for since in ({}, {"since": "COMPLETED"}):
        answer, seconds = run.read(waitSeconds=20, **since)
        assert status_of(answer) == "COMPLETED"
        assert seconds < 5


def test_many_wait_for_the_same_run(run):
    with ThreadPoolExecutor(30) as pool:
        waiting = [pool.submit(run.read, waitSeconds=20, since="QUEUED") for _ in range(30)]
        time.sleep(1)
        run.moves_on("PRE_PROCESSING", 0).join()
        results = [future.result() for future in waiting]
    assert {status_of(answer) for answer, _ in results} == {"PRE_PROCESSING"}
    assert max(seconds for _, seconds in results) < 8


@pytest.mark.parametrize("query", [{"waitSeconds": "31"}, {"waitSeconds": "-1"}, {"waitSeconds": "x"}, {"since": "X"}])
def test_a_wait_out_of_range_is_refused(run, query):
    assert_error(run.read(**query)[0], 400, "INVALID_REQUEST")


def test_without_waiting_nothing_is_new(run):
    answer, seconds = run.read()
    assert status_of(answer) == "QUEUED"
    assert status_of(run.read(waitSeconds=0)[0]) == "QUEUED"
    assert seconds < 5
