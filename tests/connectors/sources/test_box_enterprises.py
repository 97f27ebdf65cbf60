"""Box of an enterprise by client credentials: people, files that others own, inactive and deleted accounts."""

from __future__ import annotations

import pytest

from connectors import registry
from retrieval.errors import Fatal, Retryable
from tests.connectors.sources.reading import is_missing, walk
from tests.standins import box_enterprise
from tests.standins.box_enterprise import ADA, BEN, CLIENT
from tests.standins.faults import status

CONNECTOR, STANDIN = "BOX", box_enterprise


def test_the_files_of_each_person_are_listed_and_fetched_for_their_owner(account, connector, tokens, tmp_path):
    account.page = 1
    ids = {
        account.put(ADA, "plans/launch.txt", "words"): f"{ADA}/plans/launch.txt",
        account.put(BEN, "notes.txt", "words"): f"{BEN}/notes.txt",
    }
    items, skipped, last = walk(connector, tokens)
    assert {key: item.properties["path"] for key, item in items.items()} == ids
    assert (skipped, last.whole) == ({}, True)
    for item in items.values():
        account.acted.clear()
        raw = connector.fetch(tokens, item, tmp_path / "raw")
        assert raw.path.read_text() == "words"
        assert raw.properties["path"] == item.properties["path"]
        assert set(account.acted) == {item.properties["path"].partition("/")[0]}
    account.requests.clear()
    assert walk(connector, tokens, last.cursor)[0] == {}
    assert len([request for request in account.requests if "/users" not in request]) == 2


def test_a_shared_file_is_read_of_its_owner_once(account, connector, tokens):
    plan = account.put(ADA, "plans/launch.txt", "words")
    account.share(BEN, plan)
    items, skipped, last = walk(connector, tokens)
    assert (set(items), skipped) == ({plan}, {})
    account.boxes[ADA].change(plan.partition("/")[2], "new")
    account.share(BEN, plan)
    items, _, _ = walk(connector, tokens, last.cursor)
    assert {key for key, item in items.items() if not item.deleted} == {plan}


def test_what_an_account_outside_owns_is_counted(account, connector, tokens):
    plan = account.put(ADA, "plans/launch.txt", "words")
    account.share(BEN, plan, outside=True)
    items, skipped, last = walk(connector, tokens)
    assert (set(items), last.whole) == ({plan}, True)
    assert skipped == {"file or folder that an account outside of the enterprise owns": 1}


def test_changes_and_new_people_arrive_with_the_next_run(account, connector, tokens):
    plan, old = account.put(ADA, "plan.txt", "x"), account.put(BEN, "old.txt", "x")
    _, _, last = walk(connector, tokens)
    account.boxes[ADA].change(plan.partition("/")[2], "y")
    account.boxes[BEN].delete(old.partition("/")[2])
    account.hire("cleo@example.com")
    letter = account.put("cleo@example.com", "letter.txt", "x")
    items, _, _ = walk(connector, tokens, last.cursor)
    assert {key: item.deleted for key, item in items.items()} == {plan: False, old: True, letter: False}
    assert connector.is_deleted(tokens, old)
    assert not connector.is_deleted(tokens, plan)


def test_a_file_that_changes_its_owner_moves_to_the_other_person(account, connector, tokens):
    plan = account.put(ADA, "plans/launch.txt", "x")
    _, _, last = walk(connector, tokens)
    file_id = plan.partition("/")[2]
    account.share(BEN, plan)
    for box in account.boxes.values():
        box.nodes[file_id].owner = account.boxes[BEN].person
        box.rename(file_id, "launch.txt")
    items, _, _ = walk(connector, tokens, last.cursor)
    moved = f"{account.key(BEN)}/{file_id}"
    assert {key: item.deleted for key, item in items.items()} == {plan: True, moved: False}
    assert connector.is_deleted(tokens, plan)


def test_permissions_are_those_of_the_owners_file(account, connector, tokens):
    plan, notes = account.put(ADA, "plans/launch.txt", "x"), account.put(BEN, "notes.txt", "x")
    folder = account.boxes[ADA].folder("plans")
    account.boxes[ADA].grant(folder, BEN, groups=["crew"])
    account.boxes[BEN].grant(notes.partition("/")[2], public=True, effective_access="company")
    access = connector.access(tokens, plan)
    assert (set(access.users), access.groups) == ({ADA, BEN}, ("box:crew",))
    assert connector.access(tokens, notes).groups == ("box:company",)
    account.boxes[ADA].grant(folder)
    assert set(registry.make_connector(CONNECTOR, {}, account.settings).access(tokens, plan).users) == {ADA}


def test_credentials_that_box_refuses_end_the_connection_with_advice(account, connector, tokens):
    account.secret = "another"
    with pytest.raises(Fatal, match=f"{CLIENT} in the enterprise 8845.*Admin Console"):
        walk(connector, tokens)
    assert "send the connection's config" in tokens.failed
    assert "SECRET" not in tokens.failed


def test_a_failing_token_endpoint_ends_nothing(account, connector, tokens):
    account.fault = lambda request: status(503) if request == "POST /oauth/token" else None
    with pytest.raises(Retryable):
        walk(connector, tokens)
    assert not tokens.failed


def test_missing_scopes_are_named(account, connector, tokens):
    plan = account.put(ADA, "plan.txt", "x")
    account.acts = False
    items, skipped, last = walk(connector, tokens)
    assert (items, is_missing(plan, items, last)) == ({}, False)
    assert [key.partition(":")[0] for key in skipped] == [f"drive {ADA}", f"drive {BEN}"]
    assert all("as-user header" in reason for reason in skipped)
    account.lists = False
    with pytest.raises(Fatal, match="Manage users"):
        walk(connector, tokens)
