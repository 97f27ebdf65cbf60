"""Evaluations over HTTP: runs, questions, judgements and limits."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from retrieval.database.database import Database
from retrieval.evaluations import runs
from retrieval.ports import Scope
from tests.api.support import assert_error, client_of, serve

SETTING = {"name": "words", "semanticWeight": 0.0, "keywordWeight": 1.0}
METRIC = {"value": 1.0, "ci95": [1.0, 1.0], "deltaCi95": None}
INVALID = "INVALID_REQUEST"
NAMES = ("ndcgAt10", "recallAt10", "recallAt100", "mrr")


def listed_by(org, scope, evaluation):
    # A separate database: connections of the others belong to their event loop.

    async def read():
        database = Database(org.db.url, size=1)
        try:
            return (await runs.list_runs(database, scope, evaluation, None)).items
        finally:
            await database.async_close()

    return asyncio.run(read())


def test_runs_are_listed_without_reading_their_questions(org):
    space = org.namespace()
    question = {"query": "owls", "relevant": [{"externalId": "never ingested"}]}
    body = {"namespaceId": space, "name": "birds", "questions": [question]}
    evaluation = org.client.post("/v1/evaluations", json=body).json()["data"]["evaluation"]
    path = f"/v1/evaluations/{evaluation['id']}/runs"
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
    (listed_run,) = org.client.get(path, params={"namespaceId": space}).json()["data"]["runs"]
    assert (listed_run["settings"][0]["metrics"], listed_run["questions"]) == (metrics, [])
    whole = org.client.get(f"{path}/{run['id']}", params={"namespaceId": space}).json()["data"]["run"]
    assert whole["questions"] == result["questions"]
    assert not {"progress"} & set(whole)
    (read,) = listed_by(org, Scope(org.id, space, ""), evaluation["id"])
    assert read.result is not None
    assert "questions" not in read.result
    other_space = org.namespace()
    assert_error(org.client.get(path, params={"namespaceId": other_space}), 404, "NOT_FOUND")
    changed = {"namespaceId": other_space, "name": "mine"}
    assert_error(org.client.patch(f"/v1/evaluations/{evaluation['id']}", json=changed), 404, "NOT_FOUND")


def create_evaluation(org, space, questions, name="set"):
    return org.client.post("/v1/evaluations", json={"namespaceId": space, "name": name, "questions": questions})


def test_ten_runs_at_most_wait_or_go_on_in_a_scope(org):
    space, other_space = org.namespace(), org.namespace()
    question = {"query": "owls", "relevant": [{"externalId": "x"}]}
    ids = [
        create_evaluation(org, scope_space, [question]).json()["data"]["evaluation"]["id"]
        for scope_space in (space, space, other_space)
    ]

    def start(evaluation, scope_space):
        body = {"namespaceId": scope_space, "settings": [SETTING]}
        return org.client.post(f"/v1/evaluations/{evaluation}/runs", json=body)

    assert [start(ids[number % 2], space).status_code for number in range(10)] == [200] * 10
    refused = start(ids[0], space)
    assert assert_error(refused, 400, "INVALID_REQUEST")["error"]["details"]["reason"] == "too_many_runs"
    assert start(ids[2], other_space).status_code == 200
    org.db.rows(
        "update evaluation_runs set finished_at = now() where evaluation_id = %(id)s returning id", {"id": ids[1]}
    )
    assert start(ids[0], space).status_code == 200


def test_judged_documents_are_bounded(org, monkeypatch):
    monkeypatch.setattr("retrieval.evaluations.evaluations.MAX_JUDGED_DOCUMENTS", 5)
    space = org.namespace()
    question = {"query": "owls", "relevant": [{"externalId": str(number)} for number in range(3)]}
    refused = create_evaluation(org, space, [question, question])
    assert assert_error(refused, 400, "INVALID_REQUEST")["error"]["details"]["reason"] == "number_of_judged_documents"
    evaluation_id = create_evaluation(org, space, [question]).json()["data"]["evaluation"]["id"]
    body = {"namespaceId": space, "add": [question]}
    assert_error(org.client.patch(f"/v1/evaluations/{evaluation_id}", json=body), 400, "INVALID_REQUEST")
    assert len(org.client.get("/v1/evaluations", params={"namespaceId": space}).json()["data"]["evaluations"]) == 1


def questions_of(org, space, evaluation, **query):
    answer = org.client.get(f"/v1/evaluations/{evaluation}/questions", params={"namespaceId": space, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_questions_are_read_in_parts_and_by_their_query(org):
    space = org.namespace()
    narrow = {"metadata": {"topic": "birds"}}
    questions = [
        {"query": "owls", "relevant": [{"externalId": "a", "grade": 2}, {"documentId": "doc_0", "start": 1, "end": 9}]},
        {"query": "seals", "relevant": [{"externalId": "b"}], "filter": narrow},
        {"query": "owls", "relevant": [{"externalId": "c"}]},
    ]
    evaluation_id = create_evaluation(org, space, questions).json()["data"]["evaluation"]["id"]
    first = questions_of(org, space, evaluation_id, pageSize=2)
    assert first["questions"] == questions[:2]
    second = questions_of(org, space, evaluation_id, pageSize=2, cursor=first["nextCursor"])
    assert (second["questions"], second["hasNextPage"], second["nextCursor"]) == (questions[2:], False, None)
    assert questions_of(org, space, evaluation_id, query="owls")["questions"] == [questions[0], questions[2]]
    assert questions_of(org, space, evaluation_id, query="owl")["questions"] == []


def test_documents_are_judged_one_by_one(org):
    space = org.namespace()
    document = org.text(space, "Owls hunt mice.", name="owls")["data"]["documents"][0]
    span = {"externalId": "owls", "start": 0, "end": 4}
    evaluation_id = create_evaluation(org, space, [{"query": "hunters", "relevant": [span, {"externalId": "foxes"}]}])
    evaluation_id = evaluation_id.json()["data"]["evaluation"]["id"]

    def judge(*verdicts):
        body = {"namespaceId": space, "judge": list(verdicts)}
        return org.client.patch(f"/v1/evaluations/{evaluation_id}", json=body)

    by_id = {"query": "hunters", "documentId": document["id"], "grade": 3}
    assert judge(by_id).json()["data"]["evaluation"]["questionCount"] == 1
    (question,) = questions_of(org, space, evaluation_id)["questions"]
    assert question["relevant"] == [{"externalId": "foxes"}, {**span, "grade": 3}], "its span stays"
    judge({"query": "hunters", "externalId": "wolves"}, {"query": "hunters", "externalId": "foxes", "grade": 0})
    (question,) = questions_of(org, space, evaluation_id)["questions"]
    assert question["relevant"] == [{**span, "grade": 3}, {"externalId": "wolves"}]
    narrow = {"metadata": {"topic": "birds"}}
    judge({"query": "eyes", "externalId": "owls", "filter": narrow}, {"query": "new", "externalId": "x", "grade": 0})
    second = questions_of(org, space, evaluation_id)["questions"][1]
    assert second == {"query": "eyes", "relevant": [{"externalId": "owls"}], "filter": narrow}
    for external in ("owls", "wolves"):
        assert judge({"query": "hunters", "externalId": external, "grade": 0}).status_code == 200
    assert [entry["query"] for entry in questions_of(org, space, evaluation_id)["questions"]] == ["eyes"]
    refused = judge({"query": "eyes", "externalId": "owls", "grade": 0})
    assert assert_error(refused, 400, "INVALID_REQUEST")["error"]["details"]["reason"] == "number_of_questions"
    assert len(questions_of(org, space, evaluation_id)["questions"]) == 1


def test_judgements_at_once_are_all_kept(org):
    space = org.namespace()
    evaluation_id = create_evaluation(org, space, [{"query": "q", "relevant": [{"externalId": "0"}]}]).json()["data"][
        "evaluation"
    ]["id"]

    def judge(number):
        body = {"namespaceId": space, "judge": [{"query": "q", "externalId": str(number)}]}
        return org.client.patch(f"/v1/evaluations/{evaluation_id}", json=body).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(judge, range(1, 17))) == {200}
    (question,) = questions_of(org, space, evaluation_id)["questions"]
    assert {judged["externalId"] for judged in question["relevant"]} == {str(number) for number in range(17)}


def test_a_run_tells_its_progress_and_what_changed_most(org):
    space = org.namespace()
    evaluation_id = create_evaluation(org, space, [{"query": "q", "relevant": [{"externalId": "x"}]}]).json()["data"][
        "evaluation"
    ]["id"]
    path, where = f"/v1/evaluations/{evaluation_id}/runs", {"namespaceId": space}
    settings = [{**SETTING, "name": "base"}, {**SETTING, "name": "new"}]
    run = org.client.post(path, json={**where, "settings": settings}).json()["data"]["run"]["id"]

    def read_run(**query):
        answer = org.client.get(f"{path}/{run}", params={**where, **query})
        return answer.json()["data"]["run"] if answer.status_code == 200 else assert_error(answer, 400, INVALID)

    assert read_run(questionLimit=0)["progress"] is None
    ranks = [([1], [1]), ([5], [4]), ([1], [None])]
    questions = [{"query": str(at), "ranks": {"base": item, "new": two}} for at, (item, two) in enumerate(ranks)]
    result = {"settings": [{**item, "latencyMs": {"p50": 1, "p95": 2}} for item in settings], "questions": questions}
    org.db.rows(
        "update evaluation_runs set status = 'COMPLETED', finished_at = now(), result = %(result)s,"
        ' progress = \'{"asked": 6, "total": 6}\' where id = %(id)s returning id',
        {"result": json.dumps(result), "id": run},
    )
    short = read_run(questionLimit=2, changed="new")
    assert [item["query"] for item in short["questions"]] == ["2", "1"]
    assert short["progress"] == {"asked": 6, "total": 6}
    assert [item.get("compared") for item in short["settings"]] == [None, {"better": 1, "same": 1, "worse": 1}]
    assert [item["query"] for item in read_run(questionLimit=1)["questions"]] == ["0"]
    assert read_run(questionLimit=1, changed="no such setting")["error"]["details"]["field"] == "changed"
    assert "compared" not in read_run()["settings"][1]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"query": " "}, "query"),
        ({"query": "ß" * 8000}, "query"),
        ({"filter": {"where": {"all": []}}}, "filter.where.all"),
        ({"filter": {"metadata": {"$topic": 1}}}, "filter.metadata"),
        ({"filter": {"documents": {"documentTypes": ["no such type"]}}}, "filter.documents.documentTypes"),
    ],
)
def test_the_question_that_is_wrong_is_named(org, wrong, field):
    space, right = org.namespace(), {"query": "owls", "relevant": [{"externalId": "x"}]}
    refused = assert_error(create_evaluation(org, space, [right, right, {**right, **wrong}]), 400, INVALID)
    assert refused["error"]["details"]["field"] == f"questions[2].{field}"
    assert field != "query" or "questions[2].query" in refused["message"]
    evaluation_id = create_evaluation(org, space, [right]).json()["data"]["evaluation"]["id"]
    verdict = {"query": "owls", "externalId": "x"}
    for name, change in (("add", [right, {**right, **wrong}]), ("judge", [verdict, {**verdict, **wrong}])):
        body = {"namespaceId": space, name: change}
        refused = assert_error(org.client.patch(f"/v1/evaluations/{evaluation_id}", json=body), 400, INVALID)
        assert refused["error"]["details"]["field"] == f"{name}[1].{field}"


def test_a_question_may_have_no_document_that_answers_it_if_another_has_one(org):
    space = org.namespace()
    nothing = {"query": "unicorns", "relevant": []}
    assert_error(create_evaluation(org, space, [nothing]), 400, "INVALID_REQUEST")
    both = create_evaluation(org, space, [nothing, {"query": "owls", "relevant": [{"externalId": "x"}]}])
    evaluation = both.json()["data"]["evaluation"]["id"]
    listing = org.client.get(f"/v1/evaluations/{evaluation}/questions", params={"namespaceId": space})
    assert listing.json()["data"]["questions"][0] == nothing
    org.db.rows(
        "update partitions set answerability_epoch = 0, answerability = %(fits)s where namespace_id = %(space)s",
        {
            "space": space,
            "fits": json.dumps({"hybrid": {"evaluation_id": evaluation}, "keyword": {"evaluation_id": "x"}}),
        },
    )
    deletion = org.client.delete(f"/v1/evaluations/{evaluation}", params={"namespaceId": space})
    assert deletion.status_code == 200, deletion.text
    (partition,) = org.db.rows("select answerability from partitions where namespace_id = %(s)s", {"s": space})
    assert set(partition["answerability"]) == {"keyword"}, "its fits went with it"


def test_a_reranker_that_is_switched_off_reranks_no_setting_and_no_search(org, api_settings, api_database, ring):
    space, rerank = org.namespace(), {"rerankConfig": {"provider": "LOCAL"}}
    body = {"namespaceId": space, "name": "birds", "questions": [{"query": "owls", "relevant": [{"externalId": "o"}]}]}
    evaluation = org.client.post("/v1/evaluations", json=body).json()["data"]["evaluation"]
    runs_body = {"namespaceId": space, "settings": [SETTING, {**SETTING, "name": "again", **rerank}]}
    switched_off = api_settings.model_copy(update={"allow_local_rerankers": False})
    with serve(switched_off, api_database, ring) as base, client_of(base, org.api_key) as client:
        refused_run = client.post(f"/v1/evaluations/{evaluation['id']}/runs", json=runs_body)
        refused_search = client.post("/v1/search", json={"namespaceId": space, "query": "owls", **rerank})
    for answer, code, field in (
        (refused_run, INVALID, "settings[1].rerankConfig.provider"),
        (refused_search, "INVALID_SEARCH_REQUEST", "rerankConfig.provider"),
    ):
        details = assert_error(answer, 400, code)["error"]["details"]
        assert details == {"reason": "switched_off", "field": field}
