"""Fresh installation: the first key finds a namespace without vendor accounts, and the first request works."""

from __future__ import annotations

from retrieval.accounts import bootstrap
from retrieval.database.database import Database
from tests.api.support import client_of, serve


def test_the_default_namespace_has_all_four_embedded_values(fresh_database, api_settings, ring):
    url = fresh_database("fresh")
    db = Database(url, size=2)
    installation = bootstrap.ensure_installation(db, ring)
    repeated = bootstrap.ensure_installation(db, ring)
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
