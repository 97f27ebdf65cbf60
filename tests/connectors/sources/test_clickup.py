"""ClickUp as people read it: fields and people by name, checklists, all comments with replies, files, docs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from retrieval.sync_filter import SyncFilter
from tests.connectors.sources.reading import list_items, open_connector, read, texts
from tests.standins.services_records import TEAM

SERVICE = "CLICKUP_WORKSPACE"

MAY = 1778754720000  # 14 May 2026 10:32 in UTC, in milliseconds


def make_comment(number, name="Ada Berg", **more):
    about = {"user": {"username": name}, "date": str(MAY + number * 60000), "reply_count": 0, "resolved": False}
    return {"id": str(number), "comment_text": f"Words {number}.", "comment": [], **about, **more}


def make_field(name, kind, value, **config):
    return {"name": name, "type": kind, "value": value, "type_config": config}


def test_a_task_has_people_dates_and_fields_by_name_and_its_checklists(account, tmp_path):
    key = account.put("Paint the tower", "In **June**.")
    stages = [{"orderindex": 0, "name": "No"}, {"orderindex": 1, "name": "Yes"}]
    animals = [{"id": "a", "label": "Owl"}, {"id": "b", "label": "Bat"}]
    account.about[key] = {
        "custom_id": "ZOO-7",
        "folder": {"name": "Tower", "hidden": False},
        "priority": {"priority": "urgent"},
        "assignees": [{"username": "Bob Lund"}, {"username": "Cleo Dahl"}],
        "watchers": [{"username": "Dan Ek"}],
        "tags": [{"name": "paint"}],
        "start_date": str(MAY),
        "due_date": str(MAY + 86400000),
        "custom_fields": [
            make_field("Stage", "drop_down", 1, options=stages),
            make_field("Kind", "drop_down", "k2", options=[{"id": "k2", "orderindex": 5, "name": "Large"}]),
            make_field("Animals", "labels", ["a", "b"], options=animals),
            make_field("Helpers", "users", [{"username": "Eva Falk"}]),
            make_field("After", "tasks", [{"name": "Buy paint"}]),
            make_field("Opened", "date", str(MAY)),
            make_field("Cost", "currency", 0),
            make_field("Place", "location", {"formatted_address": "Harbour 1"}),
            {"name": "Empty", "type": "text", "type_config": {}},
        ],
        "checklists": [
            {"name": "Before", "items": [
                {"name": "Ladder", "resolved": True, "assignee": {"username": "Bob Lund"}},
                {"name": "Brush", "resolved": False, "assignee": None},
            ]},
        ],
    }  # fmt: skip
    text = texts(account, tmp_path)[account.locate(key)]
    assert text.startswith("# Paint the tower\n\nTask: ZOO-7\n")
    for line in (
        "List: Tower / Keepers",
        "Status: in progress",
        "Priority: urgent",
        "Assignees: Bob Lund, Cleo Dahl",
        "Creator: Ada Berg",
        "Watchers: Dan Ek",
        "Tags: paint",
        "Start: 14 May 2026",
        "Due: 15 May 2026",
        "Stage: Yes",
        "Kind: Large",
        "Animals: Owl, Bat",
        "Helpers: Eva Falk",
        "After: Buy paint",
        "Opened: 14 May 2026",
        "Cost: 0",
        "Place: Harbour 1",
        "In **June**.",
        "## Before",
        "- [x] Ladder (Bob Lund)\n- [ ] Brush",
    ):
        assert f"\n{line}\n" in f"{text}\n", line
    assert "Empty" not in text
    item = list_items(account)[0][account.locate(key)]
    assert item.properties["url"] == f"https://app.clickup.com/t/{key}"
    assert (item.properties["path"], item.properties["owner"]) == (f"Zoo/{key}", "Ada Berg")
    assert item.properties["createdAt"] == account.items[key].created.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert item.properties["modifiedAt"] == account.items[key].updated.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_comments_of_several_pages_are_in_order_of_time_each_above_its_replies(account, tmp_path):
    key = account.put("Paint", "x")
    account.comments[key] = [make_comment(number) for number in range(59, 0, -1)]
    account.comments[key][-2] |= {"reply_count": 2, "resolved": True}
    account.replies["2"] = [make_comment(90, "Cleo Dahl"), make_comment(80, "Bob Lund")]
    account.requests.clear()
    text = texts(account, tmp_path)[account.locate(key)]
    first, second, *others = text.split("\n## ")[1:]
    assert first == "Ada Berg, 14 May 2026 10:33\n\nWords 1.\n"
    assert second == (
        "Ada Berg, 14 May 2026 10:34, resolved\n\nWords 2.\n\n### Reply of Bob Lund, 14 May 2026 11:52\n\nWords 80."
        "\n\n### Reply of Cleo Dahl, 14 May 2026 12:02\n\nWords 90.\n"
    )
    assert len(others) == 57
    assert sum(request.endswith("/comment") for request in account.requests) == 3
    assert sum(request.endswith("/reply") for request in account.requests) == 1


def test_files_of_tasks_fields_and_comments_are_members(account, tmp_path):
    key = account.put("Paint", "x")
    account.downloads = {f"/files/{name}": name.encode() for name in ("plan", "map", "shot")}
    plan, chart, shot = (
        {"title": f"{name}.txt", "url": f"{account.base}/files/{name}"} for name in ("plan", "map", "shot")
    )
    account.about[key] = {"attachments": [plan], "custom_fields": [make_field("Maps", "attachment", [chart])]}
    account.comments[key] = [make_comment(1, comment=[{"text": "See"}, {"type": "attachment", "attachment": shot}])]
    text, files = read(account, tmp_path)[account.locate(key)]
    assert files == {"plan.txt": b"plan", "map.txt": b"map", "shot.txt": b"shot"}
    assert "Maps: map.txt" in text


def test_a_doc_is_its_pages_below_each_other_and_deleted_ones_are_gone(account, tmp_path):
    inner = {"name": "Owls", "content": "They hunt.", "creator_id": 8, "date_updated": MAY}
    account.put_doc(
        "d-1", "Handbook", [{"name": "Birds", "content": "Many.", "pages": [inner]}, {"name": "", "content": "y"}]
    )
    account.put_doc("d-2", "Old", [], archived=True)
    name = f"https://app.clickup.com/{TEAM}/v/dc/d-1"
    read_texts = texts(account, tmp_path)
    assert read_texts.keys() == {name}
    lines = [line for line in read_texts[name].splitlines() if line]
    assert lines == [
        "# Handbook", "Creator: Ada Berg", "Created: 14 May 2026", "Changed: 14 May 2026", "## Birds", "Many.",
        "### Owls", "Author: Bob Lund", "Changed: 14 May 2026", "They hunt.", "## Untitled", "y",
    ]  # fmt: skip
    before = list_items(account)[0][name].version
    account.docs["d-1"]["date_updated"] += 1
    assert list_items(account)[0][name].version != before
    connector, tokens = open_connector(account)
    account.docs["d-1"]["deleted"] = True
    assert connector.is_deleted(tokens, name)
    assert list_items(account)[0] == {}
    account.page = 2
    for number in range(5):
        account.put_doc(f"e-{number}", "Doc", [])
    assert len(list_items(account)[0]) == 5


def test_tasks_of_new_spaces_are_listed_and_archived_or_moved_ones_are_gone(account):
    keys = [account.put(f"Task {number}", "x") for number in range(3)]
    items, last = list_items(account)
    assert items.keys() == set(map(account.locate, keys))
    account.spaces["902"] = "Pond"
    old, account.spaces_of[keys[0]] = account.locate(keys[0]), "902"
    account.change(keys[0], "y")
    account.archived.add(keys[1])
    items, last = list_items(account, last.cursor)
    assert last.whole
    assert items.keys() == {account.locate(keys[0]), account.locate(keys[2])}
    assert items[account.locate(keys[0])].properties["path"] == f"Pond/{keys[0]}"
    connector, tokens = open_connector(account)
    gone = [connector.is_deleted(tokens, name) for name in (old, account.locate(keys[1]), account.locate(keys[2]))]
    assert gone == [True, True, False]


@pytest.mark.parametrize("count", [1, 100, 101, 250])
def test_a_deleted_task_is_missed_by_the_number_on_the_last_page(account, count):
    keys = [account.put(f"Task {number}", "x") for number in range(count)]
    _, last = list_items(account)
    new = account.put("new", "x")
    account.items[new].created = account.items[new].updated = datetime.now(UTC)
    account.requests.clear()
    items, last = list_items(account, last.cursor)
    assert (items.keys(), last.whole) == ({account.locate(new)}, False)
    assert len(account.requests) <= 7
    account.delete(keys[0])
    items, last = list_items(account, last.cursor)
    assert last.whole
    assert account.locate(keys[0]) not in items
    assert not list_items(account, last.cursor)[1].whole


def test_one_chosen_space_is_read_and_the_number_of_all_tasks_stays_no_reason_to_list_it_again(account):
    account.spaces["902"] = "Pond"
    keys = [account.put(f"Task {number}", "x") for number in range(4)]
    account.spaces_of[keys[0]] = "902"
    connector, tokens = open_connector(account)
    connector = connector.with_choice(SyncFilter(include=({"path": "Pond"},)))
    pages = list(connector.iter_changes(tokens, None))
    assert [item.external_id for page in pages for item in page.items] == [account.locate(keys[0])]
    again = list(connector.iter_changes(tokens, pages[-1].cursor))
    assert ([item for page in again for item in page.items], again[-1].whole) == ([], False)


def test_an_address_of_a_browser_is_a_space_or_the_whole_workspace(account):
    urls = {
        f"https://app.clickup.com/{TEAM}/v/s/901": f"https://app.clickup.com/{TEAM}/v/s/901",
        f"https://app.clickup.com/{TEAM}/v/o/s/901?pr=2": f"https://app.clickup.com/{TEAM}/v/o/s/901",
        f"https://app.clickup.com/{TEAM}/v/li/12": f"https://app.clickup.com/{TEAM}",
        f"https://app.clickup.com/{TEAM}/home": f"https://app.clickup.com/{TEAM}",
    }
    for url, read_url in urls.items():
        account.config_url = url
        assert open_connector(account)[1].token().count(f'"{read_url}"') == 1
