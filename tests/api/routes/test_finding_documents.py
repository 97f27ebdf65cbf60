"""Documents found over HTTP by part of the name, by site, and by unknown access."""

from __future__ import annotations

import json

import pytest

from retrieval.ports import Scope
from tests.api.support import assert_error
from tests.library import Library

PAGES = {
    "Getting started": "https://docs.example.org/start",
    "Seals": "https://docs.example.org/seals",
    "Prices": "https://shop.example.org/prices",
}


@pytest.fixture
def space(org):
    """Namespace with three pages of two sites, a file and a text."""
    created = org.namespace()
    library = Library(org.db, Scope(org.id, created, ""), None)
    for name, url in PAGES.items():
        library.put(name=name, external_id=url, document_type="URL", source="WEBSITE")
    library.put(name="Harbour Seal.pdf", external_id="f1", document_type="FILE", source="LOCAL_FILE")
    library.put(name="hidden seal", external_id="t1")
    return created


def ask(org, method, path, space, filters, headers=None, **options):
    body = {"namespaceId": space, "filterConfig": filters, **options}
    return org.client.request(method, path, json=body, headers=headers or {})


def names(org, space, filters, headers=None):
    answer = ask(org, "POST", "/v1/documents", space, filters, headers)
    assert answer.status_code == 200, answer.text
    return {document["name"] for document in answer.json()["data"]["documents"]}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"text": "seal"}, {"Seals", "Harbour Seal.pdf", "hidden seal"}),
        ({"text": "SEAL harbour"}, {"Harbour Seal.pdf"}),
        ({"text": "shop.example"}, {"Prices"}),
        ({"text": "seal", "documentTypes": ["URL"]}, {"Seals"}),
        ({"text": "", "sites": None, "accessStatuses": []}, {*PAGES, "Harbour Seal.pdf", "hidden seal"}),
        ({"sites": ["docs.example.org"]}, {"Getting started", "Seals"}),
        ({"sites": ["DOCS.example.org", "shop.example.org"]}, set(PAGES)),
        ({"sites": ["example.org"]}, set()),
        ({"sites": ["docs.example.org"], "text": "start"}, {"Getting started"}),
        ({"accessStatuses": ["UNKNOWN"]}, set()),
    ],
)
def test_filters_find_documents(org, space, filters, expected):
    assert names(org, space, filters) == expected


def test_sites_are_counted_among_what_matches(org, space):
    include = {"documents": False, "statsBySite": True}

    def sites(filters):
        data = ask(org, "POST", "/v1/documents", space, filters, includeConfig=include).json()["data"]
        return [(count["site"], count["totalCount"]) for count in data["statsBySite"]]

    assert sites({}) == [("docs.example.org", 2), ("shop.example.org", 1)]
    assert sites({"text": "seal"}) == [("docs.example.org", 1)]
    assert sites({"documentTypes": ["TEXT"]}) == []


def test_what_is_done_by_a_search_touches_what_it_finds_and_nothing_else(org, space):
    changed = ask(org, "PATCH", "/v1/documents", space, {"text": "seal"}, data={"metadata": {"seen": True}})
    assert changed.json()["data"]["itemsUpdated"] == 3
    assert names(org, space, {"metadata": {"seen": True}}) == names(org, space, {"text": "seal"})
    deleted = ask(org, "DELETE", "/v1/documents", space, {"sites": ["docs.example.org"]})
    assert deleted.json()["message"] == "2 documents deleted successfully"
    assert names(org, space, {}) == {"Prices", "Harbour Seal.pdf", "hidden seal"}
    for filters in ({"text": "  "}, {"sites": []}):
        assert_error(ask(org, "DELETE", "/v1/documents", space, filters), 400, "INVALID_FILTER_CONFIG")
    assert_error(ask(org, "DELETE", "/v1/documents", space, {"text": "nowhere"}), 404, "DOCUMENTS_NOT_FOUND")


def test_a_user_finds_and_counts_what_they_may_see(org, space):
    nobody = json.dumps({"users": ["ada"], "groups": [], "denied": {"users": [], "groups": []}, "public": False})
    org.db.rows(
        "update documents d set access = %(access)s::jsonb, access_reason = case name when 'hidden seal' then 'x' end"
        " from partitions p where p.id = d.partition_id and p.namespace_id = %(space)s"
        " and name in ('hidden seal', 'Prices')",
        {"access": nobody, "space": space},
    )
    bob, ada = {"X-On-Behalf-Of": "bob"}, {"X-On-Behalf-Of": "ada"}
    assert names(org, space, {"text": "seal"}, bob) == {"Seals", "Harbour Seal.pdf"}
    assert names(org, space, {"text": "seal"}, ada) == {"Seals", "Harbour Seal.pdf", "hidden seal"}
    assert names(org, space, {"sites": ["shop.example.org"]}, bob) == set()
    assert names(org, space, {"accessStatuses": ["UNKNOWN"]}) == {"hidden seal"}
    assert names(org, space, {"accessStatuses": ["UNKNOWN"]}, bob) == set()
    data = ask(org, "POST", "/v1/documents", space, {}, bob, includeConfig={"statsBySite": True}).json()["data"]
    assert [count["site"] for count in data["statsBySite"]] == ["docs.example.org"]
    refused = ask(org, "DELETE", "/v1/documents", space, {"sites": ["shop.example.org"]}, bob)
    assert_error(refused, 403, "FORBIDDEN")
