"""Searches over several namespaces, batches and groups, by keywords only."""

from __future__ import annotations

import time

import pytest

from connectors.vectors.pgvector import PgVectorStore
from retrieval.ports import Scope
from tests.api.support import assert_error
from tests.library import Library

KEYWORDS_ONLY = {"semanticWeight": 0.0, "keywordWeight": 1.0}
MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


@pytest.fixture
def filled(org):
    """Return a factory of namespaces with documents, each a list of texts."""

    def make(*documents, tenant="", space=None, **fields):
        space = space or org.namespace()
        library = Library(org.db, Scope(org.id, space, tenant), None)
        for number, texts in enumerate(documents):
            library.put(texts, name=f"d{number}", **fields)
        return space

    return make


def search(org, **body):
    answer = org.client.post("/v1/search/hybrid", json={"hybridConfig": KEYWORDS_ONLY, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["results"]


def test_several_namespaces_are_searched_and_merged_by_score(org, filled):
    first_space = filled(["owls hunt"], ["owls owls sing to owls"])
    two = filled(["owls owls"], ["seals"])
    hits = search(org, query="owls", namespaceIds=[first_space, two, first_space])
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    assert {(hit["namespaceId"], hit["content"]) for hit in hits} == {
        (first_space, "owls hunt"),
        (first_space, "owls owls sing to owls"),
        (two, "owls owls"),
    }
    assert len(search(org, query="owls", namespaceIds=[first_space, two], topK=2)) == 2
    alone = search(org, query="owls", namespaceId=two)
    assert "namespaceId" not in alone[0]
    assert search(org, query="owls", namespaceIds=[two]) == [{**hit, "namespaceId": two} for hit in alone]


def test_namespaces_of_different_models_are_not_searched_together(org, filled):
    other_space = org.namespace(embeddingModelConfig={"provider": "LOCAL", "model": "wordllama-l2-supercat-256"})
    body = {"query": "owls", "namespaceIds": [filled(["owls"]), other_space], "hybridConfig": KEYWORDS_ONLY}
    error = assert_error(org.client.post("/v1/search/hybrid", json=body), 400, "INVALID_SEARCH_REQUEST")
    assert error["error"]["details"] == {"reason": "different_models", "field": "namespaceIds"}
    assert "LOCAL all-MiniLM-L6-v2 and LOCAL wordllama-l2-supercat-256" in error["message"]
    undecided = org.namespace(embeddingModelConfig={"provider": "LOCAL", "model": "auto"})
    assert search(org, query="owls", namespaceIds=[undecided, other_space]) == []
    assert len(search(org, query="owls", namespaceIds=[undecided, filled(["owls"])])) == 1
    assert search(org, query="owls", namespaceIds=[undecided, undecided]) == []


def test_several_namespaces_stay_within_their_tenant(org, filled):
    shared_space = filled(["owls of nobody"])
    filled(["owls of alice"], tenant="alice", space=shared_space)
    assert [hit["content"] for hit in search(org, query="owls", namespaceIds=[shared_space])] == ["owls of nobody"]
    body = {"query": "owls", "namespaceIds": [shared_space, filled(["owls"])], "hybridConfig": KEYWORDS_ONLY}
    with org.key(scopes=["search"], namespace=shared_space) as bound:
        assert_error(bound.post("/v1/search/hybrid", json=body), 404, "NAMESPACE_NOT_FOUND")


def test_a_batch_answers_each_query_in_order(org, filled):
    space = filled(["owls hunt"], ["seals dive"])
    good = {"query": "owls", "hybridConfig": KEYWORDS_ONLY}
    queries = [
        good,
        {"query": " ", "hybridConfig": KEYWORDS_ONLY},
        {**good, "query": "seals", "topK": 1.0, "explain": True},
        {**good, "namespaceId": space},
        {**good, "topK": 0},
        {**good, "hybridConfig": {"semanticWeight": 1, "keywordWeight": 1}},
        {"query": "owls", "searchType": "HYBRID"},
        5,
    ]
    answer = org.client.post("/v1/search/batch", json={"namespaceId": space, "queries": queries})
    assert answer.status_code == 200, answer.text
    results = answer.json()["data"]["results"]
    success_fields = ["answerable", "results"]
    assert [sorted(result) for result in results] == [
        success_fields,
        ["error"],
        [*success_fields, "timings"],
        success_fields,
    ] + [["error"]] * 4
    assert results[0]["results"] == results[3]["results"] == search(org, namespaceId=space, **good)
    assert results[2]["results"][0]["content"] == "seals dive"
    codes = [result["error"]["code"] for result in results if "error" in result]
    assert codes == ["INVALID_SEARCH_REQUEST"] * 2 + ["INVALID_HYBRID_CONFIG"] * 2 + ["INVALID_SEARCH_REQUEST"]
    assert results[4]["error"]["details"]["field"] == "topK"
    two = filled(["owls"])
    answer = org.client.post("/v1/search/batch", json={"namespaceIds": [space, two], "queries": [good] * 64})
    assert all(len(result["results"]) == 2 for result in answer.json()["data"]["results"])


def test_a_batch_counts_its_queries(organization):
    org = organization(requests_per_minute=50)
    while time.time() % 60 > 50:
        time.sleep(0.5)
    space = org.namespace()
    body = {"namespaceId": space, "queries": [{"query": "owls", "hybridConfig": KEYWORDS_ONLY}] * 20}
    remaining = [int(org.client.post("/v1/search/batch", json=body).headers["x-ratelimit-remaining"]) for _ in range(2)]
    assert remaining == [29, 9], "the namespace was one request"
    refused = org.client.post("/v1/search/batch", json=body)
    assert_error(refused, 429, "RATE_LIMIT_EXCEEDED")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    accepted = org.client.post("/v1/search/batch", json={**body, "queries": body["queries"][:4]})
    assert (accepted.status_code, accepted.headers["x-ratelimit-remaining"]) == (200, "4"), (
        "what was refused counts as one"
    )


def test_groups_hold_the_best_results_of_each_document(org, filled):
    many = [" ".join(["owls"] * (1 + n % 4)) + f" number {n}" for n in range(30)]
    space = filled(many, ["owls once, and many other words beside them"], ["owls, and seals"], ["seals"])
    flat = search(org, namespaceId=space, query="owls", topK=100)
    hits = search(org, namespaceId=space, query="owls", groupBy="document", topK=3)
    assert len({hit["document"]["id"] for hit in hits}) == len(hits) == 3
    assert hits[0]["content"] == flat[0]["content"]
    same_document = [hit for hit in flat if hit["document"]["id"] == hits[0]["document"]["id"]]
    assert [hit["content"] for hit in hits[0]["more"]] == [hit["content"] for hit in same_document[1:3]]
    assert hits[1]["more"] == hits[2]["more"] == []
    single = search(org, namespaceId=space, query="owls", groupBy="document", topK=2, perDocument=1)
    assert [len(hit["more"]) for hit in single] == [0, 0]
    for wrong in ({"groupBy": "page"}, {"groupBy": "document", "perDocument": 11}):
        body = {"namespaceId": space, "query": "owls", "hybridConfig": KEYWORDS_ONLY, **wrong}
        assert_error(org.client.post("/v1/search/hybrid", json=body), 400, "INVALID_SEARCH_REQUEST")


def test_a_search_is_filtered_by_documents_and_conditions(org, filled):
    space = org.namespace()
    for year in (2020, 2024):
        for source in ("TEXT", "SITEMAP"):
            kind = "URL" if source == "SITEMAP" else "TEXT"
            fields = {"metadata": {"year": year}, "source": source, "document_type": kind}
            filled([f"owls {year} {source}"], space=space, **fields)
    newer = {"field": "metadata.year", "op": "gt", "value": 2020}
    for filters, expected in (
        ({"where": newer}, ["owls 2024 SITEMAP", "owls 2024 TEXT"]),
        ({"documents": {"documentTypes": ["SITEMAP"]}}, ["owls 2020 SITEMAP", "owls 2024 SITEMAP"]),
        ({"documents": {"documentTypes": ["SITEMAP"], "where": newer}}, ["owls 2024 SITEMAP"]),
        (
            {"documents": {"metadata": {"year": 2020}}, "metadata": {"year": [2020, 2024]}},
            ["2020 SITEMAP", "2020 TEXT"],
        ),
        ({"where": {"field": "metadata.year", "op": "in", "value": []}}, []),
        ({"documents": {}}, ["2020 SITEMAP", "2020 TEXT", "2024 SITEMAP", "2024 TEXT"]),
    ):
        contents = sorted(hit["content"] for hit in search(org, namespaceId=space, query="owls", filter=filters))
        assert len(contents) == len(expected), filters
        assert all(text.endswith(end) for text, end in zip(contents, expected, strict=True))


def test_every_search_tells_how_probable_an_answer_is_and_gives_none_below_the_least(org, filled):
    space = filled(["seals dive for thirty minutes"], ["owls hunt"], ["herons wait"])
    body = {"namespaceId": space, "query": "owls hunt", "hybridConfig": KEYWORDS_ONLY}
    whole = org.client.post("/v1/search/hybrid", json=body).json()["data"]
    assert whole["results"]
    assert "note" not in whole
    assert whole["answerable"]["basis"] == "fitted on public sets"
    probability = whole["answerable"]["probability"]
    assert 0 < probability < 1
    assert org.client.post("/v1/search/hybrid", json={**body, "minProbability": probability}).json()["data"] == whole
    refused = org.client.post("/v1/search/hybrid", json={**body, "minProbability": 1.0}).json()["data"]
    assert refused["results"] == []
    assert refused["answerable"] == whole["answerable"]
    assert f"the probability is {probability:g}, below minProbability 1" in refused["note"]
    query = {"query": "owls hunt", "hybridConfig": KEYWORDS_ONLY, "minProbability": 1.0}
    batch = org.client.post("/v1/search/batch", json={"namespaceId": space, "queries": [query]}).json()["data"]
    assert batch["results"] == [refused]
    several = {**body, "namespaceId": None, "namespaceIds": [filled(["bears"]), space]}
    assert org.client.post("/v1/search/hybrid", json=several).json()["data"]["answerable"] == whole["answerable"]
    assert_error(org.client.post("/v1/search", json={**body, "minProbability": 1.1}), 400, "INVALID_SEARCH_REQUEST")


def test_the_same_text_is_one_result_of_every_search(org):
    space = org.namespace()
    library = Library(org.db, Scope(org.id, space, ""), PgVectorStore(org.db, space, 384))
    vector = [1.0] + [0.0] * 383
    documents = {library.put(["owls hunt mice"], [vector], name=name): name for name in ("report.pdf", "copy.pdf")}
    library.put(["seals dive for fish and owls do not"], [vector], name="other")
    body = {"query": "owls hunt", "topK": 2}
    answers = [
        org.client.post("/v1/search", json={"namespaceId": space, **body}).json()["data"],
        org.client.post("/v1/search/hybrid", json={"namespaceId": space, "hybridConfig": KEYWORDS_ONLY, **body}).json()[
            "data"
        ],
        *org.client.post(
            "/v1/search/batch", json={"namespaceId": space, "queries": [body, {**body, "hybridConfig": KEYWORDS_ONLY}]}
        ).json()["data"]["results"],
        org.client.post("/v1/search", json={"namespaceId": space, "groupBy": "document", **body}).json()["data"],
    ]
    for answer in answers:
        assert len(answer["results"]) == 2
        (hit,) = [hit for hit in answer["results"] if hit["content"] == "owls hunt mice"]
        ((duplicate_id, name),) = {key: name for key, name in documents.items() if key != hit["document"]["id"]}.items()
        assert hit["duplicates"] == [
            {"documentId": duplicate_id, "name": name, "externalId": duplicate_id, "documentType": "TEXT"}
        ]
        (single,) = [hit for hit in answer["results"] if hit["content"] != "owls hunt mice"]
        assert "duplicates" not in single
    arguments = {"namespaceId": space, **body, "hybridConfig": KEYWORDS_ONLY}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": arguments}}
    result = org.client.post("/mcp", json=call, headers=MCP).json()["result"]
    assert result["structuredContent"]["results"][0]["duplicates"][0]["documentId"] in documents
    assert "The same text is in" in result["content"][0]["text"]
