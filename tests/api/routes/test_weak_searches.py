"""Weak searches: recorded without the searcher, listed, deleted after their retention."""

from __future__ import annotations

import asyncio
import time

import psycopg

from retrieval.database.database import Database
from retrieval.ports import Scope
from retrieval.search import queries_weak
from retrieval.search.weak_searches import WeakSearches
from tests.library import Library

KEYWORDS_ONLY = {"semanticWeight": 0.0, "keywordWeight": 1.0}


def list_weak(org, library):
    answer = org.client.get("/v1/weak-searches", params={"namespaceId": library.scope.namespace})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_queries_without_good_results_are_listed_and_deleted(org, library):
    library.put(["owls hunt mice at night"], name="owls")
    body = {"namespaceId": library.scope.namespace, "hybridConfig": KEYWORDS_ONLY}
    for query in ({"query": "zebra  stripes"}, {"query": "zebra stripes"}, {"query": "quagga", "explain": True}):
        assert org.client.post("/v1/search/hybrid", json={**body, **query}).status_code == 200
    deadline = time.monotonic() + 30
    while not list_weak(org, library)["weakSearches"] and time.monotonic() < deadline:
        time.sleep(0.2)
    (search,) = list_weak(org, library)["weakSearches"]
    assert (search["query"], search["count"], search["bestScore"]) == ("zebra stripes", 2, None)
    assert search["probability"] < 0.5
    queries_weak.delete_old_searches(org.db, 1)
    assert len(list_weak(org, library)["weakSearches"]) == 1
    queries_weak.delete_old_searches(org.db, 0)
    assert list_weak(org, library) == {"weakSearches": [], "retentionDays": 30}


def test_queries_of_a_namespace_that_is_being_removed_stop_no_recording(org, library, api_database):
    other = Library(org.db, Scope(org.id, org.namespace(), ""), None)

    async def record():
        db = Database(api_database, size=1)
        searches = WeakSearches(db)
        searches.note_search(library.scope, "gone", None, 0.0)
        searches.note_search(other.scope, "zebra", None, 0.0)
        with psycopg.connect(api_database) as removing:
            removing.execute("delete from partitions where id = %s", [library.partition])
            writing = asyncio.create_task(searches.write_pending())
            await asyncio.sleep(0.3)
            removing.commit()
        try:
            await writing
        finally:
            await db.async_close()

    asyncio.run(record())
    assert [search["query"] for search in list_weak(org, other)["weakSearches"]] == ["zebra"]
