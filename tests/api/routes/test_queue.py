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


def test_a_site_that_does_not_answer_holds_its_runs(org, organization):
    stranger, space = organization(), org.namespace()
    run = org.text(space, "needs a vendor")["data"]["ingestJobRunId"]
    key = ids.new_id("k_")
    org.db.rows(
        "insert into breakers (key, organization_id, name, reason, failures, patience, opened_at, open_until)"
        " values (%(key)s, %(org)s, 'docs.example.com', 'It hangs.', 3, 300, now(), now() + interval '1 min')",
        {"key": key, "org": org.id},
    )
    org.db.rows("update job_runs set waits_for = %(key)s where id = %(run)s", {"key": key, "run": run})
    summary = queue(org)
    assert (summary["queued"], summary["held"], summary["oldestQueuedAt"]) == (0, 1, None)
    (breaker,) = summary["breakers"]
    assert (breaker["name"], breaker["reason"], breaker["waitingJobRuns"]) == ("docs.example.com", "It hangs.", 1)
    org.text(space, "needs it, too, as all of the namespace does")
    org.db.rows(
        "update breakers set partitions = array(select partition_id from job_runs where id = %(run)s)"
        " where key = %(key)s",
        {"key": key, "run": run},
    )
    summary = queue(org)
    assert (summary["queued"], summary["held"], summary["breakers"][0]["waitingJobRuns"]) == (0, 2, 2)
    assert queue(stranger)["breakers"] == []
    org.db.rows("delete from breakers where key = %(key)s", {"key": key})
