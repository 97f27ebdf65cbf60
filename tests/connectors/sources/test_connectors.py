"""Contract suite of the connectors against a stateful account: listing, changes, content, faults."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from connectors import registry
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.ports import SourceItem
from tests.standins import faults
from tests.standins.accounts import ACCOUNTS, serving_account
from tests.standins.place import APP, words


@pytest.fixture(params=ACCOUNTS)
def account(request):
    with serving_account(request.param) as served_account:
        yield served_account


@pytest.fixture
def connector(account):
    return registry.make_connector(account.connector, APP, account.settings)


def list_items(connector, tokens, cursor=None) -> tuple[dict[str, SourceItem], Any]:
    """Return the last version of each item by id, and the last page."""
    items, page = {}, None
    for page in connector.iter_changes(tokens, cursor):
        for item in page.items:
            items[item.external_id] = item
        if page.done:
            break
    assert page is not None
    assert page.done
    return items, page


def level(connector, tokens, parent):
    """Return all entries of a folder from all pages."""
    entries, cursor = [], None
    for _ in range(30):
        page = connector.browse(tokens, parent, cursor)
        entries, cursor = [*entries, *page.entries], page.cursor
        if cursor is None:
            return entries
    raise AssertionError("it has no end")


def text_of(connector, tokens, item, tmp_path) -> str:
    raw = connector.fetch(tokens, item, tmp_path / "raw")
    assert raw is not None
    assert raw.size == raw.path.stat().st_size
    return words(raw.path.read_text())


def trouble(account, when, *reasons):
    """Answer each request with `when` in its path by the next fault, then normally."""
    pending = list(reasons)

    def fault(request):
        return pending.pop(0) if pending and when in request else None

    account.fault = fault
    return pending


def test_a_first_listing_finds_everything_in_depth_and_is_whole(account, connector, tokens, tmp_path):
    account.page = 2
    ids = [
        account.put(f"{folder}{number}.txt", f"text {folder}{number}")
        for folder in ("", "a/", "a/b/", "c/")
        for number in range(2)
    ]
    items, last = list_items(connector, tokens)
    assert sorted(items) == sorted(ids)
    assert last.whole
    assert all(item.version and not item.deleted and not item.error for item in items.values())
    assert text_of(connector, tokens, items[ids[4]], tmp_path).endswith("text a/b/0")


def test_browsing_shows_one_folder_at_a_time_in_pages(account, connector, tokens):
    # Browses down to the files; each has the id, path and time of its listing.
    account.page = 2
    paths = ["top.txt", "plans/2026/launch.txt", *(f"plans/{number}.txt" for number in range(5))]
    files = {account.put(path, "some text"): path for path in paths}
    items, _ = list_items(connector, tokens)
    entries, pending = {}, [(None, 0)]
    while pending:
        parent, depth = pending.pop()
        for entry in level(connector, tokens, parent):
            entries[entry.id] = entry
            if entry.has_children and depth < 6:
                pending.append((entry.id, depth + 1))
    assert files.keys() <= entries.keys()
    for file_id, path in files.items():
        entry, item = entries[file_id], items[file_id]
        assert (entry.is_folder, entry.name) == (False, item.name)
        assert entry.path.endswith(path)
        assert entry.modified_at
        assert entry.size in {len("some text"), None}
    folders = {entry.name: entry for entry in entries.values() if entry.is_folder}
    assert {"plans", "2026"} <= folders.keys()
    assert folders["plans"].has_children
    assert folders["plans"].path == entries[next(iter(files))].path.replace("top.txt", "plans")
    assert not [request for request in account.requests if "/content" in request or "/signed/" in request]


def test_a_folder_that_is_not_there_cannot_be_browsed(account, connector, tokens):
    account.put("top.txt", "x")
    for nowhere in ("nowhere", "id:nowhere", "9" * 20, "../x", "a b/ü?#", "'"):
        with pytest.raises(Skippable):
            level(connector, tokens, nowhere)
    assert not tokens.failed


def test_an_empty_account_is_listed_whole(connector, tokens):
    items, last = list_items(connector, tokens)
    assert items == {}
    assert last.whole


def test_nothing_new_is_nothing_listed_or_the_same_versions(account, connector, tokens):
    account.put("one.txt", "first")
    initial, last = list_items(connector, tokens)
    changes, _ = list_items(connector, tokens, last.cursor)
    assert all(initial[name].version == item.version for name, item in changes.items())


def test_a_listing_goes_on_behind_any_page(account, connector, tokens):
    account.page = 2
    ids = {account.put(f"folder{number % 3}/{number}.txt", "x") for number in range(7)}
    listed_ids, cursor, pages = set(), None, 0
    while True:
        page = next(iter(connector.iter_changes(tokens, cursor)))
        listed_ids |= {item.external_id for item in page.items}
        cursor, pages = page.cursor, pages + 1
        connector = registry.make_connector(account.connector, APP, account.settings)
        assert pages < 30
        if page.done:
            break
    assert listed_ids == ids
    assert page.whole


def test_a_change_is_listed_with_another_version_and_its_new_content(account, connector, tokens, tmp_path):
    kept_id, changed = account.put("kept.txt", "same"), account.put("folder/changed.txt", "before")
    initial, last = list_items(connector, tokens)
    account.change(changed, "after the change")
    changes, _ = list_items(connector, tokens, last.cursor)
    assert changes[changed].version != initial[changed].version
    assert kept_id not in changes or changes[kept_id].version == initial[kept_id].version
    assert text_of(connector, tokens, changes[changed], tmp_path).endswith("after the change")


def test_a_new_item_is_listed(account, connector, tokens):
    account.put("old.txt", "old")
    _, last = list_items(connector, tokens)
    fresh = account.put("folder/new.txt", "new")
    changes, _ = list_items(connector, tokens, last.cursor)
    assert fresh in changes


def test_a_renamed_and_a_moved_item_keep_their_ids(account, connector, tokens):
    renamed, moved = account.put("before.txt", "one"), account.put("here/moved.txt", "two")
    _, last = list_items(connector, tokens)
    account.rename(renamed, "after.txt")
    account.move(moved, "there")
    changes, _ = list_items(connector, tokens, last.cursor)
    assert "after" in changes[renamed].name
    assert not changes[moved].deleted


def test_a_deletion_is_listed_or_confirmed(account, connector, tokens):
    kept_id, deleted = account.put("kept.txt", "one"), account.put("folder/deleted.txt", "two")
    _, last = list_items(connector, tokens)
    account.delete(deleted)
    changes, page = list_items(connector, tokens, last.cursor)
    reported = deleted in changes and changes[deleted].deleted
    assert reported or (page.whole and deleted not in changes)
    assert connector.is_deleted(tokens, deleted)
    assert not connector.is_deleted(tokens, kept_id)


def test_a_cursor_that_is_too_old_starts_a_whole_listing(account, connector, tokens):
    ids = {account.put(f"{number}.txt", "x") for number in range(3)}
    _, last = list_items(connector, tokens)
    account.forget_cursors()
    changes, page = list_items(connector, tokens, last.cursor)
    assert ids <= set(changes)
    assert page.whole


def test_a_cursor_that_cannot_be_read_starts_a_whole_listing(account, connector, tokens):
    ids = {account.put(f"{number}.txt", "x") for number in range(2)}
    for cursor in ("", "{", "[]", '{"old": 1}'):
        items, page = list_items(connector, tokens, cursor)
        assert ids <= set(items), cursor
        assert page.whole


def test_each_week_everything_is_listed(account, connector, tokens, monkeypatch):
    if account.connector == "NOTION":
        return  # lists everything in each listing
    file_id = account.put("one.txt", "x")
    _, last = list_items(connector, tokens)
    start = time.time()
    monkeypatch.setattr(time, "time", lambda: start + 6 * 86400)
    assert not list_items(connector, tokens, last.cursor)[1].whole
    monkeypatch.setattr(time, "time", lambda: start + 8 * 86400)
    items, page = list_items(connector, tokens, last.cursor)
    assert (set(items), page.whole) == ({file_id}, True)
    assert not list_items(connector, tokens, page.cursor)[1].whole


def test_an_empty_listing_is_not_believed(account, connector, tokens):
    ids = [account.put(f"{number}.txt", "x") for number in range(3)]
    _, last = list_items(connector, tokens)
    account.lose()
    changes, _ = list_items(connector, tokens, last.cursor)
    assert not any(item.deleted for item in changes.values())
    assert not any(connector.is_deleted(tokens, file_id) for file_id in ids)


def test_an_item_deleted_after_the_listing_is_skipped(account, connector, tokens, tmp_path):
    vanished = account.put("folder/vanished.txt", "x")
    items, _ = list_items(connector, tokens)
    account.delete(vanished)
    with pytest.raises(Skippable):
        connector.fetch(tokens, items[vanished], tmp_path / "raw")


def test_a_refused_token_is_renewed_once_by_8_tasks_together(account, connector, tokens, tmp_path):
    for number in range(8):
        account.put(f"folder/{number}.txt", f"text {number}")
    items, _ = list_items(connector, tokens)
    account.expire()

    def fetch(pair):
        index, item = pair
        folder = tmp_path / str(index)
        folder.mkdir()
        return text_of(connector, tokens, item, folder)

    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(fetch, enumerate(items.values())))
    assert sorted(text[-1] for text in texts) == [str(number) for number in range(8)]
    assert tokens.renewals == 1
    assert not tokens.failed


def test_an_access_that_is_refused_for_good_ends_the_connection(account, connector, tokens):
    account.put("one.txt", "x")
    account.fault = lambda _request: faults.status(401)
    with pytest.raises(Fatal):
        list_items(connector, tokens)
    assert tokens.failed


@pytest.mark.parametrize(
    "wrong",
    [
        faults.status(429, Retry_After="0"),
        faults.status(429, Retry_After="soon"),
        faults.status(503),
        faults.reset,
    ],
    ids=["429", "429 with nonsense", "503", "reset"],
)
def test_trouble_that_passes_is_waited_out(account, connector, tokens, wrong):
    file_id = account.put("one.txt", "x")
    pending = trouble(account, "", wrong)
    items, _ = list_items(connector, tokens)
    assert set(items) == {file_id}
    assert not pending


def test_network_trouble_never_fails_the_connection(account, connector, tokens):
    account.fault = lambda _request: faults.reset
    with pytest.raises(Retryable) as raised:
        list_items(connector, tokens)
    assert not tokens.failed
    assert "SECRET" not in str(raised.value)


def test_an_answer_that_is_no_json_is_no_empty_listing(account, connector, tokens):
    account.put("one.txt", "x")
    account.fault = lambda _request: faults.html
    with pytest.raises((Retryable, Fatal)):
        list_items(connector, tokens)


def test_a_truncated_download_is_not_taken_for_the_whole(account, connector, tokens, tmp_path):
    file_id = account.put("folder/one.txt", "x" * 2000)
    items, _ = list_items(connector, tokens)
    account.fault = lambda _request: faults.cut
    with pytest.raises(Retryable):
        connector.fetch(tokens, items[file_id], tmp_path / "raw")


def test_items_say_what_and_where_they_are(account, connector, tokens, tmp_path):
    file_id = account.put("plans/launch.txt", "x")
    items, _ = list_items(connector, tokens)
    raw = connector.fetch(tokens, items[file_id], tmp_path / "raw")
    properties = {**items[file_id].properties, **raw.properties}
    assert "launch" in items[file_id].name
    assert "launch" in raw.name
    assert {"url", "modifiedAt"} <= properties.keys()
    assert all(isinstance(value, str | int) for value in properties.values())
