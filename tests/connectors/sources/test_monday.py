"""monday as people read it: columns and people by name, subitems, updates with replies, files."""

from __future__ import annotations

from tests.connectors.sources.reading import list_items, list_pages, open_connector, read, texts
from tests.standins.services_boards import BOARD

SERVICE = "MONDAY_ACCOUNT"


def column(title, text, kind="text", **more):
    return {"type": kind, "text": text, "column": {"title": title}, **more}


def make_update(number, name="Ada Berg", **more):
    about = {"created_at": f"2026-05-14T10:{number:02}:00Z", "creator": {"name": name} if name else None}
    return {"id": str(number), "body": f"<p>Words {number}.</p>", "assets": [], "replies": [], **about, **more}


def put_item(account):
    key = account.put("Paint the tower", "x")
    account.about[key] = {
        "column_values": [
            column("Status", "Working on it", "status"),
            column("Person", "Bob Lund, Cleo Dahl", "people"),
            column("Animals", None, "board_relation", display_value="Owl, Bat"),
            column("Notes", "In <June>.\nAt dusk.", "long_text"),
            column("Empty", "", "date"),
            column("Files", "https://acme.monday.com/protected_static/1", "file"),
        ],
        "subitems": [
            {"id": "9", "name": "Buy paint", "column_values": [column("Status", "Done"), column("Owner", "Bob Lund")]},
        ],
    }
    reply = {"id": "77", "body": "<p>Red.</p>", "created_at": "2026-05-14T11:00:00Z", "creator": {"name": "Bob Lund"}}
    account.updates[key] = [make_update(1, replies=[reply]), make_update(2, ""), make_update(3)]
    return key


def test_an_item_has_columns_by_name_its_subitems_and_all_updates_with_replies(account, tmp_path):
    key = put_item(account)
    account.page = 1
    text = texts(account, tmp_path)[account.locate(key)]
    assert text.startswith("<h1>Paint the tower</h1>")
    for line in (
        "Board: Zoo",
        "Group: Doing",
        "Creator: Ada Berg",
        "Status: Working on it",
        "Person: Bob Lund, Cleo Dahl",
        "Animals: Owl, Bat",
        "Notes: In &lt;June&gt;.<br>At dusk.",
    ):
        assert f"{line}<br>" in text
    assert "Empty" not in text
    assert "protected_static" not in text
    assert "<p>Subitem: Buy paint (Status: Done, Owner: Bob Lund)</p>" in text
    first, second, third = text.split("<h2>")[1:]
    assert first.startswith("Ada Berg, 14 May 2026 10:01</h2>\n<p>Words 1.</p>")
    assert "<h3>Reply of Bob Lund, 14 May 2026 11:00</h3>\n<p>Red.</p>" in first
    assert second.startswith("Somebody, 14 May 2026 10:02</h2>\n<p>Words 2.</p>")
    assert third.startswith("Ada Berg, 14 May 2026 10:03")
    item = list_items(account)[0][account.locate(key)]
    assert (item.properties["path"], item.properties["owner"]) == (f"Zoo/{key}", "Ada Berg")


def test_files_of_items_and_updates_are_members_and_their_addresses_are_no_change(account, tmp_path):
    key = put_item(account)
    account.downloads = {"/signed/plan": b"a plan", "/signed/map": b"a map"}
    account.about[key]["assets"] = [{"id": "1", "name": "plan.txt", "public_url": f"{account.base}/signed/plan"}]
    account.updates[key][1]["assets"] = [{"id": "2", "name": "map.txt", "public_url": f"{account.base}/signed/map"}]
    assert read(account, tmp_path)[account.locate(key)][1] == {"plan.txt": b"a plan", "map.txt": b"a map"}
    before = list_items(account)[0][account.locate(key)].version
    account.about[key]["assets"][0]["public_url"] += "?signature=2"
    assert list_items(account)[0][account.locate(key)].version == before


def test_columns_updates_and_replies_change_the_version(account):
    key = put_item(account)

    def read_version():
        return list_items(account)[0][account.locate(key)].version

    versions = [read_version()]
    account.updates[key].append(make_update(4))
    versions.append(read_version())
    account.updates[key][0]["replies"].append({"id": "78", "body": "x", "created_at": "2026-05-14T12:00:00Z"})
    versions.append(read_version())
    account.about[key]["column_values"][2]["display_value"] = "Owl"
    versions.append(read_version())
    assert len(set(versions)) == 4
    assert read_version() == versions[3]


def test_boards_are_found_at_each_run_and_documents_of_boards_are_none(account):
    key, moved, archived = (account.put(title, "x") for title in ("One", "Two", "Three"))
    account.page = 1
    account.boards |= {"4712": {"name": "Pond", "type": "board"}, "4713": {"name": "Doc", "type": "document"}}
    account.boards_of[account.put("Of a document", "x")] = "4713"
    items, last = list_items(account)
    assert items.keys() == {account.locate(name) for name in (key, moved, archived)}
    old, account.boards_of[moved] = account.locate(moved), "4712"
    account.archived.add(archived)
    items, last = list_items(account, last.cursor)
    assert (items.keys(), last.whole) == ({account.locate(key), account.locate(moved)}, True)
    assert items[account.locate(moved)].properties["path"] == f"Pond/{moved}"
    connector, tokens = open_connector(account)
    gone = [connector.is_deleted(tokens, name) for name in (old, account.locate(archived), account.locate(moved))]
    assert gone == [True, True, False]
    del account.boards[BOARD]
    assert connector.is_deleted(tokens, account.locate(archived))


def test_an_expired_cursor_begins_the_listing_anew(account):
    keys = [account.put(f"Item {number}", "x") for number in range(3)]
    account.page = 1
    first = list_pages(account)[0]
    account.has_expired = True
    account.page = 3
    items, last = list_items(account, first.cursor)
    assert (items.keys(), last.whole) == (set(map(account.locate, keys)), True)
