"""Fresh installation: the first key finds a namespace without vendor accounts, and the first request works."""

from __future__ import annotations

import json

import pytest
from pydantic import SecretStr

from api.routes.namespaces import check_defaults
from retrieval.accounts import bootstrap
from retrieval.database.database import Database
from retrieval.setting_values import WrongSetting
from tests.api.support import client_of, serve


def test_the_default_namespace_has_all_four_embedded_values(fresh_database, api_settings, ring):
    url = fresh_database("fresh")
    db = Database(url, size=2)
    installation = bootstrap.ensure_installation(db, ring, api_settings)
    repeated = bootstrap.ensure_installation(db, ring, api_settings)
    db.close()
    assert (repeated.namespace_id, repeated.api_key) == (installation.namespace_id, None)
    with serve(api_settings, url, ring) as base, client_of(base, installation.api_key) as client:
        [space] = client.get("/v1/namespaces").json()["data"]["namespaces"]
        assert space["id"] == installation.namespace_id
        assert space["fileStorageConfig"] == {"type": "LOCAL"}
        assert space["vectorStorageConfig"] == {"provider": "PGVECTOR"}
        assert space["embeddingModelConfig"] == {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"}
        assert space["webScraperConfig"] == {"provider": "BUILTIN"}
        answers = [
            client.post(
                f"/v1/ingest/{path}",
                json={"namespaceId": space["id"], "ingestConfig": {"source": source, "config": config}},
            )
            for path, source, config in (
                ("text", "TEXT", {"text": "A text."}),
                ("urls", "URLS_LIST", {"urls": ["https://example.org/"]}),
                ("website", "WEBSITE", {"url": "https://example.org/"}),
            )
        ]
        assert [answer.status_code for answer in answers] == [200, 200, 200]


DEFAULTS = {
    "fileStorageConfig": {
        "type": "S3_COMPATIBLE",
        "bucket": "documents",
        "region": "eu-central-1",
        "endpoint": "https://s3.example.com",
        "credentials": {"accessKeyId": "AKIAEXAMPLE", "secretAccessKey": "a-secret-access-key"},
    },
    "vectorStorageConfig": {"provider": "PINECONE", "apiKey": "pc-secret", "indexHost": "https://docs.svc.pinecone.io"},
    "embeddingModelConfig": {"provider": "OPENAI", "model": "text-embedding-3-small", "apiKey": "sk-secret"},
}


def with_defaults(api_settings, configs):
    values = {"default_namespace": SecretStr(json.dumps(configs)), "allow_local_files": False}
    return api_settings.model_copy(update=values)


def test_a_namespace_with_a_name_only_gets_the_operators_configs(fresh_database, api_settings, ring):
    url, settings = fresh_database("with_defaults"), with_defaults(api_settings, DEFAULTS)
    db = Database(url, size=2)
    key = bootstrap.ensure_installation(db, ring, settings).api_key
    db.close()
    with serve(settings, url, ring) as base, client_of(base, key) as client:
        [first] = client.get("/v1/namespaces").json()["data"]["namespaces"]
        named = client.post("/v1/namespaces", json={"name": "manuals"})
        store = client.post("/v1/vector_stores", json={"name": "store"}).json()
        own = {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"}
        mixed = client.post("/v1/namespaces", json={"name": "mixed", "embeddingModelConfig": own}).json()
        spaces = [first, named.json()["data"]["namespace"], mixed["data"]["namespace"]]
        spaces.append(client.get(f"/v1/namespaces/{store['id']}").json()["data"]["namespace"])
    for space in spaces:
        assert space["fileStorageConfig"]["bucket"] == "documents"
        assert space["vectorStorageConfig"]["provider"] == "PINECONE"
    assert [space["embeddingModelConfig"]["provider"] for space in spaces] == ["OPENAI", "OPENAI", "LOCAL", "OPENAI"]
    assert "secret" not in json.dumps(spaces).replace("secretAccessKey", "")


@pytest.mark.parametrize(
    ("configs", "problem"),
    [
        ({"fileStorage": {}, **DEFAULTS}, "fileStorage is no config of a namespace"),
        ({"fileStorageConfig": {"type": "LOCAL"}}, "vectorStorageConfig is missing, embeddingModelConfig is missing"),
        ({**DEFAULTS, "fileStorageConfig": {"type": "LOCAL"}}, "fileStorageConfig.type LOCAL is switched off"),
        ({**DEFAULTS, "vectorStorageConfig": {"provider": "PINE"}}, r"vectorStorageConfig\.provider holds a value"),
    ],
)
def test_the_api_refuses_to_start_with_defaults_that_no_request_could_send(api_settings, configs, problem):
    with pytest.raises(WrongSetting, match=f"RETRIEVAL_DEFAULT_NAMESPACE: .*{problem}"):
        check_defaults(with_defaults(api_settings, configs))
