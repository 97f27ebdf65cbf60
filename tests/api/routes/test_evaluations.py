"""Runs of an evaluation are listed by what came out, over HTTP, without reading what each question did."""

from __future__ import annotations

import asyncio
import json

import pytest

from retrieval.evaluations import runs
from retrieval.ports import Scope
from tests.api.support import assert_error

SETTING = {"name": "words", "semanticWeight": 0.0, "keywordWeight": 1.0}
METRIC = {"value": 1.0, "ci95": [1.0, 1.0], "deltaCi95": None}
NAMES = ("ndcgAt10", "recallAt10", "recallAt100", "mrr")


@pytest.mark.decision("D74")
def test_runs_are_listed_without_reading_their_questions(org):
    space = org.namespace()
    question = {"query": "owls", "relevant": [{"externalId": "never ingested"}]}
    body = {"namespaceId": space, "name": "birds", "questions": [question]}
    made = org.client.post("/v1/evaluations", json=body).json()["data"]["evaluation"]
    path = f"/v1/evaluations/{made['id']}/runs"
    run = org.client.post(path, json={"namespaceId": space, "settings": [SETTING]}).json()["data"]["run"]
    metrics = {**dict.fromkeys(NAMES, METRIC), "spanRecallAt10": None}
    result = {
        "settings": [{**SETTING, "metrics": metrics, "latencyMs": {"p50": 1.0, "p95": 1.0}}],
        "questions": [{"query": "owls", "ranks": {"words": [None]}}],
    }
    statement = (
        "update evaluation_runs set status = 'COMPLETED', finished_at = now(), result = %(result)s where id = %(id)s"
    )
    org.db.rows(statement + " returning id", {"result": json.dumps(result), "id": run["id"]})
    (listed,) = org.client.get(path, params={"namespaceId": space}).json()["data"]["runs"]
    assert (listed["settings"][0]["metrics"], listed["questions"]) == (metrics, [])
    whole = org.client.get(f"{path}/{run['id']}", params={"namespaceId": space}).json()["data"]["run"]
    assert whole["questions"] == result["questions"]
    (read,) = asyncio.run(runs.list_part(org.db, Scope(org.id, space, ""), made["id"], None)).items
    assert read.result is not None
    assert "questions" not in read.result
    other = org.namespace()
    assert_error(org.client.get(path, params={"namespaceId": other}), 404, "NOT_FOUND")
    changed = {"namespaceId": other, "name": "mine"}
    assert_error(org.client.patch(f"/v1/evaluations/{made['id']}", json=changed), 404, "NOT_FOUND")
