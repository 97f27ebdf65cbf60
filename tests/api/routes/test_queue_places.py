"""Queue position and estimated start of a waiting job run."""

from __future__ import annotations

from datetime import datetime

import pytest

from retrieval import ids
from tests.api.routes.test_runs import read_run, run_id_of


@pytest.fixture(autouse=True)
def _nobody_else(org):
    org.db.rows("delete from batches")


def begun(org, run, *, size, ago):
    """Insert a batch of `size` job runs, queued for two seconds and begun `ago` seconds ago."""
    org.db.rows(
        "insert into batches (id, partition_id, source, size, created_at, started_at, finished_at)"
        " select %(id)s, partition_id, source, %(size)s, now() - make_interval(secs => %(ago)s + 2),"
        " now() - make_interval(secs => %(ago)s), now() from job_runs where id = %(run)s",
        {"id": ids.batch_id(), "run": run, "size": size, "ago": ago},
    )


def queue_place(org, space, run):
    data = read_run(org, space, run)
    start = data["estimatedStart"]
    return data["queuePosition"], start and datetime.fromisoformat(start["isoString"])


def test_places_count_only_the_own_queue(org):
    space, other_space = org.namespace(), org.namespace()
    waiting = [run_id_of(org.text(space, f"text {number}")) for number in range(3)]
    theirs = run_id_of(org.text(other_space, "another queue"))
    alice = run_id_of(org.text(space, "another tenant's", tenant="alice"))
    assert [queue_place(org, space, run) for run in waiting] == [(1, None), (2, None), (3, None)]
    assert read_run(org, other_space, theirs)["queuePosition"] == 1
    answer = org.client.get(
        f"/v1/ingest-job-runs/{alice}", params={"namespaceId": space}, headers={"x-tenant-id": "alice"}
    )
    assert answer.json()["data"]["queuePosition"] == 1
