"""Notion: databases and rows, incomplete search, pages as Markdown."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from connectors import registry
from retrieval.errors import Fatal, Skippable
from tests.standins import notion
from tests.standins.notion import rich
from tests.standins.place import APP

CONNECTOR, STANDIN = "NOTION", notion


@pytest.fixture
def list_pages(connector, tokens):
    """Return a function to list everything: the items in order and the last page."""

    def walk(cursor=None):
        pages = list(connector.iter_changes(tokens, cursor))
        assert [page.done for page in pages] == [False] * (len(pages) - 1) + [True]
        return [item for page in pages for item in page.items], pages[-1]

    return walk


@pytest.fixture
def fetched(connector, tokens, list_pages, tmp_path):
    """Return a function to fetch a listed page: text and properties."""

    def fetch(page_id):
        item = next(item for item in list_pages()[0] if item.external_id == page_id)
        raw = connector.fetch(tokens, item, tmp_path / "raw")
        return raw.path.read_text(), {**item.properties, **raw.properties}

    return fetch


def test_rows_that_search_leaves_out_are_listed_and_each_page_once(account, list_pages):
    searchable, unseen = account.put("plans/seen.txt", "x"), account.put("plans/unseen.txt", "x")
    account.things[unseen].is_searchable = False
    items, last = list_pages()
    assert sorted(item.external_id for item in items) == sorted([searchable, unseen])
    assert last.whole


def test_every_source_of_a_database_is_listed(account, list_pages):
    account.put("plans/first.txt", "x")
    database, _ = account.folders["plans"]
    source_id = account.add_source(database, "more plans")
    account.things[source_id].is_searchable = False
    parent = {"type": "data_source_id", "data_source_id": source_id, "database_id": database}
    second = account.add("second", "x", parent, is_searchable=False)
    assert second in {item.external_id for item in list_pages()[0]}


def test_a_database_that_is_not_shared_ends_no_listing(account, list_pages):
    hidden, kept_id = account.put("hidden/row.txt", "x"), account.put("kept/row.txt", "x")
    for row_id in account.folders["hidden"]:
        account.things[row_id].is_shared = False
    items, last = list_pages()
    assert {item.external_id for item in items} == {hidden, kept_id}
    assert last.whole


def test_more_rows_than_a_query_gives_are_all_listed(account, list_pages):
    account.limit, account.page = 4, 2
    rows = {account.put(f"plans/{number}.txt", "x") for number in range(11)}
    for row in rows:
        account.things[row].is_searchable = False
    items, last = list_pages()
    assert {item.external_id for item in items} == rows
    assert len(items) == 11
    assert last.whole


def test_more_pages_than_searchs_limit_are_searched_from_both_ends(account, list_pages):
    account.limit, account.page = 4, 2
    pages = {account.add(f"page {number}") for number in range(7)}
    items, _ = list_pages()
    assert {item.external_id for item in items} == pages


def test_two_changes_within_a_minute_are_two_versions(account, list_pages):
    # Notion's times have minutes: both changes bear the same time.
    account.time = lambda: datetime.now(UTC)
    account.add("page", "first")
    versions = [list_pages()[0][0].version for _ in range(2)]
    assert versions[0] != versions[1]
    account.things[next(iter(account.things))].edited = "2026-01-02T03:04:00.000Z"
    assert len({list_pages()[0][0].version for _ in range(2)}) == 1


def test_what_is_gone(account, connector, tokens):
    present, binned, unshared = account.add("here"), account.add("binned"), account.add("unshared")
    account.delete(binned)
    account.things[unshared].is_shared = False
    assert [connector.is_deleted(tokens, page_id) for page_id in (present, binned, unshared)] == [False, True, True]
    account.refuses[f"/v1/pages/{present}"] = (403, "restricted_resource")
    assert not connector.is_deleted(tokens, present)


def test_a_missing_capability_of_the_integration_is_reported(account, list_pages):
    account.refuses["/v1/search"] = (403, "restricted_resource")
    with pytest.raises(Fatal, match="capability to read content"):
        list_pages()


def test_the_path_is_the_titles_of_what_a_page_is_in(account, fetched):
    top = account.add("Handbook")
    column = account.put_block(top, "column", {})
    inner = account.add("Travel", parent={"type": "block_id", "block_id": column})
    leaf = account.add("Trains", "Second class.", {"type": "page_id", "page_id": inner})
    text, properties = fetched(leaf)
    assert text == "# Trains\n\nSecond class.\n"
    assert properties["path"] == "Handbook/Travel/Trains"
    assert properties["title"] == "Trains"
    assert properties["url"] == f"https://www.notion.so/{leaf.replace('-', '')}"
    assert properties["createdAt"] <= properties["modifiedAt"]


def test_a_row_bears_its_properties(account, fetched):
    person = {"object": "user", "id": "u", "name": "Ada Lovelace", "type": "person", "person": {"email": "a@b.example"}}
    guest = {"object": "user", "id": "v", "type": "person", "person": {"email": "guest@b.example"}}
    values = {
        "Notes": ("rich_text", rich("two\nlines")),
        "Effort": ("number", 2.5),
        "Count": ("number", 3),
        "Stage": ("select", {"id": "1", "name": "Draft", "color": "red"}),
        "State": ("status", {"id": "1", "name": "In progress", "color": "red"}),
        "Tags": ("multi_select", [{"name": "red"}, {"name": "blue"}]),
        "Due": ("date", {"start": "2026-03-01", "end": "2026-03-05", "time_zone": None}),
        "Owner": ("people", [person, guest]),
        "Done": ("checkbox", False),
        "Link": ("url", "https://example.com/x"),
        "Related": ("relation", [{"id": "aaa"}, {"id": "bbb"}]),
        "Price": ("formula", {"type": "number", "number": 12}),
        "Sum": ("rollup", {"type": "array", "array": [{"type": "title", "title": rich("one")}], "function": "x"}),
        "Number": ("unique_id", {"prefix": "TASK", "number": 7}),
        "Empty": ("select", None),
        "Strange": ("telepathy", {"thought": 1}),
        "Broken": ("date", "no date"),
    }
    row = account.put("tasks/Ship it", "The body.")
    account.things[row].properties = {
        name: {"id": name[:3], "type": kind, kind: value} for name, (kind, value) in values.items()
    }
    text, properties = fetched(row)
    assert text.splitlines() == [
        "# Ship it", "",
        "- **Notes**: two lines",
        "- **Effort**: 2.5",
        "- **Count**: 3",
        "- **Stage**: Draft",
        "- **State**: In progress",
        "- **Tags**: red, blue",
        "- **Due**: 2026-03-01 to 2026-03-05",
        "- **Owner**: Ada Lovelace, guest@b.example",
        "- **Done**: no",
        "- **Link**: https://example.com/x",
        "- **Related**: aaa, bbb",
        "- **Price**: 12",
        "- **Sum**: one",
        "- **Number**: TASK-7",
        "", "The body.",
    ]  # fmt: skip
    assert properties["path"] == "tasks/Ship it"


def test_a_truncated_relation_is_fetched_whole(account, fetched):
    row = account.put("tasks/Ship it", "x")
    relation = {"id": "rel", "type": "relation", "relation": [{"id": "0"}], "has_more": True}
    account.things[row].properties = {"Related": relation}
    account.related[row] = [str(number) for number in range(30)]
    assert "- **Related**: 0, 1, 2," in fetched(row)[0]
    assert ", 29\n" in fetched(row)[0]


def unknown(block_id):
    return f'<unknown url="https://www.notion.so/page#{block_id.replace("-", "")}" alt="toggle"/>'


def test_what_notion_left_out_of_a_large_page_is_put_in_its_place(account, fetched):
    first, second, secret = "1" * 8 + "-aaaa-4aaa-8aaa-" + "1" * 12, "2" * 8 + "-aaaa-4aaa-8aaa-" + "2" * 12, "3" * 32
    account.left_out = {first: f"Part one.\n{unknown(second)}", second: "Part two.", secret: None}
    page = account.add("Long", f"Begin.\n{unknown(first)}\n{unknown(secret)}\nEnd.")
    assert fetched(page)[0] == "# Long\n\nBegin.\n\nPart one.\n\nPart two.\n\nEnd.\n"


def walked(account):
    """A page of blocks."""
    page = account.add("Blocks", "not this")
    account.put_block(page, "heading_2", {"rich_text": rich("Why")})
    outer = account.put_block(page, "bulleted_list_item", {"rich_text": rich("outer")})
    account.put_block(outer, "bulleted_list_item", {"rich_text": rich("inner")})
    account.put_block(page, "to_do", {"rich_text": rich("ship"), "checked": True})
    account.put_block(page, "code", {"rich_text": rich("if a < b:\n\tpass"), "language": "python"})
    table = account.put_block(page, "table", {"table_width": 2})
    account.put_block(table, "table_row", {"cells": [rich("a"), rich("b|c")]})
    account.put_block(table, "table_row", {"cells": [rich("1"), rich("2")]})
    account.put_block(page, "bookmark", {"url": "https://example.com", "caption": rich("A site")})
    account.put_block(page, "child_page", {"title": "Below"})
    account.put_block(page, "unsupported", {})
    synced = account.put_block(page, "synced_block", {"synced_from": None})
    account.put_block(synced, "paragraph", {"rich_text": rich("Twice <here>.")})
    return page


WALKED = """# Blocks

## Why

- outer
    - inner
- [x] ship

```python
if a < b:
	pass
```

| a | b\\|c |
| --- | --- |
| 1 | 2 |

[A site](https://example.com)

Below

Twice \\<here>.
"""


@pytest.mark.parametrize("refused", [(404, "object_not_found"), (400, "validation_error")])
def test_a_page_that_notion_does_not_render_is_read_block_by_block(account, fetched, refused):
    account.page = 3
    page = walked(account)
    account.refuses[f"/v1/pages/{page}/markdown"] = refused
    assert fetched(page)[0] == WALKED


def test_a_page_beyond_the_limit_of_a_file_is_skipped_with_words(account, tokens, tmp_path):
    page = account.add("Long", "x" * 5000)
    connector = registry.make_connector("NOTION", APP, account.settings.model_copy(update={"max_file_bytes": 4000}))
    item = next(iter(connector.iter_changes(tokens, None))).items[0]
    for refused in ({}, {f"/v1/pages/{page}/markdown": (404, "object_not_found")}):
        account.refuses = refused
        account.put_block(page, "paragraph", {"rich_text": rich("y" * 5000)})
        with pytest.raises(Skippable, match="too large"):
            connector.fetch(tokens, item, tmp_path / "raw")


def test_a_forbidden_page_is_skipped(account, fetched):
    page = account.add("Closed")
    account.refuses[f"/v1/pages/{page}/markdown"] = (403, "restricted_resource")
    with pytest.raises(Skippable, match="share it"):
        fetched(page)
