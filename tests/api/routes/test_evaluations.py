"""Runs of an evaluation are listed by what came out, over HTTP, without reading what each question did."""

from __future__ import annotations

import asyncio
import json

import pytest

from retrieval.database.database import Database
from retrieval.evaluations import runs
from retrieval.ports import Scope
from tests.api.support import assert_error

SETTING = {"name": "words", "semanticWeight": 0.0, "keywordWeight": 1.0}
METRIC = {"value": 1.0, "ci95": [1.0, 1.0], "deltaCi95": None}
NAMES = ("ndcgAt10", "recallAt10", "recallAt100", "mrr")


def listed_by(org, scope, evaluation):
    """The runs as the service reads them, by connections of their own: those of the others belong to their loop."""

    async def read():
        own = Database(org.db.url, size=1)
        try:
            return (await runs.list_part(own, scope, evaluation, None)).items
        finally:
            await own.async_close()

    return asyncio.run(read())


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
    (read,) = listed_by(org, Scope(org.id, space, ""), made["id"])
    assert read.result is not None
    assert "questions" not in read.result
    other = org.namespace()
    assert_error(org.client.get(path, params={"namespaceId": other}), 404, "NOT_FOUND")
    changed = {"namespaceId": other, "name": "mine"}
    assert_error(org.client.patch(f"/v1/evaluations/{made['id']}", json=changed), 404, "NOT_FOUND")


def asked(org, space, questions, name="set"):
    return org.client.post("/v1/evaluations", json={"namespaceId": space, "name": name, "questions": questions})


@pytest.mark.decision("D74")
def test_ten_runs_at_most_wait_or_go_on_in_a_scope(org):
    space, other = org.namespace(), org.namespace()
    question = {"query": "owls", "relevant": [{"externalId": "x"}]}
    ids = [asked(org, where, [question]).json()["data"]["evaluation"]["id"] for where in (space, space, other)]

    def start(evaluation, where):
        body = {"namespaceId": where, "settings": [SETTING]}
        return org.client.post(f"/v1/evaluations/{evaluation}/runs", json=body)

    assert [start(ids[number % 2], space).status_code for number in range(10)] == [200] * 10
    refused = start(ids[0], space)
    assert assert_error(refused, 400, "INVALID_REQUEST")["error"]["details"]["reason"] == "too_many_runs"
    assert start(ids[2], other).status_code == 200
    org.db.rows(
        "update evaluation_runs set finished_at = now() where evaluation_id = %(id)s returning id", {"id": ids[1]}
    )
    assert start(ids[0], space).status_code == 200


@pytest.mark.decision("D74")
def test_judged_documents_are_bounded(org, monkeypatch):
    monkeypatch.setattr("retrieval.evaluations.evaluations.MOST_JUDGED", 5)
    space = org.namespace()
    question = {"query": "owls", "relevant": [{"externalId": str(number)} for number in range(3)]}
    refused = asked(org, space, [question, question])
    assert assert_error(refused, 400, "INVALID_REQUEST")["error"]["details"]["reason"] == "number_of_judged_documents"
    made = asked(org, space, [question]).json()["data"]["evaluation"]["id"]
    body = {"namespaceId": space, "add": [question]}
    assert_error(org.client.patch(f"/v1/evaluations/{made}", json=body), 400, "INVALID_REQUEST")
    assert len(org.client.get("/v1/evaluations", params={"namespaceId": space}).json()["data"]["evaluations"]) == 1
