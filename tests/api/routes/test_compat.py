"""Searches by the protocols of Dify and OpenAI's SDK."""

from __future__ import annotations

import openai
import pytest

from retrieval.ports import Scope
from tests.api.support import assert_error
from tests.library import Library

STATIC = {"embeddingModelConfig": {"provider": "LOCAL", "model": "wordllama-l2-supercat-256"}}
DIFY = "/v1/compat/dify/retrieval"


@pytest.fixture
def space(org):
    """Namespace with three documents about owls."""
    created = org.namespace(**STATIC)
    library = Library(org.db, Scope(org.id, created, ""), None)
    library.put(
        ["owls owls hunt", "owls sleep by day"],
        name="owls.md",
        metadata={"topic": "birds", "year": 2024, "tags": ["night"], "at": "2026-03-01", "stamp": 1_700_000_000},
    )
    library.put(["owls and mice"], name="mice.md", metadata={"topic": "mammals", "year": 2020, "empty": ""})
    library.put(["owls in stories"], name="stories.md", metadata={"nested": {"a": 1}})
    return created


@pytest.fixture
def client(org, base):
    with openai.OpenAI(base_url=f"{base}/v1", api_key=org.api_key, max_retries=0) as sdk:
        yield sdk


def retrieved(org, space, **options):
    body = {
        "knowledge_id": space,
        "query": "owls",
        "retrieval_setting": {"top_k": 5, "score_threshold": 0.0},
        **options,
    }
    answer = org.client.post(DIFY, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["records"]


def test_dify_gets_records(org, space):
    records = retrieved(org, space)
    assert len(records) == 4
    first = records[0]
    assert set(first) == {"content", "score", "title", "metadata"}
    assert (first["content"], first["title"], first["metadata"]["topic"]) == ("owls owls hunt", "owls.md", "birds")
    scores = [record["score"] for record in records]
    assert scores == sorted(scores, reverse=True)
    assert 0 < scores[-1] <= scores[0] <= 1
    hybrid = {"semanticWeight": 0.5, "keywordWeight": 0.5}
    body = {"namespaceId": space, "query": "owls", "hybridConfig": hybrid}
    hits = org.client.post("/v1/search/hybrid", json=body).json()["data"]["results"]
    assert [(record["content"], record["score"]) for record in hits] == [
        (record["content"], record["score"]) for record in records
    ]
    best = retrieved(org, space, retrieval_setting={"top_k": 1, "score_threshold": scores[1]})
    assert [record["content"] for record in best] == ["owls owls hunt"]
    assert retrieved(org, space, retrieval_setting={"top_k": 5, "score_threshold": 1.0}) == []


@pytest.mark.parametrize(
    ("name", "operator", "value", "titles"),
    [
        ("topic", "is", "birds", {"owls.md"}),
        ("topic", "is not", "birds", {"mice.md", "stories.md"}),
        ("topic", "contains", "mam", {"mice.md"}),
        ("topic", "start with", "bi", {"owls.md"}),
        ("topic", "in", ["birds", "mammals"], {"owls.md", "mice.md"}),
        ("topic", "empty", None, {"stories.md"}),
        ("topic", "not empty", None, {"owls.md", "mice.md"}),
        ("year", "=", "2024", {"owls.md"}),
        ("year", "≠", 2024, {"mice.md", "stories.md"}),
        ("year", ">", 2020, {"owls.md"}),
        ("tags", "contains", "night", {"owls.md"}),
        ("at", "before", "2026-04-01", {"owls.md"}),
        ("stamp", "before", "1800000000", {"owls.md"}),
    ],
)
def test_difys_conditions_are_those_of_a_search(org, space, name, operator, value, titles):
    conditions = [{"name": [name], "comparison_operator": operator, "value": value}]
    records = retrieved(org, space, metadata_condition={"logical_operator": "and", "conditions": conditions})
    assert {record["title"] for record in records} == titles


def test_dify_is_told_errors_by_its_numbers(org, space, anonymous, organization):
    body = {"knowledge_id": "ns_none", "query": "owls"}
    unknown = assert_error(org.client.post(DIFY, json=body), 404, "NAMESPACE_NOT_FOUND")
    assert (unknown["error_code"], unknown["error_msg"]) == (2001, unknown["message"])
    foreign = organization().client.post(DIFY, json={**body, "knowledge_id": space})
    assert foreign.json() == unknown
    assert assert_error(anonymous.post(DIFY, json=body), 401, "UNAUTHORIZED")["error_code"] == 1001
    wrong = anonymous.post(DIFY, json=body, headers={"Authorization": "Bearer wrong"})
    assert assert_error(wrong, 401, "UNAUTHORIZED")["error_code"] == 1002
    with org.key(scopes=["documents:read"]) as reader:
        assert assert_error(reader.post(DIFY, json=body), 403, "FORBIDDEN")["error_code"] == 1002
    invalid = assert_error(org.client.post(DIFY, json={**body, "query": 5}), 400, "INVALID_SEARCH_REQUEST")
    assert invalid["error_code"] == 400
    assert "error_code" not in org.client.post("/v1/search", json={}).json()


def test_openais_sdk_searches_a_namespace(client, space):
    page = client.vector_stores.search(space, query="owls", max_num_results=5)
    assert (page.object, page.has_more, page.search_query) == ("vector_store.search_results.page", False, ["owls"])
    first, *following = page.data
    assert {hit.filename for hit in following} == {"mice.md", "stories.md"}
    assert (first.filename, first.file_id[:4]) == ("owls.md", "doc_")
    assert [part.text for part in first.content] == ["owls owls hunt", "owls sleep by day"]
    assert [part.type for part in first.content] == ["text", "text"]
    assert first.attributes == {"topic": "birds", "year": 2024, "at": "2026-03-01", "stamp": 1_700_000_000}
    assert 0 < page.data[-1].score <= first.score <= 1
    assert [hit.filename for hit in client.vector_stores.search(space, query="owls", max_num_results=1)] == ["owls.md"]
    assert list(client.vector_stores.search(space, query="nothing such", filters=None)) == []


def test_openais_filters_and_options_are_those_of_a_search(client, space):
    def names(**options):
        return {hit.filename for hit in client.vector_stores.search(space, query="owls", **options)}

    birds = {"type": "eq", "key": "topic", "value": "birds"}
    old = {"type": "lt", "key": "year", "value": 2021}
    assert names(filters=birds) == {"owls.md"}
    assert names(filters={"type": "or", "filters": [birds, old]}) == {"owls.md", "mice.md"}
    assert names(filters={"type": "and", "filters": [birds, old]}) == set()
    assert names(filters={"type": "nin", "key": "topic", "value": ["birds"]}) == {"mice.md", "stories.md"}
    assert names(ranking_options={"score_threshold": 1.0}) == set()
    assert names(rewrite_query=True, ranking_options={"ranker": "auto"}) == {"owls.md", "mice.md", "stories.md"}
    by_words = {"hybrid_search": {"embedding_weight": 0, "text_weight": 3}}
    assert names(ranking_options=by_words) == {"owls.md", "mice.md", "stories.md"}
    page = client.vector_stores.search(space, query=["mice", "stories"])
    assert [hit.filename for hit in page.data][:2] == ["mice.md", "stories.md"]
    assert page.search_query == ["mice", "stories"]
