"""Ingestion of a whole organization: permissions, a member who leaves, an ended key."""

from __future__ import annotations

import pytest

from retrieval.principals import Access
from tests.flows.connected import connected_space
from tests.standins import google_workspace
from tests.standins.google_workspace import ADA, BEN


@pytest.fixture
def account():
    with google_workspace.serving() as workspace:
        yield workspace


@pytest.fixture
def space(db, account, monkeypatch):
    with connected_space(db, account, monkeypatch) as connected:
        connected.db.rows(
            "update connections set permissions = 'SOURCE' where id = %(id)s", {"id": connected.connection}
        )
        yield connected


def users(space, external_id):
    return set(Access.load(space.documents()[external_id]["access"]).users)


def test_a_change_of_permissions_arrives_with_the_next_run(space, account):
    plan = account.put(ADA, "plan.txt", "The plan of the launch.")
    account.drives[ADA].grant(plan.partition("/")[2], BEN)
    assert space.ingest().failed == []
    assert users(space, plan) == {ADA, BEN}
    account.drives[ADA].grant(plan.partition("/")[2])
    assert space.ingest().failed == []
    assert users(space, plan) == {ADA}


def test_the_files_of_a_member_who_leaves_wait_for_confirmation(space, account):
    account.put(ADA, "plan.txt", "The plan of the launch.")
    notes = [account.put(BEN, f"notes {number}.txt", f"The notes of day {number}.") for number in range(2)]
    space.ingest()
    assert len(space.documents()) == 3
    account.suspended.add(BEN)
    run = space.ingest()
    assert (run.progress["removed"], run.progress["awaitingConfirmation"]) == (0, 0)
    account.suspended.clear()
    account.dismiss(BEN)
    run = space.ingest()
    assert (run.progress["removed"], run.progress["awaitingConfirmation"]) == (0, 2)
    ids = tuple(space.documents()[external_id]["id"] for external_id in notes)
    confirmed = space.resync(document_ids=ids, confirm_deletions=True)
    assert {file.status for file in confirmed.documents} == {"REMOVED"}
    assert len(space.documents()) == 1


def test_a_deleted_key_fails_the_connection_until_another_one_is_sent(space, account):
    account.put(ADA, "plan.txt", "The plan of the launch.")
    account.key_number = 2
    space.ingest()
    row = space.db.row("select status, status_reason from connections where id = %(id)s", {"id": space.connection})
    assert row["status"] == "FAILED"
    assert "create a key" in row["status_reason"]
    assert space.documents() == {}
