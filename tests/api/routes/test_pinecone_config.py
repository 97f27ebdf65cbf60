"""Namespaces on Pinecone: clear refusals at creation, hidden key."""

from __future__ import annotations

import pytest

from retrieval import settings
from tests.api.support import EMBEDDED, assert_error, check_configs
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


def test_a_fitting_index_is_taken_and_its_key_not_shown(checking, pinecone_index):
    answer = create(checking, pinecone_index(dimension=256).config())
    assert answer.status_code == 200, answer.text
    assert pinecone.API_KEY not in answer.text + checking.client.get("/v1/namespaces").text
