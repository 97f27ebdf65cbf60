"""Search over HTTP: what is asked is checked, strictly; what is found is shown in the contract's shape."""

from __future__ import annotations

import pytest

from api.wire.search import SearchResult
from retrieval.search.search import Hit
from tests.api.support import assert_error

WEIGHTS = {"semanticWeight": 0.0, "keywordWeight": 1.0}

BAD = [
    {"query": None},
    {"query": ""},
    {"query": " \n "},
    {"query": "x" * 8193},
    {"query": "ü" * 5000},
    {"query": 5},
    {"topK": 0},
    {"topK": 101},
    {"topK": "5"},
    {"topK": 5.5},
    {"topK": True},
    {"scoreThreshold": -0.1},
    {"scoreThreshold": 1.1},
    {"scoreThreshold": "0.5"},
    {"filter": []},
    {"filter": {"metadata": []}},
    {"filter": {"metadata": {"$gt": 1}}},
    {"filter": {"metadata": {"a": {"b": 1}}}},
    {"filter": {"metadata": {"a": [[1]]}}},
    {"searchType": "OTHER"},
    {"namespaceId": None},
    {"perDocument": 0},
    {"perDocument": 101},
    {"perDocument": "1"},
    {"expand": {}},
    {"expand": {"unit": "WORD"}},
    {"expand": {"unit": "PAGE", "maxTokens": 0}},
    {"expand": {"unit": "PAGE", "maxTokens": 8001}},
    {"expand": "PAGE"},
    {"recency": {}},
    {"recency": {"halfLifeDays": 0, "weight": 0.5}},
    {"recency": {"halfLifeDays": -1, "weight": 0.5}},
    {"recency": {"halfLifeDays": 1, "weight": 1.01}},
]


@pytest.mark.parametrize("path", ["/v1/search", "/v1/search/hybrid"])
def test_bad_searches(org, path):
    space = org.namespace()
    for change in BAD:
        body = {"query": "words", "namespaceId": space, "hybridConfig": WEIGHTS, **change}
        answer = org.client.post(path, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_SEARCH_REQUEST"), change


def test_the_search_type_must_fit_the_path(org):
    space = org.namespace()
    for path, other in (("/v1/search", "HYBRID"), ("/v1/search/hybrid", "SEMANTIC")):
        body = {"query": "a", "namespaceId": space, "hybridConfig": WEIGHTS, "searchType": other}
        assert_error(org.client.post(path, json=body), 400, "INVALID_SEARCH_REQUEST")


@pytest.mark.parametrize(
    "weights",
    [
        None,
        {},
        {"semanticWeight": 1.0},
        {"semanticWeight": 0.5, "keywordWeight": 0.6},
        {"semanticWeight": 0.5, "keywordWeight": 0.500002},
        {"semanticWeight": 1.5, "keywordWeight": -0.5},
        {"semanticWeight": "0.5", "keywordWeight": 0.5},
        {"semanticWeight": None, "keywordWeight": 1},
    ],
)
def test_bad_weights(org, weights):
    body = {"query": "a", "namespaceId": org.namespace(), "hybridConfig": weights}
    assert_error(org.client.post("/v1/search/hybrid", json=body), 400, "INVALID_HYBRID_CONFIG")
    del body["hybridConfig"]
    assert_error(org.client.post("/v1/search/hybrid", json=body), 400, "INVALID_HYBRID_CONFIG")


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"topK": None, "scoreThreshold": None, "filter": None, "searchType": None},
        {"topK": 100, "scoreThreshold": 1, "filter": {}, "searchType": "HYBRID", "explain": False},
        {"filter": {"metadata": {"a": [1, "b", True, None]}}},
        {"filter": {"metadata": {}}},
        {"perDocument": 1, "expand": {"unit": "SECTION"}, "recency": {"halfLifeDays": 0.5, "weight": 1}},
        {"perDocument": None, "expand": None, "recency": None},
        {"hybridConfig": {"semanticWeight": 0, "keywordWeight": 1}},
        {"hybridConfig": {"semanticWeight": 0.0, "keywordWeight": 0.9999995}},
        {"query": "ü" * 4096},
        {"query": "'; drop table documents; --"},
        {"query": "& | ! ( ) <-> : *"},
    ],
)
def test_an_empty_namespace_has_no_results(org, change):
    body = {"query": "a", "namespaceId": org.namespace(), "hybridConfig": WEIGHTS, **change}
    answer = org.client.post("/v1/search/hybrid", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["data"] == {"results": []}


def test_the_namespace_must_be_there(org):
    for path in ("/v1/search", "/v1/search/hybrid"):
        for missing in ("", "ns_none"):
            body = {"query": "a", "namespaceId": missing, "hybridConfig": WEIGHTS}
            assert_error(org.client.post(path, json=body), 404, "NAMESPACE_NOT_FOUND")


def test_a_results_own_metadata_never_overrides_what_it_is():
    hit = Hit(
        content="words",
        score=0.5,
        semantic=0.5,
        keyword=0.0,
        semantic_rank=1,
        keyword_rank=None,
        document_id="doc_1",
        name="manual.pdf",
        external_id="e",
        document_type="FILE",
        source="LOCAL_FILE",
        metadata={"id": "forged", "type": "forged", "source": "forged", "page": 7},
        index=0,
        start=0,
        end=5,
        page=1,
    )
    shown = SearchResult.of(hit)
    assert shown.metadata == {"id": "doc_1", "source": "manual.pdf", "type": "FILE", "page": 7}
    assert (shown.chunk.start, shown.chunk.end, shown.chunk.page) == (0, 5, 1)
    assert shown.document.name == "manual.pdf"
