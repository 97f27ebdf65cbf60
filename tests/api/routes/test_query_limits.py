"""Time limits of reads, with the expensive part named in the error."""

from __future__ import annotations

from contextlib import contextmanager

import psycopg
import pytest

from retrieval.ports import Scope
from tests.api.support import client_of, serve
from tests.library import Library

KEYWORDS_ONLY = {"semanticWeight": 0.0, "keywordWeight": 1.0}
SLOW_CONDITION = {"any": [{"field": "metadata.text", "op": "contains", "value": f"{n} seals"} for n in range(7)]}


@pytest.fixture(scope="module")
def impatient(api_settings, api_database, ring):
    """API with a search limit of 0.5 s."""
    with serve(api_settings.model_copy(update={"search_seconds": 0.5}), api_database, ring) as address:
        yield address


@pytest.fixture
def client(impatient, org):
    with client_of(impatient, org.api_key) as opened:
        yield opened


@pytest.fixture
def space(org):
    space = org.namespace()
    Library(org.db, Scope(org.id, space, ""), None).put(["owls hunt"], metadata={"text": "3 seals"})
    return space


@contextmanager
def documents_locked(database):
    """Lock the documents table; reads wait up to their limit."""
    with psycopg.connect(database) as connection:
        connection.execute("lock table documents in access exclusive mode")
        yield


def assert_timed_out(answer, field, *parts):
    assert answer.status_code == 503, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["details"]["reason"]) == ("SERVICE_UNAVAILABLE", "took_too_long")
    assert error["details"].get("field") == field
    for words in (*parts, "0.5 s"):
        assert words in error["message"]


@pytest.mark.parametrize("path", ["/v1/search/hybrid", "/v1/search/why"])
def test_a_search_beyond_the_limit_names_its_conditions(client, space, api_database, path):
    body = {"namespaceId": space, "query": "owls", "hybridConfig": KEYWORDS_ONLY}
    if path.endswith("why"):
        body["externalId"] = "none"
    with documents_locked(api_database):
        assert_timed_out(
            client.post(path, json={**body, "filter": {"where": SLOW_CONDITION}}), "filter", "7 conditions", "fewer"
        )
        assert_timed_out(client.post(path, json=body), None, "Try again")
    assert client.post("/v1/search/hybrid", json={**body, "filter": {"where": SLOW_CONDITION}}).status_code == 200


def test_a_list_beyond_the_limit_names_its_facets_or_conditions(client, space, api_database):
    body = {"namespaceId": space, "filterConfig": {}, "facets": ["metadata.text", "document.type"]}
    condition_body = {**body, "facets": [], "filterConfig": {"where": SLOW_CONDITION}}
    with documents_locked(api_database):
        assert_timed_out(client.post("/v1/documents", json=body), "facets", "2 facets", "fewer")
        assert_timed_out(client.post("/v1/documents", json=condition_body), "filterConfig", "7 conditions")
    assert len(client.post("/v1/documents", json=condition_body).json()["data"]["documents"]) == 1
    counted = client.post("/v1/documents", json=body).json()["data"]["facets"]["metadata.text"]
    assert counted == [{"value": "3 seals", "count": 1}]
