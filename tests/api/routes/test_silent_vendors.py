"""A search with a hanging model ends in time and names the vendor."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations
from tests.api.process import running
from tests.api.support import EMBEDDED, assert_error, client_of
from tests.standins import embedding_server

OPENAI = {"provider": "OPENAI", "model": "text-embedding-3-small", "apiKey": "key"}
TEXT_SOURCE = {"source": "TEXT", "config": {"text": "A text."}}


@pytest.mark.slow
def test_a_search_names_the_model_that_hangs_within_its_seconds(api_database, api_db, ring, tmp_path):
    owner = organizations.create_organization(api_db, "silent")
    api_key = api_keys.create_key(api_db, ring, owner.id, "silent").api_key
    with embedding_server.running("OPENAI", holds=lambda _texts: True) as vendor:
        endpoints = json.dumps({"OPENAI": {"base_url": vendor.base_url}})
        settings = {"RETRIEVAL_ENDPOINTS": endpoints, "RETRIEVAL_SEARCH_SECONDS": "3"}
        with running(tmp_path, api_database, ring, **settings) as (base, _, _), client_of(base, api_key) as client:
            creation = client.post(
                "/v1/namespaces", json={"name": "silent", **EMBEDDED, "embeddingModelConfig": OPENAI}
            )
            space = creation.json()["data"]["namespace"]["id"]
            assert (
                client.post("/v1/ingest/text", json={"namespaceId": space, "ingestConfig": TEXT_SOURCE}).status_code
                == 200
            )
            client.post("/v1/search", json={"namespaceId": space, "query": "first"})  # imports the vendor's SDK
            began = time.monotonic()
            answer = client.post("/v1/search", json={"namespaceId": space, "query": "anything"})
            assert time.monotonic() - began < 3
            refused = assert_error(answer, 503, "SERVICE_UNAVAILABLE")
            assert "OPENAI" in refused["message"]
            assert refused["error"]["details"]["field"] == "embeddingModelConfig"
            words = {
                "namespaceId": space,
                "query": "anything",
                "hybridConfig": {"semanticWeight": 0, "keywordWeight": 1},
            }
            assert client.post("/v1/search/hybrid", json=words).status_code == 200
            creation = client.post("/v1/namespaces", json={"name": "local", **EMBEDDED})
            local = {"namespaceId": creation.json()["data"]["namespace"]["id"], "query": "anything"}
            assert client.post("/v1/search", json=local).status_code == 200
            with ThreadPoolExecutor(24) as searching:
                hanging = {"namespaceId": space, "query": "anything else"}
                answers = [searching.submit(client.post, "/v1/search", json=hanging) for _ in range(24)]
                time.sleep(0.5)
                began = time.monotonic()
                assert client.post("/v1/search", json=local | {"query": "another"}).status_code == 200
                assert time.monotonic() - began < 1.5
                for answer in answers:
                    refused = assert_error(answer.result(), 503, "SERVICE_UNAVAILABLE")
                    assert "OPENAI" in refused["message"]
                    assert int(answer.result().headers["retry-after"]) > 0
        vendor.holds = lambda _texts: False
