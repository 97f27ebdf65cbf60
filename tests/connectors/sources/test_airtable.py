"""Airtable as people read it: cells and linked records as texts, comments with people by name, files."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from retrieval.sync_filter import SyncFilter
from tests.connectors.sources.reading import list_items, open_connector, read, texts
from tests.standins.services_records import TABLE

SERVICE = "AIRTABLE_ACCOUNT"


def make_comment(number, **more):
    about = {
        "author": {"name": "Ada Berg", "email": "ada@example.com"},
        "createdTime": f"2026-05-14T10:{number:02}:00Z",
    }
    return {"id": f"com{9 - number}", "text": f"Words {number}.", **about, **more}


def test_a_record_has_its_cells_by_name_below_its_primary_field(account, tmp_path):
    key = account.put("Paint the tower", "In **June**.")
    account.about[key] = {
        "Animals": [{"id": "rec8", "name": "Owl"}, {"id": "rec9", "name": "Bat"}],
        "Keeper": "Bob Lund",
        "Due": "14/5/2026",
    }
    text = texts(account, tmp_path)[account.locate(key)]
    assert text.startswith("# Paint the tower\n\nTable: Tasks\n\nCreated: ")
    for line in ("Text: In **June**.", "Animals: Owl, Bat", "Keeper: Bob Lund", "Due: 14/5/2026"):
        assert f"\n\n{line}\n" in f"{text}\n"
    assert "Name:" not in text
    item = list_items(account)[0][account.locate(key)]
    assert (item.name, item.properties["path"]) == ("Paint the tower", f"Zoo/Tasks/{key}")
    assert item.properties["createdAt"] == account.items[key].created.isoformat()
    connector, tokens = open_connector(account)
    assert connector.fetch(tokens, item, tmp_path / "again").path.read_text() == text


def test_comments_of_several_pages_are_in_order_of_time_with_people_by_name(account, tmp_path):
    key = account.put("Paint", "x")
    account.page = 2
    account.comments[key] = [make_comment(number) for number in (5, 4, 3)]
    people = {"usr1": {"displayName": "Bob Lund"}, "usr2": {"email": "cleo@example.com"}}
    reply = make_comment(2, parentCommentId="com1", text="@[usr1] and @[usr2]?", mentioned=people)
    account.comments[key] += [reply, make_comment(1, author={"email": "dan@example.com"})]
    first, second, *others = texts(account, tmp_path)[account.locate(key)].split("\n\n## ")[1:]
    assert first == "dan@example.com, 14 May 2026 10:01\n\nWords 1."
    assert second == "Reply of Ada Berg, 14 May 2026 10:02\n\n@Bob Lund and @cleo@example.com?"
    assert [other[-2] for other in others] == ["3", "4", "5"]


def test_files_are_members_and_their_addresses_are_no_change(account, tmp_path):
    key = account.put("Paint", "x")
    account.put("Without files", "y")
    account.downloads = {"/files/1": b"plan", "/files/2": b"map"}
    plan, chart = (
        {"id": f"att{number}", "filename": f"{name}.txt", "url": f"{account.base}/files/{number}"}
        for number, name in ((1, "plan"), (2, "map"))
    )
    account.about[key] = {"Plans": [plan, chart], "Tags": "a"}
    text, files = read(account, tmp_path)[account.locate(key)]
    assert files == {"plan.txt": b"plan", "map.txt": b"map"}
    assert "Plans: plan.txt, map.txt\n" in text
    assert "airtableusercontent" not in text
    before = list_items(account)[0]
    assert list_items(account)[0][account.locate(key)].version == before[account.locate(key)].version
    account.about[key]["Plans"] = [plan]
    assert list_items(account)[0][account.locate(key)].version != before[account.locate(key)].version


def test_only_changed_records_are_listed_and_once_a_day_comments_and_deletions_are_found(account):
    keys = [account.put(f"Record {number}", "x") for number in range(4)]
    before, last = list_items(account)
    account.change(keys[0], "y")
    account.comments[keys[1]] = [make_comment(1)]
    account.delete(keys[2])
    items, last = list_items(account, last.cursor)
    assert (items.keys(), last.whole) == ({account.locate(keys[0])}, False)
    connector, tokens = open_connector(account)
    gone = [connector.is_deleted(tokens, account.locate(key)) for key in keys[2:]]
    assert gone == [True, False]
    yesterday = (datetime.now(UTC) - timedelta(days=1, minutes=1)).isoformat()
    items, last = list_items(account, json.dumps({**json.loads(last.cursor), "full_at": yesterday}))
    assert (items.keys(), last.whole) == ({account.locate(keys[number]) for number in (0, 1, 3)}, True)
    changed = {name for name, item in items.items() if item.version != before[name].version}
    assert changed == {account.locate(keys[0]), account.locate(keys[1])}


def test_new_tables_are_listed_and_those_that_are_not_chosen_are_not(account):
    key = account.put("Old", "x")
    _, last = list_items(account)
    account.tables["tblBirds"] = "Birds"
    account.tables_of[bird := account.put("Owl", "x")] = "tblBirds"
    items, _ = list_items(account, last.cursor)
    assert items.keys() == {account.locate(bird)}
    connector, tokens = open_connector(account)
    for choice in ({"path": "Zoo/Birds"}, {"id": "tblBirds"}):
        chosen = connector.with_choice(SyncFilter(include=(choice,)))
        listed = [item.external_id for page in chosen.iter_changes(tokens, None) for item in page.items]
        assert listed == [account.locate(bird)]
    assert connector.browse(tokens, TABLE, None).entries[0].id == account.locate(key)


def test_an_address_of_a_browser_is_a_base_or_the_whole_account(account):
    urls = {
        "https://airtable.com/appZoo/tblTasks/viw1?blocks=hide": "https://airtable.com/appZoo",
        "https://airtable.com/workspaces/wsp1": "https://airtable.com",
        "https://airtable.com/": "https://airtable.com",
    }
    for url, read_url in urls.items():
        account.config_url = url
        assert json.loads(open_connector(account)[1].token())["url"] == read_url
