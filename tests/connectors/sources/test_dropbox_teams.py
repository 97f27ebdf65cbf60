"""Dropbox of a team: homes, team folders and shared folders, permissions, people who leave, refusals."""

from __future__ import annotations

import pytest

from retrieval.errors import Fatal
from retrieval.sync_filter import SyncFilter
from tests.connectors.sources.reading import is_missing, walk
from tests.standins import dropbox_team
from tests.standins.dropbox_team import ADA, ADMIN, BEN, CLIENT

CONNECTOR, STANDIN = "DROPBOX", dropbox_team


def test_every_namespace_is_listed_once_and_fetched(account, connector, tokens, tmp_path):
    account.page = 2
    acme = account.add_space("team_folder", "Acme")
    plans = account.add_space("shared_folder", "Plans", BEN, ADA)
    notes = account.add_space("app_folder", "Notes", ADA)
    paths = {
        account.put(account.home(ADA), "a/launch.txt", "words"): f"{ADA}/a/launch.txt",
        account.put(account.home(BEN), "notes.txt", "words"): f"{BEN}/notes.txt",
        account.put(acme, "minutes.txt", "words"): "Acme/minutes.txt",
        account.put(plans, "plan.txt", "words"): "Plans/plan.txt",
        account.put(notes, "note.txt", "words"): f"{ADA}/Notes/note.txt",
    }
    items, skipped, last = walk(connector, tokens)
    assert {key: item.properties["path"] for key, item in items.items()} == paths
    assert (skipped, last.whole) == ({}, True)
    assert (account.acted[plans], account.acted[acme]) == ({account.people[BEN]}, {account.people[ADMIN]})
    urls = {item.properties["path"]: item.properties["url"] for item in items.values()}
    assert urls["Acme/minutes.txt"] == "https://www.dropbox.com/home/Acme?preview=minutes.txt"
    assert urls[f"{ADA}/a/launch.txt"] == "https://www.dropbox.com/home/a?preview=launch.txt"
    for item in items.values():
        raw = connector.fetch(tokens, item, tmp_path / "raw")
        assert raw.path.read_text() == "words"
        assert (raw.properties["path"], raw.properties["url"]) == (item.properties["path"], item.properties["url"])
        assert not connector.is_deleted(tokens, item.external_id)
    account.requests.clear()
    assert walk(connector, tokens, last.cursor)[0] == {}
    assert len([request for request in account.requests if "list_folder/continue" in request]) == len(account.spaces)


def test_changes_and_new_folders_arrive_with_the_next_run(account, connector, tokens):
    plan, old = account.put(account.home(ADA), "plan.txt", "x"), account.put(account.home(BEN), "old.txt", "x")
    _, _, last = walk(connector, tokens)
    account.spaces[account.home(ADA)].change(plan.partition("/")[2], "y")
    account.spaces[account.home(BEN)].delete(old.partition("/")[2])
    minutes = account.put(account.add_space("team_folder", "Acme"), "minutes.txt", "x")
    items, _, _ = walk(connector, tokens, last.cursor)
    assert {key: item.deleted for key, item in items.items()} == {plan: False, old: True, minutes: False}


def test_a_file_that_moves_to_a_team_folder_leaves_the_home(account, connector, tokens):
    acme = account.add_space("team_folder", "Acme", ADA)
    plan = account.put(account.home(ADA), "plan.txt", "x")
    _, _, last = walk(connector, tokens)
    moved = account.hand_over(plan, acme)
    items, _, _ = walk(connector, tokens, last.cursor)
    assert {key: item.deleted for key, item in items.items()} == {plan: True, moved: False}
    assert (connector.is_deleted(tokens, plan), connector.is_deleted(tokens, moved)) == (True, False)


def test_a_member_that_dropbox_suspends_during_a_run_ends_nothing(account, connector, tokens):
    notes = account.put(account.home(BEN), "notes.txt", "x")
    _, _, last = walk(connector, tokens)
    organization = connector.organization_of(tokens)
    account.suspended.add(BEN)
    assert not organization.is_deleted(notes)
    account.suspended.clear()
    account.closed.add(account.home(BEN))
    items, skipped, last = walk(connector, tokens, last.cursor)
    assert (is_missing(notes, items, last), list(skipped)) == (False, [f"drive {BEN}: the service refuses to open it"])
    assert not tokens.failed


def test_a_shared_folder_is_read_as_its_owner_or_another_member(account, connector, tokens):
    plans = account.add_space("shared_folder", "Plans", "eve@elsewhere.example", BEN, ADA)
    plan = account.put(plans, "plan.txt", "x")
    foreign = account.add_space("shared_folder", "Foreign", "eve@elsewhere.example")
    account.put(foreign, "secret.txt", "x")
    account.suspended.add(BEN)
    items, skipped, _ = walk(connector, tokens)
    assert set(items) == {plan}
    assert skipped["drive Foreign: no active member of the team may read it"] == 1
    file_id = plan.partition("/")[2]
    account.spaces[plans].grant(file_id, ADA)
    assert ADA in connector.access(tokens, plan).users


def test_permissions_of_homes_and_team_folders_are_read(account, connector, tokens):
    acme = account.add_space("team_folder", "Acme")
    plan, minutes = account.put(account.home(ADA), "plan.txt", "x"), account.put(acme, "minutes.txt", "x")
    account.spaces[account.home(ADA)].grant(plan.partition("/")[2], BEN, current_audience="team")
    account.spaces[acme].grant(minutes.partition("/")[2], groups=["crew"])
    access = connector.access(tokens, plan)
    assert (set(access.users), access.groups) == ({ADA, BEN}, ("dropbox:team",))
    assert connector.access(tokens, minutes).groups == ("dropbox:crew",)
    account.spaces[account.home(ADA)].grant(plan.partition("/")[2])
    assert set(connector.access(tokens, plan).users) == {ADA}


def test_a_folder_is_chosen_by_its_id(account, connector, tokens):
    plan = account.put(account.home(ADA), "plans/plan.txt", "x")
    account.put(account.home(BEN), "plans/other.txt", "x")
    (folder,) = connector.browse(tokens, account.home(ADA), None).entries
    assert [entry.id for entry in connector.browse(tokens, folder.id, None).entries] == [plan]
    chosen = connector.with_choice(SyncFilter(include=({"id": folder.id},)))
    items, _, _ = walk(chosen, tokens)
    assert [key for key, item in items.items() if folder.id in item.above] == [plan]


def test_a_withdrawn_refresh_token_ends_the_connection_with_advice(account, connector, tokens):
    account.refresh = "another"
    with pytest.raises(Fatal, match=f"{CLIENT} or its refresh token.*authorize the app again"):
        walk(connector, tokens)
    assert "send the connection's config" in tokens.failed
    assert "SECRET" not in tokens.failed


def test_missing_permissions_are_named(account, connector, tokens):
    account.scopes_granted = False
    with pytest.raises(Fatal, match=r"team_data\.member.*sharing\.read"):
        walk(connector, tokens)
    assert not tokens.failed
