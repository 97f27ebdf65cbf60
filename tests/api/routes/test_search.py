"""Search over HTTP: strict validation and the answer shape of the contract."""

from __future__ import annotations

import pytest

from tests.api.support import assert_error

WEIGHTS = {"semanticWeight": 0.0, "keywordWeight": 1.0}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"topK": None, "scoreThreshold": None, "filter": None, "searchType": None},
        {"topK": 100, "scoreThreshold": 1, "filter": {}, "searchType": "HYBRID", "explain": False},
        {"filter": {"metadata": {"a": [1, "b", True, None]}}},
        {"perDocument": 1, "expand": {"unit": "SECTION"}, "recency": {"halfLifeDays": 0.5, "weight": 1}},
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
    nothing = {"verdict": "unlikely", "probability": 0.0, "basis": "nothing matches"}
    assert answer.json()["data"] == {"results": [], "answerable": nothing}


@pytest.mark.parametrize("path", ["/v1/search", "/v1/search/hybrid", "/v1/search/why"])
def test_what_restricts_documents_is_refused_beside_them_where_it_would_be_ignored(org, path):
    body = {"query": "wings", "namespaceId": org.namespace(), "hybridConfig": WEIGHTS, "documentId": "doc_1"}
    answer = org.client.post(path, json={**body, "filter": {"documentIds": ["doc_1"]}})
    error = assert_error(answer, 400, "INVALID_SEARCH_REQUEST")["error"]["details"]
    assert (error["field"], error["reason"]) == ("filter.documentIds", "misplaced")
    empty = {"documentIds": [], "documentTypes": None, "unknown": 1, "metadata": {}}
    assert org.client.post(path, json={**body, "filter": empty}).status_code == (404 if "why" in path else 200)


def test_metadata_of_a_document_never_overrides_its_id(org, space, library):
    document = library.put(["words"], name="manual", metadata={"id": "forged", "type": "forged", "page": 7})
    body = {"namespaceId": space, "query": "words", "hybridConfig": WEIGHTS}
    (hit,) = org.client.post("/v1/search/hybrid", json=body).json()["data"]["results"]
    assert hit["metadata"] == {"id": document, "source": "manual", "type": "TEXT", "page": 7}
