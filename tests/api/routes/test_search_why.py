"""Search explanations over HTTP, by keywords only."""

from __future__ import annotations

import pytest

from retrieval.ports import Scope
from tests.api.support import assert_error
from tests.library import Library

KEYWORDS_ONLY = {"semanticWeight": 0.0, "keywordWeight": 1.0}


@pytest.fixture
def library(org):
    return Library(org.db, Scope(org.id, org.namespace(), ""), None)


def why(org, library, document=None, **body):
    reference = {} if document is None else {"documentId": document}
    request_body = {
        "namespaceId": library.scope.namespace,
        "query": "owls",
        "hybridConfig": KEYWORDS_ONLY,
        **reference,
        **body,
    }
    answer = org.client.post("/v1/search/why", json=request_body)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def kinds(data):
    return [reason["kind"] for reason in data["reasons"]]


def test_a_shown_document_tells_its_place_and_parts(org, library):
    first = library.put(["seals", "owls owls"], name="first", external_id="one")
    second = library.put(["owls, and a lot of other words beside them"], name="second")
    data = why(org, library, first, query="Do owls, foxes and seals hunt?")
    assert data["document"] == {"id": first, "name": "first", "status": "SUCCESS", "visibleGeneration": 1}
    assert (data["shown"], data["rank"], data["keywordRank"], data["reasons"]) == (True, 1, 1, [])
    assert (data["semanticRank"], data["semanticScore"]) == (None, None)
    assert data["score"] == data["keywordScore"] > data["lastShownScore"] > 0
    assert (data["matchedTerms"], data["missingTerms"]) in [
        (["owls"], ["foxes", "seals", "hunt"]),
        (["seals"], ["owls", "foxes", "hunt"]),
    ]
    assert why(org, library, externalId="one")["document"]["id"] == first
    assert why(org, library, second)["rank"] == 2


def test_what_hides_a_document_is_named(org, library):
    for number in range(5):
        library.put([f"owls owls {number}"])
    fields = {"metadata": {"team": "red", "year": 2020}}
    low = library.put(["one of the owls among many words that stand for nothing at all here"], **fields)
    ranked = why(org, library, low, topK=3)
    assert (ranked["shown"], kinds(ranked), ranked["rank"], ranked["keywordRank"]) == (False, ["RANK"], 6, 6)
    assert 0 < ranked["score"] < ranked["lastShownScore"]
    assert kinds(why(org, library, low, scoreThreshold=0.9)) == ["THRESHOLD"]
    newer = {"field": "metadata.year", "op": "gt", "value": 2020}
    filters = {
        "metadata": {"team": "blue", "year": 2020},
        "documents": {"documentTypes": ["FILE"], "documentIngestionStatuses": ["SUCCESS"]},
        "where": {"all": [{"field": "document.type", "op": "eq", "value": "TEXT"}, newer]},
    }
    hidden = why(org, library, low, filter=filters)
    assert kinds(hidden) == ["FILTER"] * 3
    places = [reason["detail"].split()[0] for reason in hidden["reasons"]]
    assert places == ["filter.metadata.team", "filter.where.all[1]", "filter.documents.documentTypes"]
    assert (hidden["shown"], hidden["rank"], hidden["lastShownScore"], hidden["matchedTerms"]) == (
        False,
        None,
        None,
        ["owls"],
    )
    assert kinds(why(org, library, library.put(["seals"]))) == ["RANK"]
    unready = library.put(["owls"], visible=False, status="FAILED")
    data = why(org, library, unready)
    assert (kinds(data), data["document"]["visibleGeneration"], data["score"]) == (["STATUS"], None, None)
    assert (data["matchedTerms"], data["missingTerms"]) == ([], ["owls"])
    assert kinds(why(org, library, library.put([]))) == ["STATUS"]


def test_an_unknown_document_is_not_found(org, library, organization):
    mine = library.put(["owls"], external_id="mine")
    stranger = organization()
    theirs = Library(org.db, Scope(stranger.id, stranger.namespace(), ""), None).put(["owls"], external_id="theirs")
    tenants = Library(org.db, Scope(org.id, library.scope.namespace, "alice"), None).put(["owls"])
    body = {"namespaceId": library.scope.namespace, "query": "owls", "hybridConfig": KEYWORDS_ONLY}
    for reference in ({"documentId": theirs}, {"documentId": tenants}, {"externalId": "theirs"}, {"documentId": ""}):
        answer = org.client.post("/v1/search/why", json={**body, **reference})
        assert_error(answer, 404, "DOCUMENTS_NOT_FOUND")
    for reference in ({}, {"documentId": mine, "externalId": "mine"}, {"documentId": 5}, {"documentId": None}):
        assert_error(org.client.post("/v1/search/why", json={**body, **reference}), 400, "INVALID_SEARCH_REQUEST")


def test_stop_words_alone_are_named_as_the_reason(org, library):
    # The document contains the words, but stop words are not searched.
    prose = library.put(["It is where the seals were counted" + " along the rocks" * 20])
    (reason,) = why(org, library, prose, query="where it is")["reasons"]
    assert (reason["kind"], "stop words alone" in reason["detail"]) == ("RANK", True)
    (reason,) = why(org, library, prose, query="whales")["reasons"]
    assert reason["detail"] == "None of its chunks holds a word of the query."
