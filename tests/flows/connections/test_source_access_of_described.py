"""Permissions of described services as access of documents, with kills at any step."""

from __future__ import annotations

import pytest

from connectors import registry
from retrieval.principals import Access
from tests.standins import faults

# One of each service with permissions.
SERVICES = ["GITHUB", *(pytest.param(name, marks=pytest.mark.slow) for name in ("CONFLUENCE", "JIRA", "SLACK"))]
OWNER, BOB, EVE = "ada@example.com", "bob@example.com", "eve@elsewhere.example"


@pytest.fixture
def space(space):
    space.db.rows("update connections set permissions = 'SOURCE' where id = %(id)s", {"id": space.connection})
    return space


def documents(space):
    rows = space.db.rows(
        "select d.external_id, d.access, d.access_reason, d.active_generation from documents d"
        " where d.connection_id = %(id)s and d.deleted_at is null",
        {"id": space.connection},
    )
    return {row["external_id"]: row for row in rows}


def allowed(row):
    access = Access.load(row["access"])
    return {*access.users, *access.groups, *(["*"] if access.public else [])}


@pytest.mark.parametrize("account", SERVICES, indirect=True)
def test_a_change_of_sharing_arrives_with_the_next_sync_and_nothing_is_fetched(space, account, monkeypatch):
    key = account.put("Plans", "The lighthouse opens in spring.")
    account.show_to(key, OWNER, BOB)
    run = space.ingest()
    assert (run.status, run.failed) == ("COMPLETED", [])
    document_before = documents(space)[account.locate(key)]
    assert (allowed(document_before), document_before["access_reason"]) == ({OWNER, BOB}, None)
    fetched, kind = [], type(registry.make_connector(account.connector, {}, account.settings))
    fetch = kind.fetch
    monkeypatch.setattr(kind, "fetch", lambda self, *given: fetched.append(given) or fetch(self, *given))
    for logins in ((OWNER, EVE), (OWNER,), (OWNER, BOB)):
        account.show_to(key, *logins)
        assert space.ingest().failed == []
        document_after = documents(space)[account.locate(key)]
        assert allowed(document_after) == set(logins)
        assert document_after["active_generation"] == document_before["active_generation"]
    assert fetched == []


@pytest.mark.parametrize("account", SERVICES, indirect=True)
def test_retired_endpoints_fail_the_listing_and_every_document_stays_as_visible_as_before(space, account):
    keys = [account.put(f"Plans {number}", "The lighthouse opens in spring.") for number in range(3)]
    for key in keys:
        account.show_to(key, OWNER)
    assert space.ingest().failed == []
    readers_before = {name: allowed(row) for name, row in documents(space).items()}
    connector = registry.make_connector(account.connector, {}, account.settings)
    stream = connector.about.streams[0]
    templates = [stream.exists.get, stream.content.get, *(layer.get for layer in stream.permissions.layers)]
    account.fault = faults.retire(*templates, but=stream.list)
    (failure,) = space.ingest().failed
    assert "410: This deprecated endpoint has been removed." in str(failure)
    assert {name: allowed(row) for name, row in documents(space).items()} == readers_before
