"""Queue position and estimated start of a waiting job run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from retrieval import ids
from retrieval.jobs.queries import batches
from tests.api.routes.test_runs import act, batched, get, run_of, succeeded


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
    data = get(org, space, run)
    start = data["estimatedStart"]
    return data["queuePosition"], start and datetime.fromisoformat(start["isoString"])


def test_places_count_only_the_own_queue(org):
    space, other_space = org.namespace(), org.namespace()
    waiting = [run_of(org.text(space, f"text {number}")) for number in range(3)]
    theirs = run_of(org.text(other_space, "another queue"))
    alice = run_of(org.text(space, "another tenant's", tenant="alice"))
    assert [queue_place(org, space, run) for run in waiting] == [(1, None), (2, None), (3, None)]
    assert get(org, other_space, theirs)["queuePosition"] == 1
    answer = org.client.get(
        f"/v1/ingest-job-runs/{alice}", params={"namespaceId": space}, headers={"x-tenant-id": "alice"}
    )
    assert answer.json()["data"]["queuePosition"] == 1


def test_begun_ended_and_cancelled_runs_have_no_place(org):
    space = org.namespace()
    first, second, third = (run_of(org.text(space, f"text {number}")) for number in range(3))
    succeeded(org, first)
    assert queue_place(org, space, first) == (None, None)
    assert batches.claim_lease(org.db, batched(org, second), 1, seconds=60)
    assert queue_place(org, space, second) == (None, None)
    assert act(org, space, third, "cancel").json()["data"]["queuePosition"] is None


def test_the_start_is_estimated_by_recent_throughput(org):
    space = org.namespace()
    waiting = [run_of(org.text(space, f"text {number}")) for number in range(21)]
    begun(org, waiting[0], size=60, ago=60)
    current_time = datetime.now(UTC)
    first, last = (queue_place(org, space, run)[1] for run in (waiting[0], waiting[-1]))
    assert current_time - timedelta(seconds=1) < first < current_time + timedelta(seconds=4)
    assert current_time + timedelta(seconds=15) < last < current_time + timedelta(seconds=25)


def test_a_run_that_was_lost_waits_again(org):
    space = org.namespace()
    run = run_of(org.text(space))
    batch = batched(org, run)
    assert batches.claim_lease(org.db, batch, 1, seconds=60)
    org.db.rows(
        "update batches set lease_until = null, dispatched_at = null, attempt = 2, flow_run_id = null"
        " where id = %(batch)s",
        {"batch": batch},
    )
    assert queue_place(org, space, run)[0] == 1
