"""Google Workspace by a service account: shared drives and people, changes, members who leave, refusals."""

from __future__ import annotations

import pytest

from connectors import registry
from retrieval.errors import Fatal
from tests.connectors.sources.reading import ConfigTokens, walk
from tests.standins import google_workspace
from tests.standins.google_drive_files import Refusal
from tests.standins.google_workspace import ADA, ADMIN, BEN

CONNECTOR, STANDIN = "GOOGLE_DRIVE", google_workspace


def test_shared_drives_and_the_files_of_people_are_listed(account, connector, tokens, tmp_path):
    account.groups["crew@example.com"] = [BEN]
    board = account.shared_drive("Board", organizer="ada")
    crew = account.shared_drive("Crew", writer="crew")
    ids = {
        account.put(ADA, "plans/launch.txt", "Ada's launch"): "ada@example.com/plans/launch.txt",
        account.put(BEN, "notes.txt", "Ben's notes"): "ben@example.com/notes.txt",
        account.put_shared(board, "minutes.txt", "The minutes"): "Board/minutes.txt",
        account.put_shared(crew, "rota/week.txt", "The rota"): "Crew/rota/week.txt",
    }
    account.drives[BEN].share("from-outside.txt", "Somebody else's")
    account.page = 2
    items, skipped, last = walk(connector, tokens)
    assert skipped == {}
    assert {key: item.properties["path"] for key, item in items.items()} == ids
    assert (skipped, last.whole) == ({}, True)
    for external_id, item in items.items():
        connector.fetch(tokens, item, tmp_path / "raw")
        assert (tmp_path / "raw").read_text().split()[0] in {"Ada's", "Ben's", "The"}
        assert not connector.is_deleted(tokens, external_id)


def test_changes_of_people_and_drives_arrive_with_the_next_run(account, connector, tokens):
    board = account.shared_drive("Board", organizer="ada")
    plan, minutes = account.put(ADA, "plan.txt", "The plan"), account.put_shared(board, "minutes.txt", "The minutes")
    _, _, last = walk(connector, tokens)
    account.drives[ADA].delete(plan.partition("/")[2])
    account.drives[ADA].rename(minutes.partition("/")[2], "protocol.txt")
    account.hire("cleo@example.com")
    letter = account.put("cleo@example.com", "letter.txt", "Cleo's letter")
    sales = account.shared_drive("Sales", organizer="ben")
    offer = account.put_shared(sales, "offer.txt", "The offer")
    items, _, _ = walk(connector, tokens, last.cursor)
    # A person's log names the files of shared drives too, as removed from this person's own.
    changed = {key: item for key, item in items.items() if key == plan or not item.deleted}
    assert {key: item.deleted or item.name for key, item in changed.items()} == {
        plan: True,
        minutes: "protocol.txt",
        letter: "letter.txt",
        offer: "offer.txt",
    }


def test_a_file_that_changes_its_owner_moves_to_the_other_person(account, connector, tokens):
    external_id = account.put(ADA, "plan.txt", "The plan")
    _, _, last = walk(connector, tokens)
    file_id = external_id.partition("/")[2]
    account.drives[ADA].nodes[file_id]["ownedByMe"] = False
    account.drives[ADA].rename(file_id, "plan.txt")
    items, _, _ = walk(connector, tokens, last.cursor)
    assert items[external_id].deleted
    assert connector.is_deleted(tokens, external_id)


def test_permissions_are_read_as_an_account_that_may(account, connector, tokens):
    board = account.shared_drive("Board", organizer="ada")
    plan, minutes = account.put(BEN, "plan.txt", "The plan"), account.put_shared(board, "minutes.txt", "The minutes")
    account.drives[BEN].grant(plan.partition("/")[2], ADA, groups=["crew@example.com"])
    account.drives[ADA].grant(minutes.partition("/")[2], domain="example.com")
    assert set(connector.access(tokens, plan).users) == {ADA, BEN}
    assert connector.access(tokens, plan).groups == ("crew@example.com",)
    assert connector.access(tokens, minutes).groups == ("domain:example.com",)
    account.drives[BEN].grant(plan.partition("/")[2])
    assert connector.access(tokens, plan).users == (BEN,)


def test_a_withdrawn_delegation_names_the_client_and_its_scopes(account, connector, tokens):
    account.delegated.clear()
    with pytest.raises(Fatal, match=r"Domain-wide delegation.*1234567890.*drive.readonly"):
        walk(connector, tokens)
    assert not tokens.failed


def test_a_deleted_key_ends_the_connection_with_advice(account, connector, tokens):
    account.key_number = 2
    with pytest.raises(Fatal, match="create a key"):
        walk(connector, tokens)
    assert "create a key" in tokens.failed


def test_a_person_without_drive_is_counted(account, connector, tokens):
    plan = account.put(ADA, "plan.txt", "The plan")
    account.drives[BEN].trouble["drive.changes.getStartPageToken"] = Refusal(403, "domainPolicy")
    items, skipped, _ = walk(connector, tokens)
    assert set(items) == {plan}
    assert sum(skipped.values()) == 1


def test_browsing_shows_the_drives_and_their_folders(account, connector, tokens):
    board = account.shared_drive("Board", organizer="ada")
    account.put_shared(board, "rota/week.txt", "The week")
    plan = account.put(ADA, "plans/launch.txt", "The launch")
    top = connector.browse(tokens, None, None)
    assert [entry.name for entry in top.entries] == ["Board", ADA, ADMIN, BEN]
    (rota,) = connector.browse(tokens, board, None).entries
    (week,) = connector.browse(tokens, rota.id, None).entries
    assert (week.path, week.above[-1]) == ("Board/rota/week.txt", board)
    (plans,) = connector.browse(tokens, account.ids[ADA], None).entries
    assert [entry.id for entry in connector.browse(tokens, plans.id, None).entries] == [plan]


def test_a_persons_connection_without_an_app_says_so(account):
    person = type("Person", (ConfigTokens,), {"token": lambda _self: "canary-access"})(account)
    with pytest.raises(Fatal, match="googleDriveConfig"):
        walk(registry.make_connector(CONNECTOR, {}, account.settings), person)
