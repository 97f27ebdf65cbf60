"""Chunks of a document, and explanations of scores."""

from __future__ import annotations

import pytest

CHUNK_TEXTS = ["owls hunt mice", "mice hunt cheese", "cheese hunts nobody"]


def ask(org, space, document, **query):
    return org.client.get(f"/v1/documents/{document}/chunks", params={"namespaceId": space, **query})


def search(org, space, **options):
    body = {
        "namespaceId": space,
        "query": "owls mice",
        "hybridConfig": {"semanticWeight": 0, "keywordWeight": 1},
        **options,
    }
    answer = org.client.post("/v1/search/hybrid", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_chunks_come_in_their_order_page_by_page(org, space, library):
    document = library.put(CHUNK_TEXTS)
    first = ask(org, space, document, pageSize=2).json()["data"]
    assert [(chunk["index"], chunk["content"]) for chunk in first["chunks"]] == list(enumerate(CHUNK_TEXTS))[:2]
    assert (first["itemsReturned"], first["hasNextPage"]) == (2, True)
    assert set(first["chunks"][0]) == {"index", "start", "end", "page", "tokens", "content", "hidden"}
    second = ask(org, space, document, cursor=first["nextCursor"]).json()["data"]
    assert [chunk["content"] for chunk in second["chunks"]] == CHUNK_TEXTS[2:]
    assert (second["hasNextPage"], second["nextCursor"]) == (False, None)


def test_only_the_visible_chunks_are_listed(org, space, library):
    document = library.put(CHUNK_TEXTS)
    library.put(["newer"], generation=2, document_id=document, visible=False)
    assert len(ask(org, space, document).json()["data"]["chunks"]) == 3
    library.flip(document, 2)
    assert [chunk["content"] for chunk in ask(org, space, document).json()["data"]["chunks"]] == ["newer"]
    waiting = org.text(space, "not yet")["data"]["documents"][0]["id"]
    assert ask(org, space, waiting).json()["data"]["chunks"] == []


def test_search_explains_itself_when_asked(org, space, library):
    library.put(CHUNK_TEXTS)
    plain = search(org, space)
    assert set(plain) == {"results", "answerable"}
    assert all("explanation" not in result for result in plain["results"])
    data = search(org, space, explain=True)
    best = data["results"][0]
    assert best["explanation"]["keywordScore"] == pytest.approx(best["score"])
    assert best["explanation"]["semanticScore"] == 0
    assert (best["explanation"]["keywordRank"], best["explanation"]["semanticRank"]) == (1, None)
    assert [result["explanation"]["keywordRank"] for result in data["results"]] == [1, 2]
    assert data["timings"]["keyword"] > 0
    assert data["timings"]["embed"] is None
    for result in data["results"]:
        del result["explanation"]
    assert data["results"] == plain["results"]
