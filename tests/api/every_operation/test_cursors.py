"""Forged, cut or foreign cursors of every listing get 400 with the code of the area."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.api.description import DOCUMENT
from tests.api.support import Failures, assert_error

CODES = {
    "/v1/audit": "INVALID_REQUEST",
    "/v1/connections": "INVALID_REQUEST",
    "/v1/documents": "INVALID_FILTER_CONFIG",
    "/v1/documents/{document_id}/chunks": "INVALID_FILTER_CONFIG",
    "/v1/documents/{document_id}/history": "INVALID_FILTER_CONFIG",
    "/v1/evaluations": "INVALID_REQUEST",
    "/v1/evaluations/{evaluation_id}/questions": "INVALID_REQUEST",
    "/v1/evaluations/{evaluation_id}/runs": "INVALID_REQUEST",
    "/v1/hidden-passages": "INVALID_REQUEST",
    "/v1/ingest-job-runs": "INVALID_REQUEST",
    "/v1/keys": "INVALID_REQUEST",
    "/v1/namespaces": "INVALID_REQUEST",
    "/v1/schedules": "INVALID_REQUEST",
    "/v1/tenants": "INVALID_REQUEST",
    "/v1/webhooks": "INVALID_REQUEST",
    "/v1/webhooks/{webhook_id}/deliveries": "INVALID_REQUEST",
}


def takes_a_cursor(path: str, method: str) -> bool:
    operation = DOCUMENT["paths"][path][method]
    if any(parameter.get("name") == "cursor" for parameter in operation.get("parameters", [])):
        return True
    return "Pagination" in str(operation.get("requestBody", "")) or (path == "/v1/documents" and method == "post")


LISTINGS = sorted((p, m) for p, methods in DOCUMENT["paths"].items() for m in methods if takes_a_cursor(p, m))


def listing_of(org, operation, space: str, doc: str, cursor: str | None, tenant: str | None = None) -> Any:
    path, method = operation
    headers = {} if tenant is None else {"X-Tenant-ID": tenant}
    filled = path.replace("{document_id}", doc)
    if "{evaluation_id}" in filled:
        filled = filled.replace("{evaluation_id}", evaluation_of(org, space))
    if "{webhook_id}" in filled:
        filled = filled.replace("{webhook_id}", webhook_of(org))
    if method == "post":
        page = {"pageSize": 1} | ({"cursor": cursor} if cursor is not None else {})
        body = {"namespaceId": space, "filterConfig": {}, "pagination": page}
        return org.client.post(filled, json=body, headers=headers)
    query = {"namespaceId": space, "pageSize": 1} | ({"cursor": cursor} if cursor is not None else {})
    return org.client.get(filled, params=query, headers=headers)


def evaluation_of(org, space: str) -> str:
    """Return the id of the first evaluation of a namespace, else "none"."""
    data = org.client.get("/v1/evaluations", params={"namespaceId": space}).json().get("data")
    return data["evaluations"][-1]["id"] if data and data["evaluations"] else "none"


def webhook_of(org) -> str:
    """Return the id of the first webhook of an organization, else "none"."""
    hooks = org.client.get("/v1/webhooks").json()["data"]["webhooks"]
    return hooks[-1]["id"] if hooks else "none"


@pytest.fixture
def org(organization):
    return organization(requests_per_minute=100_000)


@pytest.fixture
def filled(org):
    """Return a namespace with two entries per listing, and a document of the namespace."""
    space = org.namespace()
    org.namespace()
    doc = org.text(space, "One.", name="a")["data"]["documents"][0]["id"]
    org.text(space, "Two.", name="b")
    question = {"query": "a", "relevant": [{"documentId": doc}]}
    words = {"name": "words", "semanticWeight": 0, "keywordWeight": 1}
    for name in ("first", "second"):
        evaluation = {"namespaceId": space, "name": name, "questions": [question, question]}
        org.client.post("/v1/evaluations", json=evaluation)
        run = {"namespaceId": space, "settings": [words]}
        org.client.post(f"/v1/evaluations/{evaluation_of(org, space)}/runs", json=run)
    for tenant in ("t1", "t2"):
        org.client.post("/v1/tenants", json={"id": tenant})
        org.client.post("/v1/keys", json={"name": tenant})
        org.client.post("/v1/webhooks", json={"url": "https://1.1.1.1/", "events": ["*"]})
        org.client.post(f"/v1/webhooks/{webhook_of(org)}/test")
    return space, doc


def test_the_table_covers_every_listing():
    assert [path for path, _ in LISTINGS] == sorted(CODES)


def test_forged_cursors_are_refused_and_cursors_reveal_no_position(org, filled):
    # Positions of runs and chunks are numbers shared by the whole installation.
    space, doc = filled
    real = {
        path: listing_of(org, (path, method), space, doc, None).json()["data"].get("nextCursor")
        for path, method in LISTINGS
    }
    assert len(list(filter(None, real.values()))) > 10
    for cursor in filter(None, real.values()):
        content = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        assert len(content) % 32 == 16, "neither does its length"
        assert not any(part in content for part in (b"2026", b"doc_", b"ijr_", b"ns_", b"key_"))
    failures = Failures()
    for path, method in LISTINGS:
        with failures.of(method, path):
            check_forged(org, space, doc, path, method, real)
    failures.report()


def check_forged(org, space, doc, path, method, real):
    mine = real[path]
    forged = [
        *[cursor for listing, cursor in real.items() if cursor and listing != path],
        "x",
        "A" * 40,
        "A" * 100_000 if method == "post" else "A" * 4000,
        *([mine[:-1], mine[1:], mine + "A", mine.swapcase()] if mine else []),
    ]
    for cursor in forged:
        answer = listing_of(org, (path, method), space, doc, cursor)
        assert answer.status_code == 400, (cursor[:80], answer.text)
        assert_error(answer, 400, CODES[path])
        assert answer.json()["error"]["details"]["reason"] == "bad_cursor"
    if mine:
        assert listing_of(org, (path, method), space, doc, mine).status_code == 200


def test_a_cursor_of_another_tenant_organization_and_namespace_is_refused(org, organization, filled):
    space, doc = filled
    cursor = listing_of(org, ("/v1/documents", "post"), space, doc, None).json()["data"]["nextCursor"]
    stranger = organization()
    theirs = stranger.namespace()
    for _ in range(2):
        stranger.text(theirs)
    elsewhere = org.namespace()
    for client, namespace, tenant in ((stranger, theirs, None), (org, elsewhere, None), (org, space, "t1")):
        answer = listing_of(client, ("/v1/documents", "post"), namespace, doc, cursor, tenant)
        assert_error(answer, 400, "INVALID_FILTER_CONFIG")


def test_a_cursor_belongs_to_the_caller(org, filled):
    space, _ = filled
    body = {"namespaceId": space, "filterConfig": {}, "pagination": {"pageSize": 1}}
    users = ("", "ada", "bob")
    headers = {user: {"X-On-Behalf-Of": user} if user else {} for user in users}
    cursors = {
        user: org.client.post("/v1/documents", json=body, headers=headers[user]).json()["data"]["nextCursor"]
        for user in users
    }
    for user in users:
        for whose, cursor in cursors.items():
            page = {**body, "pagination": {"pageSize": 1, "cursor": cursor}}
            answer = org.client.post("/v1/documents", json=page, headers=headers[user])
            assert answer.status_code == (200 if user == whose else 400), (user, whose)
