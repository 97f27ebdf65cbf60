"""Evaluations over HTTP: runs, questions, judgements and limits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.api.support import assert_error, client_of, serve

SETTING = {"name": "words", "semanticWeight": 0.0, "keywordWeight": 1.0}
INVALID = "INVALID_REQUEST"


def create_evaluation(org, space, questions, name="set"):
    return org.client.post("/v1/evaluations", json={"namespaceId": space, "name": name, "questions": questions})


def questions_of(org, space, evaluation, **query):
    answer = org.client.get(f"/v1/evaluations/{evaluation}/questions", params={"namespaceId": space, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


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
