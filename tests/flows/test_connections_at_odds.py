"""Connections under awkward listings and changes of mind: what a scripted service names, and what becomes of it."""

from __future__ import annotations

import pytest

from connectors import patience, registry
from retrieval import settings
from retrieval.ports import Page, SourceItem
from tests.flows.connected import ConnectedSpace, lead_to
from tests.standins import memory


@pytest.fixture
def account(monkeypatch):
    monkeypatch.setitem(registry.CONNECTORS, "BOX", "tests.standins.memory:make")
    with memory.serving("BOX") as made:
        yield made


@pytest.fixture
def space(db, account, monkeypatch):
    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.01)
    db.rows("update job_runs set finished_at = now() where finished_at is null")
    db.rows("update batches set finished_at = now() where finished_at is null")
    lead_to(monkeypatch, account)
    yield ConnectedSpace(db, account)
    settings.load.cache_clear()


@pytest.fixture
def listing(monkeypatch):
    """Let the next listings be these pages of items; the last one ends it."""

    def listing(*pages, whole=False):
        def changes(_self, _tokens, cursor):
            start = int(cursor) if cursor and cursor.isdigit() else 0
            for number, items in enumerate(pages[start:], start + 1):
                done = number == len(pages)
                yield Page(items, "end" if done else str(number), done=done, whole=whole and done)

        monkeypatch.setattr(memory.Memory, "iter_changes", changes)

    return listing


def item(external_id, name="x.txt", version="1", **more):
    return SourceItem(external_id, name, "text/plain", version, properties={"url": "https://x/", "path": name}, **more)


def gone(external_id):
    return SourceItem(external_id, "", deleted=True)


def rows(space):
    found = space.db.rows(
        "select d.* from documents d where d.connection_id = %(id)s and d.deleted_at is null", {"id": space.connection}
    )
    return {row["external_id"]: row for row in found}


@pytest.mark.parametrize("together", [True, False])
def test_of_an_item_that_is_listed_several_times_the_last_counts(space, account, listing, together):
    one = account.put("one.txt", "first words")
    listed = [item(one, "before.txt", "1"), item(one, "after.txt", "2")]
    listing(*([listed] if together else [[each] for each in listed]))
    assert space.ingest().failed == []
    row = rows(space)[one]
    assert (row["name"], row["properties"]["listedVersion"], row["properties"]["path"]) == (
        "after.txt",
        "2",
        "after.txt",
    )


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("order", ["gone and back", "back and gone"])
def test_an_item_that_went_and_came_back_is_as_the_last_word_says(space, account, listing, together, order):
    kept = [account.put(f"kept{number}.txt", f"kept {number}") for number in range(8)]
    one = account.put("one.txt", "the one that wavers")
    space.ingest()
    said = [gone(one), item(one, "one.txt", "2")]
    words = said if order == "gone and back" else said[::-1]
    listing(*([words] if together else [[each] for each in words]))
    run = space.ingest()
    assert run.failed == []
    assert (one in rows(space)) is (order == "gone and back")
    assert run.progress["removed"] == (order != "gone and back")
    assert set(kept) <= set(rows(space))


@pytest.mark.parametrize(
    "name",
    [
        "no extension",
        "",
        "nul\0in.txt",
        "half \ud800.txt",
        "n" * 3000 + ".txt",
        "a/b\\c.txt",
        "\u202etxt.exe",
        "a\nb\x07.txt",
    ],
    ids=["bare", "none", "nul", "surrogate", "long", "slashes", "rtl", "controls"],
)
def test_any_name_may_be_listed(space, account, listing, name):
    one, other = account.put("one.txt", "odd words here"), account.put("two.txt", "even words there")
    listing([item(one, name), item(other, name)])
    run = space.ingest()
    assert run.failed == []
    assert len(run.completed) == 2
    assert {row["status"] for row in rows(space).values()} == {"SUCCESS"}
    for row in rows(space).values():
        assert 0 < len(row["name"]) <= 500
        assert row["name"].isprintable()
    assert len(space.search("odd words", top_k=2)) == 2
