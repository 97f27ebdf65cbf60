"""Namespaces on Pinecone: clear refusals at creation, hidden key."""

from __future__ import annotations

import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from api.services import MAX_CONFIG_CHECKS
from retrieval import settings
from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations
from tests.api.support import EMBEDDED, assert_error, check_configs, client_of
from tests.standins import pinecone

STATIC = {"provider": "LOCAL", "model": "wordllama-l2-supercat-256"}


@pytest.fixture
def checking(api_settings, api_database, api_db, ring, monkeypatch):
    """Organization at an API with config checks, with private indexes allowed."""
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")
    settings.load_settings.cache_clear()
    with check_configs(api_settings, api_database, api_db, ring) as org:
        yield org
    settings.load_settings.cache_clear()


def create(org, config):
    body = {"name": "n", **EMBEDDED, "embeddingModelConfig": STATIC, "vectorStorageConfig": config}
    return org.client.post("/v1/namespaces", json=body)


def test_an_index_of_other_dimensions_or_another_key_is_said_with_its_field(checking, pinecone_index):
    wide = pinecone_index(dimension=1536)
    answer = create(checking, wide.config())
    assert_error(answer, 400, "VECTOR_DB_CONFIG_ERROR")
    error = answer.json()["error"]
    assert "The index has 1536 dimensions, the model makes 256." in error["message"]
    assert error["details"]["field"] == "vectorStorageConfig.indexHost"
    answer = create(checking, wide.config(apiKey="canary-other-key"))
    assert answer.json()["error"]["details"]["field"] == "vectorStorageConfig.apiKey"
    assert "VENDOR" not in answer.text
    assert "canary" not in answer.text


def results_of(org, body):
    answer = org.client.post("/v1/namespaces/test", json=body)
    assert answer.status_code == 200, answer.text
    assert pinecone.API_KEY not in answer.text
    return {result["field"]: result for result in answer.json()["data"]["tests"]}


def test_configs_are_tested_one_by_one_and_nothing_is_stored(checking, pinecone_index):
    wide = pinecone_index(dimension=1536).config()
    body = {"fileStorageConfig": {"type": "LOCAL"}, "vectorStorageConfig": wide, "embeddingModelConfig": STATIC}
    results = results_of(checking, body)
    assert {field: result["outcome"] for field, result in results.items()} == {
        "fileStorageConfig": "PASSED",
        "vectorStorageConfig": "FAILED",
        "embeddingModelConfig": "PASSED",
    }
    assert results["fileStorageConfig"]["message"] == "The folder can be written to."
    assert results["embeddingModelConfig"]["message"] == "The model is available; its vectors have 256 dimensions."
    assert results["vectorStorageConfig"]["errorField"] == "vectorStorageConfig.indexHost"
    assert "The index has 1536 dimensions, the model makes 256." in results["vectorStorageConfig"]["message"]
    assert checking.client.get("/v1/namespaces").json()["data"]["namespaces"] == []


def test_a_store_is_not_tested_without_the_model_that_decides_its_vectors(checking, pinecone_index):
    store = pinecone_index(dimension=256).config()
    answer = checking.client.post("/v1/namespaces/test", json={"vectorStorageConfig": store})
    assert_error(answer, 400, "INVALID_NAMESPACE_CONFIG")
    assert answer.json()["error"]["details"]["field"] == "embeddingModelConfig"
    dead = {"provider": "ENDPOINT", "url": "http://127.0.0.1:9", "model": "away"}
    results = results_of(checking, {"vectorStorageConfig": store, "embeddingModelConfig": dead})
    assert results["embeddingModelConfig"]["outcome"] == "FAILED"
    assert results["vectorStorageConfig"]["outcome"] == "NOT_TESTED"


def test_a_config_without_a_test_is_answered_as_untested_and_an_unknown_one_is_named(checking):
    scraper, app = {"provider": "FIRECRAWL", "apiKey": "canary"}, {"clientId": "c", "clientSecret": "canary"}
    body = {"webScraperConfig": scraper, "boxConfig": app, "nosuchConfig": {}, "embeddingModelConfig": STATIC}
    answer = checking.client.post("/v1/namespaces/test", json=body)
    outcomes = {test["field"]: test["outcome"] for test in answer.json()["data"]["tests"]}
    untested = dict.fromkeys(["webScraperConfig", "boxConfig"], "NOT_TESTED")
    assert outcomes == {"embeddingModelConfig": "PASSED", **untested}
    assert answer.json()["message"] == "Configs tested; not known here and left out: nosuchConfig"
    assert "canary" not in answer.text


def test_an_organization_whose_vendors_are_silent_holds_up_no_other_one(checking):
    other = organizations.create_organization(checking.db, "other")
    key = api_keys.create_key(checking.db, checking.ring, other.id, "other").api_key

    def test_silent(number):
        reranker = {"provider": "ENDPOINT", "url": f"http://127.0.0.1:{port}/{number}", "model": "silent"}
        with contextlib.suppress(httpx.TimeoutException):
            checking.client.post("/v1/namespaces/test", json={"rerankConfig": reranker}, timeout=1)

    with socket.create_server(("127.0.0.1", 0), backlog=2 * MAX_CONFIG_CHECKS) as silent:
        port = silent.getsockname()[1]
        with ThreadPoolExecutor(MAX_CONFIG_CHECKS) as flood:
            list(flood.map(test_silent, range(MAX_CONFIG_CHECKS)))
        with client_of(checking.base, key) as client:
            answer = client.post("/v1/namespaces/test", json={"fileStorageConfig": {"type": "LOCAL"}})
    (result,) = answer.json()["data"]["tests"]
    assert (result["outcome"], result["seconds"] < 2) == ("PASSED", True)


def test_a_stored_key_is_tested_behind_its_mask_and_goes_to_no_other_index(checking, pinecone_index):
    index = pinecone_index(dimension=256)
    namespace = create(checking, index.config()).json()["data"]["namespace"]
    shown = {**namespace["vectorStorageConfig"], "apiKey": "••••"}
    body = {"namespaceId": namespace["id"], "vectorStorageConfig": shown}
    assert results_of(checking, body)["vectorStorageConfig"]["outcome"] == "PASSED"
    moved = {**body, "vectorStorageConfig": {**shown, "indexHost": "http://127.0.0.1:9"}}
    answer = checking.client.post("/v1/namespaces/test", json=moved)
    assert answer.json()["error"]["details"]["reason"] == "secret_required"
