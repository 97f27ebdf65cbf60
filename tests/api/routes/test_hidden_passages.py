"""Passages and documents hidden from search with a reason, and shown again."""

from __future__ import annotations

from tests.api.support import assert_error

KEYWORDS_ONLY = {"semanticWeight": 0.0, "keywordWeight": 1.0}
OLD, NEW = "The price of an owl is five euros.", "Owls are priced by weight."


def search(org, space, headers=None, **body):
    request = {"namespaceId": space, "query": "owls price", "hybridConfig": KEYWORDS_ONLY, **body}
    answer = org.client.post("/v1/search/hybrid", json=request, headers=headers or {})
    assert answer.status_code == 200, answer.text
    return [hit["content"] for hit in answer.json()["data"]["results"]]


def hide(org, space, document, **body):
    request = {"namespaceId": space, "reason": "outdated price list", **body}
    answer = org.client.post(f"/v1/documents/{document}/hidden-passages", json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["hiddenPassage"]


def hidden(org, space, **params):
    answer = org.client.get("/v1/hidden-passages", params={"namespaceId": space, **params})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["hiddenPassages"]


def extent(org, space, headers=None):
    """Return the hidden extent of each document in the list."""
    answer = org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {}}, headers=headers or {})
    return [document.get("hidden") for document in answer.json()["data"]["documents"]]


def show(org, space, document, passage):
    path = f"/v1/documents/{document}/hidden-passages/{passage}"
    return org.client.delete(path, params={"namespaceId": space})


def test_a_hidden_passage_is_in_no_search_until_it_is_shown_again(org, library, space):
    document = library.put([OLD, NEW])
    passage = hide(org, space, document, chunkIndex=0)
    passage = hide(org, space, document, chunkIndex=0)
    assert (passage["excerpt"], passage["reason"], len(passage["contentHash"])) == (OLD, "outdated price list", 64)
    assert search(org, space) == search(org, space, {"X-On-Behalf-Of": "ada"}) == [NEW]
    assert search(org, space, filter={"documents": {"documentIds": [document]}}) == [NEW]
    answer = org.client.get(f"/v1/documents/{document}/chunks", params={"namespaceId": space})
    assert [chunk["hidden"] for chunk in answer.json()["data"]["chunks"]] == [True, False]
    assert extent(org, space) == ["PASSAGES"]
    assert extent(org, space, {"X-On-Behalf-Of": "ada"}) == [None]
    assert hidden(org, space) == [passage]
    assert show(org, space, document, passage["id"]).status_code == 200
    assert sorted(search(org, space)) == sorted([OLD, NEW])
    assert hidden(org, space) == []
    assert_error(show(org, space, document, passage["id"]), 404, "NOT_FOUND")


def test_a_passage_stays_hidden_in_a_new_version_with_its_text(org, library, space):
    document = library.put([OLD, NEW])
    hide(org, space, document, chunkIndex=0)
    library.put(["Owls fly.", OLD], document_id=document, generation=2)
    assert search(org, space) == ["Owls fly."]
    library.put(["The price of an owl is six euros."], document_id=document, generation=3)
    assert search(org, space) == ["The price of an owl is six euros."]


def test_a_hidden_document_is_listed_and_in_no_search(org, library, space):
    document, other_document = library.put([OLD, NEW]), library.put(["The price of owls."])
    first, second = hide(org, space, document), hide(org, space, document, reason="withdrawn")
    assert (first["contentHash"], first["excerpt"]) == (None, None)
    assert [entry["reason"] for entry in hidden(org, space)] == ["withdrawn"]
    assert search(org, space) == ["The price of owls."]
    why = {"namespaceId": space, "query": "owls", "hybridConfig": KEYWORDS_ONLY, "documentId": document}
    (reason,) = org.client.post("/v1/search/why", json=why).json()["data"]["reasons"]
    assert reason == {"kind": "HIDDEN", "detail": "It is hidden from search: withdrawn"}
    assert len(hidden(org, space, pageSize=1)) == 1
    assert show(org, space, document, second["id"]).status_code == 200
    assert len(search(org, space)) == 3
    assert other_document != document
