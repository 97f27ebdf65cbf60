"""Queue and workers for the admin app."""

from __future__ import annotations

from retrieval import ids


def queue(org):
    answer = org.client.get("/v1/queue")
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_the_queue_counts_waiting_and_running_work(org, organization):
    stranger, space = organization(), org.namespace()
    waits = org.text(space, "waits")["data"]["ingestJobRunId"]
    begun = org.text(space, "begun")["data"]["ingestJobRunId"]
    assert (queue(org)["queued"], queue(org)["working"]) == (2, [])
    batch = ids.new_id("b_")
    org.db.rows(
        "insert into batches (id, partition_id, source, size, created_at, dispatched_at, started_at, lease_until)"
        " select %(batch)s, partition_id, source, 1, now(), now(), now(), now() + interval '30 s' from job_runs"
        " where id = %(run)s",
        {"batch": batch, "run": begun},
    )
    org.db.rows(
        "update job_runs set batch_id = %(batch)s, status = 'PROCESSING', started_at = now() where id = %(run)s",
        {"batch": batch, "run": begun},
    )
    summary = queue(org)
    assert (summary["queued"], summary["held"], summary["breakers"]) == (1, 0, [])
    assert summary["oldestQueuedAt"]["isoString"].endswith("Z")
    (work,) = summary["working"]
    assert (work["ingestJobRunId"], work["namespaceId"], work["source"], work["jobRuns"]) == (begun, space, "TEXT", 1)
    assert waits not in str(summary)
    strangers_summary = queue(stranger)
    assert (strangers_summary["queued"], strangers_summary["oldestQueuedAt"], strangers_summary["working"]) == (
        0,
        None,
        [],
    )
    org.db.rows("update batches set finished_at = now() where id = %(batch)s", {"batch": batch})
