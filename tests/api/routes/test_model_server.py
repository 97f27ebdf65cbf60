"""Namespace with a model server: learned limits are stored and shown, the key is not shown."""

import json
import logging

import pytest

from api import config_check
from connectors.embedders import endpoint, server_probe
from retrieval import settings
from tests.api.support import EMBEDDED, assert_error, check_configs
from tests.registry_instances import close_instances, forget_instances
from tests.standins import model_server
from tests.standins.model_server import API_KEY, UNEMBEDDABLE, ModelServer

LEARNED = {
    "textsPerRequest": 32,
    "tokensPerText": 512,
    "dimensions": 64,
    "base64": True,
    "normalized": True,
    "path": "/v1/embeddings",
}


@pytest.fixture
def checking(api_settings, api_database, api_db, ring, monkeypatch):
    """Organization at an API with config checks and access to loopback."""
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")
    monkeypatch.setenv("RETRIEVAL_HOME", str(api_settings.home))
    forget_instances()
    monkeypatch.setattr(config_check, "CHECK_SECONDS", 60.0)
    monkeypatch.setattr(endpoint, "CHECK_SECONDS", 60.0)
    monkeypatch.setattr(server_probe, "SLOW_SECONDS", 60.0)
    settings.load_settings.cache_clear()
    with check_configs(api_settings, api_database, api_db, ring) as org:
        yield org
    close_instances()


@pytest.fixture
def server():
    with model_server.running(ModelServer("TEI", 32, 422, longest=512)) as running:
        yield running


def model_of(server, **settings):
    return {"provider": "ENDPOINT", "url": server.url, "model": "custom", "apiKey": API_KEY, **settings}


def test_what_the_check_learns_is_shown_and_the_key_is_not(checking, server, caplog):
    with caplog.at_level(logging.DEBUG):
        body = {"name": "own model", **EMBEDDED, "embeddingModelConfig": model_of(server, queryPrefix="query: ")}
        answer = checking.client.post("/v1/namespaces", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["message"] == (
        "Namespace created successfully; learned: 32 texts per request, 512 tokens per text, 64 dimensions"
    )
    space = answer.json()["data"]["namespace"]
    expected = {"provider": "ENDPOINT", "url": server.url, "model": "custom", "queryPrefix": "query: "}
    assert space["embeddingModelConfig"] == expected | {"learned": LEARNED}
    path = f"/v1/namespaces/{space['id']}"
    renamed = checking.client.patch(path, json={"name": "renamed"}).json()["data"]["namespace"]
    assert renamed["embeddingModelConfig"]["learned"] == LEARNED
    rows = checking.db.rows("select config::text as text from namespaces where id = %(id)s", {"id": space["id"]})
    assert API_KEY not in answer.text + caplog.text + rows[0]["text"]
    assert len(server.refused) == 2


def test_a_server_without_a_key_gets_none_of_the_environment(checking, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "environment-key")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer environment-key")
    model = {"provider": "ENDPOINT", "url": server.url, "model": "custom"}
    checking.namespace(embeddingModelConfig=model)
    assert server.keys == {""}


def test_a_key_stays_with_its_server_and_another_prefix_needs_documents_embedded_again(checking, server):
    space = checking.namespace(embeddingModelConfig=model_of(server))
    path = f"/v1/namespaces/{space}"
    masked = {"embeddingModelConfig": model_of(server, apiKey="••••")}
    assert checking.client.patch(path, json=masked).status_code == 200
    elsewhere = {"embeddingModelConfig": {**masked["embeddingModelConfig"], "url": "https://models.example"}}
    error = assert_error(checking.client.patch(path, json=elsewhere), 400, "INVALID_NAMESPACE_CONFIG")
    assert error["error"]["details"]["reason"] == "secret_required"
    checking.text(space)
    server.most = 16
    repeated = checking.client.patch(path, json=masked)
    assert repeated.json()["data"]["namespace"]["embeddingModelConfig"]["learned"] == LEARNED | {"textsPerRequest": 16}
    changed = {"embeddingModelConfig": model_of(server, passagePrefix="passage: ")}
    error = assert_error(checking.client.patch(path, json=changed), 400, "INVALID_NAMESPACE_CONFIG")
    assert error["error"]["details"]["reason"] == "reembed_required"


@pytest.mark.parametrize(
    ("change", "code", "field", "words"),
    [
        ({"url": "http://10.1.2.3:11434"}, "EMBEDDING_CONFIG_ERROR", "embeddingModelConfig.url", "not on the public"),
        ({"url": "http://8.8.8.8"}, "EMBEDDING_CONFIG_ERROR", "embeddingModelConfig.url", "Without https"),
        ({"url": "ftp://models.example"}, "EMBEDDING_CONFIG_ERROR", "embeddingModelConfig.url", "must begin with"),
        ({"dimensions": 4001}, "INVALID_NAMESPACE_CONFIG", None, ""),
    ],
)
def test_addresses_are_guarded(checking, server, change, code, field, words):
    body = {"name": "guarded", **EMBEDDED, "embeddingModelConfig": model_of(server, **change)}
    error = assert_error(checking.client.post("/v1/namespaces", json=body), 400, code)
    assert field is None or error["error"]["details"]["field"] == field
    assert words in error["message"]
    assert API_KEY not in json.dumps(error)
    assert not server.keys


@pytest.mark.parametrize("path", ["/v1/search", "/v1/search/hybrid"])
def test_a_query_that_the_model_cannot_embed_is_a_clear_refusal_and_other_searches_are_answered(checking, server, path):
    space = checking.namespace(embeddingModelConfig=model_of(server))
    checking.text(space)
    body = {"namespaceId": space, "query": "owls"}
    if path.endswith("hybrid"):
        body["hybridConfig"] = {"semanticWeight": 0.5, "keywordWeight": 0.5}
    error = assert_error(
        checking.client.post(path, json=body | {"query": f"an {UNEMBEDDABLE} question"}), 400, "INVALID_SEARCH_REQUEST"
    )
    assert error["error"]["details"] == {"reason": "not_embedded", "field": "query"}
    assert "answered with an error of its own (500). It says: failed to encode response" in error["message"]
    assert "Ask in other words" in error["message"]
    assert checking.client.post(path, json=body).status_code == 200
