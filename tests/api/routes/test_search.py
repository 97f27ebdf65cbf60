"""Search over HTTP: strict validation and the answer shape of the contract."""

from __future__ import annotations

import pytest

from api.wire.search import SearchResult
from retrieval.search.queries import Hit
from tests.api.support import assert_error

WEIGHTS = {"semanticWeight": 0.0, "keywordWeight": 1.0}


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
    nothing = {"probability": 0.0, "basis": "nothing matches"}
    assert answer.json()["data"] == {"results": [], "answerable": nothing}


@pytest.mark.parametrize("path", ["/v1/search", "/v1/search/hybrid", "/v1/search/why"])
def test_what_restricts_documents_is_refused_beside_them_where_it_would_be_ignored(org, path):
    body = {"query": "wings", "namespaceId": org.namespace(), "hybridConfig": WEIGHTS, "documentId": "doc_1"}
    answer = org.client.post(path, json={**body, "filter": {"documentIds": ["doc_1"]}})
    error = assert_error(answer, 400, "INVALID_SEARCH_REQUEST")["error"]["details"]
    assert (error["field"], error["reason"]) == ("filter.documentIds", "misplaced")
    empty = {"documentIds": [], "documentTypes": None, "unknown": 1, "metadata": {}}
    assert org.client.post(path, json={**body, "filter": empty}).status_code == (404 if "why" in path else 200)


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
    result = SearchResult.from_hit(hit)
    assert result.metadata == {"id": "doc_1", "source": "manual.pdf", "type": "FILE", "page": 7}
    assert (result.chunk.start, result.chunk.end, result.chunk.page) == (0, 5, 1)
    assert result.document.name == "manual.pdf"
