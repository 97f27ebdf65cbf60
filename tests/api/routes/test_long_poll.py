"""Long polling of job runs."""

from __future__ import annotations

import threading
import time

import pytest


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
