"""A fresh installation: its first key finds a namespace that needs no account, and the first request works."""

from __future__ import annotations

from retrieval.accounts import bootstrap
from retrieval.database.database import Database
from tests.api.support import client_of, serve


def test_the_default_namespace_has_all_four_embedded_values(fresh_database, api_settings, ring):
    url = fresh_database("fresh")
    db = Database(url, size=2)
    made = bootstrap.ensure_installation(db, ring)
    again = bootstrap.ensure_installation(db, ring)
    db.close()
    assert (again.namespace_id, again.api_key) == (made.namespace_id, None)
    with serve(api_settings, url, ring) as base, client_of(base, made.api_key) as client:
        [space] = client.get("/v1/namespaces").json()["data"]["namespaces"]
        assert space["id"] == made.namespace_id
        assert space["fileStorageConfig"] == {"type": "LOCAL"}
        assert space["vectorStorageConfig"] == {"provider": "PGVECTOR"}
        assert space["embeddingModelConfig"] == {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"}
        assert space["webScraperConfig"] == {"provider": "BUILTIN"}
        sent = [
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
        assert [answer.status_code for answer in sent] == [200, 200, 200]
