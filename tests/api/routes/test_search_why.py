"""Search explanations over HTTP, by keywords only."""

from __future__ import annotations

KEYWORDS_ONLY = {"semanticWeight": 0.0, "keywordWeight": 1.0}


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
