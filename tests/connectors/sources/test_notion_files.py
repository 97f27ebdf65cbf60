"""Contents of Notion's pages outside search: child pages, databases, files kept by Notion."""

from __future__ import annotations

import logging
from functools import partial

import pytest

from connectors import registry
from retrieval.errors import Fatal, Retryable, Skippable
from tests.connectors.sources.reading import walk
from tests.standins import faults, notion, retired
from tests.standins.place import APP

CONNECTOR, STANDIN = "NOTION", notion


@pytest.fixture
def list_items(connector, tokens):
    return partial(walk, connector, tokens)


def inside(page):
    return {"type": "page_id", "page_id": page}


def test_pages_that_search_leaves_out_are_found_in_their_page_and_stay(account, list_items):
    # A child page, a grandchild and a page in a column; the next listing finds them without a change.
    top = account.add("Top")
    child = account.add("Child", "x", inside(top), is_searchable=False)
    below = account.add("Below", "x", inside(child), is_searchable=False)
    column = account.put_block(top, "column_list", {})
    aside = account.add("Aside", "x", {"type": "block_id", "block_id": column}, is_searchable=False)
    items, _, last = list_items()
    assert set(items) == {top, child, below, aside}
    assert last.whole
    account.change(below, "changed")
    changes, _, last = list_items(last.cursor)
    assert set(changes) == {top, child, below, aside}
    assert changes[below].version != items[below].version
    account.delete(below)
    assert set(list_items(last.cursor)[0]) == {top, child, aside}


def test_files_that_notion_keeps_are_documents_and_no_address_is_stored(
    account, connector, tokens, list_items, tmp_path, caplog
):
    caplog.set_level(logging.DEBUG)
    top = account.add("Top")
    toggle = account.put_block(top, "toggle", {"rich_text": []})
    report = account.attach(toggle, "report.pdf", "The report.", "file")
    picture = account.attach(top, "plan b.png", "picture bytes", "image")
    account.put_block(
        top, "file", {"type": "external", "external": {"url": "https://example.com/a.pdf"}, "caption": []}
    )
    items, _, last = list_items()
    assert set(items) == {top, f"{top}/{report}", f"{top}/{picture}"}
    file_item = items[f"{top}/{report}"]
    assert (file_item.name, file_item.media_type) == ("report.pdf", "application/pdf")
    assert (items[f"{top}/{picture}"].name, items[f"{top}/{picture}"].media_type) == ("plan b.png", "image/png")
    raw = connector.fetch(tokens, file_item, tmp_path / "raw")
    assert raw.path.read_text() == "The report."
    assert raw.properties["path"] == "Top/report.pdf"
    later_items, _, _ = list_items()
    assert later_items[f"{top}/{report}"].version.split(" seen ")[0] == file_item.version.split(" seen ")[0]
    assert "canary" not in str(items) + str(raw) + last.cursor + caplog.text


def test_a_file_leaves_with_its_block_or_its_page_and_not_before(account, connector, tokens, list_items):
    top, other_page = account.add("Top"), account.add("Other")
    kept_id, removed_id = account.attach(top, "kept.txt", "x"), account.attach(top, "gone.txt", "x")
    other_file = account.attach(other_page, "there.txt", "x")
    for number in range(20):
        account.add(f"Later {number}")
    _, _, last = list_items()
    account.things[removed_id].is_out = True
    account.touch(top)
    items, _, last = list_items(last.cursor)
    assert f"{top}/{kept_id}" in items
    assert f"{top}/{removed_id}" not in items
    assert connector.is_deleted(tokens, f"{top}/{removed_id}")
    account.requests.clear()
    assert not connector.is_deleted(tokens, f"{other_page}/{other_file}")
    assert account.requests == [], "its page has not changed"
    account.delete(other_page)
    stranger = registry.make_connector("NOTION", APP, account.settings)
    assert stranger.is_deleted(tokens, f"{other_page}/{other_file}")
    assert not stranger.is_deleted(tokens, f"{top}/{kept_id}")


def test_a_retired_endpoint_of_blocks_is_no_deletion_of_a_file(account, connector, tokens):
    """Pages, and the lists of their blocks, are still answered."""
    top = account.add("Top")
    kept_id, deleted = account.attach(top, "kept.txt", "x"), account.attach(top, "deleted.txt", "x")
    del account.things[deleted]
    blocks = {"NOTION": (r"GET /v1/blocks/[^/]+", *retired.ITEMS["NOTION"][1:])}
    account.fault = retired.retire(account, blocks)
    for block in (kept_id, deleted):
        with pytest.raises(Fatal, match="no longer answers for items"):
            connector.is_deleted(tokens, f"{top}/{block}")
    account.fault = lambda _request: None
    assert [connector.is_deleted(tokens, f"{top}/{block}") for block in (kept_id, deleted)] == [False, True]


def test_a_listing_goes_on_within_pages_that_are_looked_into(account, connector, tokens):
    top = account.add("Top")
    ids = {top, account.add("Child", "x", inside(top), is_searchable=False)}
    ids |= {f"{top}/{account.attach(top, f'{number}.txt', 'x')}" for number in range(3)}
    listed_ids, cursor = set(), None
    for _ in range(30):
        page = next(iter(registry.make_connector("NOTION", APP, account.settings).iter_changes(tokens, cursor)))
        listed_ids, cursor = listed_ids | {item.external_id for item in page.items}, page.cursor
        if page.done:
            break
    assert listed_ids == ids
    assert page.whole


def test_an_address_that_grew_old_or_is_not_https_is_not_the_file(
    account, connector, tokens, list_items, elsewhere, tmp_path
):
    top = account.add("Top")
    block_id = account.attach(top, "one.txt", "x")
    items, _, _ = list_items()
    account.fault = lambda request: faults.status(403) if notion.SIGNED in request else None
    with pytest.raises(Retryable, match="did not give out the file") as raised:
        connector.fetch(tokens, items[f"{top}/{block_id}"], tmp_path / "raw")
    assert "canary" not in str(raised.value)
    account.fault = lambda _request: None
    address = {"url": f"{elsewhere.base}/take", "expiry_time": "2026-01-01T00:00:00.000Z"}
    account.sign = lambda block: {**block, "file": {**block["file"], "file": address}}
    with pytest.raises(Skippable, match="not https"):
        connector.fetch(tokens, items[f"{top}/{block_id}"], tmp_path / "raw")
    address["url"] = elsewhere.base.replace("http:", "https:") + "/take"
    with pytest.raises(Skippable, match="does not dial"):
        connector.fetch(tokens, items[f"{top}/{block_id}"], tmp_path / "raw")
    assert elsewhere.requests == []
