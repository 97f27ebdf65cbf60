"""Activity of a namespace for the admin app."""

from __future__ import annotations

import time

from retrieval.ports import Scope
from tests.library import Library

HYBRID = {"query": "owls", "hybridConfig": {"semanticWeight": 0, "keywordWeight": 1}}


def activity(org, space, **headers):
    answer = org.client.get("/v1/activity", params={"namespaceId": space}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_runs_and_failures_are_counted(org):
    space = org.namespace()
    org.text(space, "waits")
    Library(org.db, Scope(org.id, space, ""), None).put(name="broken", status="FAILED", visible=False)
    summary = activity(org, space)
    assert summary["runs"]["queued"] == 1
    assert summary["runs"]["oldestQueuedAt"]["isoString"].endswith("Z")
    assert summary["documentsFailedLastDay"] == 1


def test_searches_show_up_with_their_times_and_only_where_they_were_made(org):
    space, other_space = org.namespace(), org.namespace()
    for _ in range(3):
        assert org.client.post("/v1/search/hybrid", json={"namespaceId": space, **HYBRID}).status_code == 200
    deadline = time.monotonic() + 30
    while (searches := activity(org, space)["searches"])["count"] < 3:
        assert time.monotonic() < deadline, searches
        time.sleep(0.2)
    assert 0 < searches["p50"] <= searches["p95"] < 60_000
    assert sum(bucket["count"] for bucket in searches["times"]) == 3
    assert searches["p95"] == max(bucket["milliseconds"] for bucket in searches["times"])
    assert sum(hour["count"] for hour in searches["hours"]) == 3
    assert searches["hours"][-1]["p95"] == searches["p95"]
    assert activity(org, other_space)["searches"]["count"] == 0
