"""Reranking by the built-in model, in every namespace and with every search option."""

from __future__ import annotations

import pytest

from connectors.rerankers import local
from retrieval.ports import Scope
from tests.api.support import assert_error
from tests.library import Library

KEYWORDS_ONLY = {"semanticWeight": 0.0, "keywordWeight": 1.0}
OWN = {"provider": "LOCAL"}
TEXTS = ("the engine of the car needs oil", "owls hunt mice when it is dark", "a car, an owl and a mouse", "cars rust")


@pytest.fixture
def space(org):
    space = org.namespace()
    library = Library(org.db, Scope(org.id, space, ""), None)
    for number, text in enumerate(TEXTS):
        library.put([text, f"{text}, part two"], name=f"d{number}")
    return space


def test_any_search_may_be_reranked_by_the_services_own_model(org, space, api_settings):
    local.make({}, api_settings).rerank("first use", ["loads the model"], seconds=60)
    body = {"namespaceId": space, "query": "owl mouse car", "hybridConfig": KEYWORDS_ONLY, "explain": True, "topK": 3}

    def ask(**options):
        answer = org.client.post("/v1/search/hybrid", json={**body, "rerank": {"budgetMs": 10_000}, **options})
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    assert_error(org.client.post("/v1/search/hybrid", json={**body, "rerank": True}), 400, "INVALID_SEARCH_REQUEST")
    data = ask(rerankConfig=OWN)
    assert data["reranked"] is True
    assert len(data["results"]) == 3
    for result in data["results"]:
        parts = result["explanation"]
        assert parts["rerankWeight"] == pytest.approx(0.2)
        assert result["score"] == pytest.approx(0.8 * parts["keywordScore"] + 0.2 * parts["rerankScore"])
        assert 0 <= parts["rerankScore"] <= 1
    least = data["results"][1]["score"]
    assert [hit["score"] for hit in ask(rerankConfig=OWN, scoreThreshold=least)["results"]] == [
        hit["score"] for hit in data["results"] if hit["score"] >= least
    ]
    assert "reranked" not in ask(rerankConfig=OWN, rerank=False)
    several = ask(rerankConfig=OWN, namespaceId=None, namespaceIds=[space, org.namespace()])
    assert [hit["score"] for hit in several["results"]] == [hit["score"] for hit in data["results"]]
    aged = ask(rerankConfig=OWN, recency={"halfLifeDays": 10, "weight": 0.5})["results"][0]
    assert aged["score"] == pytest.approx(0.5 * data["results"][0]["score"] + 0.5, abs=0.01)
    queries = [{**body, "namespaceId": None, "rerank": {"budgetMs": 10_000}, "rerankConfig": OWN}]
    batch = org.client.post("/v1/search/batch", json={"namespaceId": space, "queries": queries}).json()["data"]
    assert [hit["score"] for hit in batch["results"][0]["results"]] == [hit["score"] for hit in data["results"]]
    changed = org.client.patch(f"/v1/namespaces/{space}", json={"rerankConfig": OWN})
    assert changed.json()["data"]["namespace"]["rerankConfig"] == OWN
    assert ask()["results"] == data["results"]
