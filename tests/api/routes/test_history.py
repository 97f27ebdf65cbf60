"""History of a document: an entry per job run, with the visible version marked."""

from __future__ import annotations

import json


def ask(org, space, document, **query):
    return org.client.get(f"/v1/documents/{document}/history", params={"namespaceId": space, **query})


def end(org, run, *, status="SUCCESS", stage="upserted", chunks=None, error=None):
    # As left by the pipeline for the only document of the run.
    org.db.rows(
        """
        with done as (
            update run_documents set status = %(status)s, stage = %(stage)s, error = %(error)s,
                                     properties = %(properties)s::jsonb
            where job_run_id = %(run)s returning document_id, generation
        ),
        ended as (update job_runs set status = 'COMPLETED', finished_at = now() where id = %(run)s)
        update documents d set status = %(status)s,
               active_generation = case when %(stage)s = 'upserted' then done.generation else d.active_generation end
        from done where d.id = done.document_id
        """,
        {
            "run": run,
            "status": status,
            "stage": stage,
            "error": error,
            "properties": json.dumps({"embeddingCount": chunks} if chunks else {}),
        },
    )


def test_the_history_shows_the_outcome_of_each_run(org, space):
    ways = (
        {"chunks": 3},
        {"stage": "unchanged"},
        {"chunks": 5},
        {"status": "FAILED", "stage": "fetched", "error": "embed: the model's account is empty. Pay it."},
    )
    runs = []
    for number, outcome in enumerate(ways):
        accepted = org.text(space, f"version {number}", name="notes")["data"]
        runs.append(accepted["ingestJobRunId"])
        end(org, runs[-1], **outcome)
    document = accepted["documents"][0]["id"]
    history = ask(org, space, document).json()["data"]["history"]
    assert [entry["ingestJobRun"]["id"] for entry in history] == runs[::-1]
    assert [entry["status"] for entry in history] == ["FAILED", "SUCCESS", "SUCCESS", "SUCCESS"]
    assert [entry["active"] for entry in history] == [False, True, False, False]
    assert [entry["unchanged"] for entry in history] == [False, False, True, False]
    assert [entry["chunks"] for entry in history] == [None, 5, None, 3]
    assert "account is empty" in history[0]["error"]
    assert history[0]["finishedAt"]["isoString"] >= history[0]["createdAt"]["isoString"]
