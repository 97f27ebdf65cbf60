"""Permissions of described services as access of documents, with kills at any step."""

from __future__ import annotations

import pytest

from connectors import registry
from tests.flows.connections.test_source_access import allowed

# One of each service with permissions.
SERVICES = ["GITHUB", *(pytest.param(name, marks=pytest.mark.slow) for name in ("CONFLUENCE", "JIRA", "SLACK"))]
OWNER, BOB, EVE = "ada@example.com", "bob@example.com", "eve@elsewhere.example"


@pytest.fixture
def space(space):
    space.db.rows("update connections set permissions = 'SOURCE' where id = %(id)s", {"id": space.connection})
    return space


@pytest.mark.parametrize("account", SERVICES, indirect=True)
def test_a_change_of_sharing_arrives_with_the_next_sync_and_nothing_is_fetched(space, account, monkeypatch):
    key = account.put("Plans", "The lighthouse opens in spring.")
    account.show_to(key, OWNER, BOB)
    run = space.ingest()
    assert (run.status, run.failed) == ("COMPLETED", [])
    document_before = space.documents()[account.locate(key)]
    assert (allowed(space, account.locate(key)), document_before["access_reason"]) == ({OWNER, BOB}, None)
    fetched, kind = [], type(registry.make_connector(account.connector, {}, account.settings))
    fetch = kind.fetch
    monkeypatch.setattr(kind, "fetch", lambda self, *given: fetched.append(given) or fetch(self, *given))
    for logins in ((OWNER, EVE), (OWNER,), (OWNER, BOB)):
        account.show_to(key, *logins)
        assert space.ingest().failed == []
        document_after = space.documents()[account.locate(key)]
        assert allowed(space, account.locate(key)) == set(logins)
        assert document_after["active_generation"] == document_before["active_generation"]
    assert fetched == []
