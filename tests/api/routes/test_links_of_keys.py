"""Signed links: given to keys that may read documents, valid as long as the key."""

from __future__ import annotations

import itertools

import pytest

from retrieval.accounts import api_keys
from retrieval.ports import Scope
from tests.api.routes.test_files import INCLUDE, path, upload
from tests.api.routes.test_mcp import KEYWORDS_ONLY, rpc
from tests.api.support import assert_error, client_of
from tests.library import Library

SCOPES = [
    ["search", "documents:write", "ingest:write", "namespaces:read"],
    ["search", "documents:read"],
]


@pytest.fixture
def document(org, space):
    """Document with a chunk much shorter than the text."""
    document = Library(org.db, Scope(org.id, space, ""), None).put(["The harbour seal dives."], name="seals")
    org.db.rows("update documents set raw_key = 'a/raw', parsed_key = 'a/parsed' where id = %(id)s", {"id": document})
    return document


def every_search(client, space):
    """Yield the responses of every search route, at last of the MCP tool."""
    semantic_body = {"namespaceId": space, "query": "harbour seal"}
    keyword_body = {**semantic_body, "hybridConfig": KEYWORDS_ONLY}
    yield client.post("/v1/search", json=semantic_body)
    yield client.post("/v1/search/hybrid", json=keyword_body)
    yield client.post("/v1/search/batch", json={"namespaceId": space, "queries": ["harbour seal"]})
    yield client.post(
        "/v1/compat/dify/retrieval",
        json={"knowledge_id": space, "query": "harbour seal", "retrieval_setting": {"top_k": 3, "score_threshold": 0}},
    )
    yield client.post(f"/v1/vector_stores/{space}/search", json={"query": "harbour seal"})
    yield rpc(client, "tools/call", {"name": "search", "arguments": keyword_body})


@pytest.mark.parametrize("scopes", SCOPES, ids=" ".join)
@pytest.mark.parametrize("is_bound", [False, True])
def test_only_a_key_that_may_read_documents_gets_links(org, space, document, scopes, is_bound):
    with org.key(scopes=scopes, **({"namespace": space} if is_bound else {})) as client:
        answers = list(every_search(client, space))
    assert any(document in answer.text for answer in answers)
    assert any("/v1/files/" in answer.text for answer in answers) is ("documents:read" in scopes)
    result = answers[-1].json()["result"]
    assert not result["isError"], result
    assert "harbour seal" in result["content"][0]["text"]
    hit = result["structuredContent"]["results"][0]
    assert ("url" in hit) is ("documents:read" in scopes)


def test_a_link_ends_when_its_key_is_revoked_and_no_other_link_does(org, space, anonymous, api_settings):
    upload(org, space, "owls.txt", b"Owls hunt.", "text/plain", parsed=True)
    keys = [api_keys.create_key(org.db, org.ring, org.id, name) for name in ("first", "second")]
    links = []
    for key in keys:
        with client_of(org.base, key.api_key) as client:
            body = {"namespaceId": space, "filterConfig": {}, "includeConfig": INCLUDE}
            document = client.post("/v1/documents", json=body).json()["data"]["documents"][0]
            links.append([path(api_settings, document[name]) for name in INCLUDE])
    assert [anonymous.get(link).status_code for link in itertools.chain(*links)] == [200] * 4
    assert org.client.delete(f"/v1/keys/{keys[0].id}").status_code == 200
    for link in links[0]:
        assert_error(anonymous.get(link), 404, "NOT_FOUND")
        for changed in (link.replace(keys[0].id, keys[1].id), link.replace(f"&key={keys[0].id}", "")):
            assert changed != link
            assert_error(anonymous.get(changed), 404, "NOT_FOUND")
    assert [anonymous.get(link).status_code for link in links[1]] == [200, 200]
