"""Reranking of the best results, over HTTP and with real scorers."""

from __future__ import annotations

import time

import pytest

from retrieval.namespaces.namespaces import EMBEDDED_CONFIGS
from tests.standins import cross_encoder, rerank_server

QUERY = "lantern keeper of the northern cape"
FACT = "The northern cape has a lantern, and its keeper is the oldest of all."
WIDE = {"candidates": 20, "budgetMs": 3000}


@pytest.fixture(scope="module")
def space(service):
    """Namespace of similar texts; keyword search ranks the fact below others."""
    response = service.ok(service.client.post("/v1/namespaces", json={"name": "reranked", **EMBEDDED_CONFIGS}))
    service.info["namespaceId"] = response["namespace"]["id"]
    texts = [f"Keeper keeper keeper, note {number} of the lantern: {'lantern ' * 5}" for number in range(12)]
    runs = [service.text(text, name=f"near {number}")["ingestJobRunId"] for number, text in enumerate(texts)]
    runs.append(service.text(FACT, name="fact", metadata={"topic": "sea"})["ingestJobRunId"])
    service.wait(*runs)
    return service


def answer(space, **fields) -> dict:
    body = {"namespaceId": space.namespace, "query": QUERY, "explain": True, **fields}
    body.setdefault("hybridConfig", {"semanticWeight": 0.0, "keywordWeight": 1.0})
    return space.ok(space.client.post("/v1/search/hybrid", json=body))


def configured(space, config) -> None:
    for _ in range(6):  # the check of a config takes 5 seconds at most, which a busy machine needs to load an SDK
        response = space.client.patch(f"/v1/namespaces/{space.namespace}", json={"rerankConfig": config})
        if "timeout" not in response.text:
            break
    assert response.status_code == 200, response.text


@pytest.mark.parametrize("name", ["TEI", pytest.param("VLLM", marks=pytest.mark.slow)])
def test_an_endpoint_puts_the_best_text_first(space, name):
    with rerank_server.running(name) as server:
        configured(space, server.config())
        rerank_config = space.ok(space.client.get(f"/v1/namespaces/{space.namespace}"))["namespace"]["rerankConfig"]
        assert rerank_config["provider"] == "ENDPOINT"
        assert rerank_server.API_KEY not in str(rerank_config)
        plain_answer = answer(space, rerank=False)
        assert "reranked" not in plain_answer
        reranked = answer(space, topK=3, rerank=WIDE)
        assert reranked["reranked"] is True
        best = reranked["results"][0]
        assert best["content"] == FACT
        explained = best["explanation"]
        assert explained["rerankScore"] == best["score"] <= 1
        assert plain_answer["results"][explained["rankBefore"] - 1]["content"] == FACT
        assert [result["score"] for result in reranked["results"]] == sorted(
            (result["score"] for result in reranked["results"]), reverse=True
        )
        assert answer(space)["reranked"] is True  # the namespace's default
        threshold = answer(space, scoreThreshold=0.9)["results"]
        assert all(result["score"] >= 0.9 for result in threshold)


@pytest.mark.slow
def test_a_reranker_that_hangs_costs_the_budget_and_no_more(space):
    with rerank_server.running("TEI") as server:
        configured(space, server.config())
        plain = [result["content"] for result in answer(space, rerank=False)["results"]]
        server.delay = 20
        start = time.monotonic()
        late = answer(space, rerank={"candidates": 20, "budgetMs": 500})
        spent = time.monotonic() - start
        assert late["reranked"] is False
        assert [result["content"] for result in late["results"]] == plain
        assert spent < 15
        server.delay = 0


@pytest.mark.slow
def test_a_folder_with_a_cross_encoder(space):
    cross_encoder.build(space.home / "rerankers" / "overlap")
    configured(space, {"provider": "LOCAL", "path": "overlap"})
    reranked = answer(space, rerank={"candidates": 20, "budgetMs": 10000})
    assert reranked["reranked"] is True
    assert reranked["results"][0]["content"] == FACT
    for path in ("../..", "/etc"):
        refused = space.client.patch(
            f"/v1/namespaces/{space.namespace}", json={"rerankConfig": {"provider": "LOCAL", "path": path}}
        )
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "INVALID_NAMESPACE_CONFIG")
    configured(space, None)
    assert "reranked" not in answer(space)
