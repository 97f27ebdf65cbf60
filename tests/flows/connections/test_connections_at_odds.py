"""Connections with contradictory listings and changed configurations."""

from __future__ import annotations

import pytest

from retrieval.connections import queries_sync
from retrieval.errors import Fatal
from retrieval.jobs import control
from retrieval.ports import Page, SourceItem
from tests.standins import memory


@pytest.fixture
def listing(monkeypatch):
    """Script the next listings as pages of items."""

    def listing(*pages, whole=False):
        def changes(_self, _tokens, cursor):
            start = int(cursor) if cursor and cursor.isdigit() else 0
            for number, items in enumerate(pages[start:], start + 1):
                done = number == len(pages)
                yield Page(items, "end" if done else str(number), done=done, whole=whole and done)

        monkeypatch.setattr(memory.Memory, "iter_changes", changes)

    return listing


def item(external_id, name="x.txt", version="1", **fields):
    return SourceItem(
        external_id, name, "text/plain", version, properties={"url": "https://x/", "path": name}, **fields
    )


def deleted_item(external_id):
    return SourceItem(external_id, "", deleted=True)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("order", ["gone and back", "back and gone"])
def test_an_item_that_went_and_came_back_is_as_the_last_word_says(space, account, listing, together, order):
    staying = [account.put(f"kept{number}.txt", f"kept {number}") for number in range(8)]
    file = account.put("one.txt", "the one that wavers")
    space.ingest()
    events = [deleted_item(file), item(file, "one.txt", "2")]
    words = events if order == "gone and back" else events[::-1]
    listing(*([words] if together else [[event] for event in words]))
    run = space.ingest()
    assert run.failed == []
    assert (file in space.documents()) is (order == "gone and back")
    assert run.progress["removed"] == (order != "gone and back")
    assert set(staying) <= set(space.documents())


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
    first, second = account.put("one.txt", "odd words here"), account.put("two.txt", "even words there")
    listing([item(first, name), item(second, name)])
    run = space.ingest()
    assert run.failed == []
    assert len(run.completed) == 2
    assert {row["status"] for row in space.documents().values()} == {"SUCCESS"}
    for row in space.documents().values():
        assert 0 < len(row["name"]) <= 500
        assert row["name"].isprintable()
    assert len(space.search("odd words", top_k=2)) == 2


def test_an_account_that_is_changed_during_a_run_removes_nothing_unasked(space, account, monkeypatch):
    # The remaining pages and lookups already reach the other account.
    ids = [account.put(f"{number}.txt", f"text number {number}") for number in range(9)]
    space.ingest()
    stored_before, whole = set(space.documents()), memory.Memory.iter_changes

    def changing(self, tokens, cursor):
        account.delete(ids[0])
        for page in whole(self, tokens, None):
            space.db.rows(
                "update connections set cursor = '{\"accountChanged\": true}' where id = %(id)s",
                {"id": space.connection},
            )
            yield page

    monkeypatch.setattr(memory.Memory, "iter_changes", changing)
    run = space.ingest()
    assert (run.progress["removed"], run.progress["awaitingConfirmation"]) == (0, 1)
    assert set(space.documents()) == stored_before
    monkeypatch.undo()
    state = queries_sync.read_state(space.db, space.connection)
    assert (state.cursor, state.account_changed) == (None, True)


def test_what_a_client_deleted_comes_back_when_the_service_names_it_again(space, account):
    untouched, deleted = account.put("kept.txt", "the kept words"), account.put("deleted.txt", "the deleted words")
    space.ingest()
    space.delete(space.documents()[deleted]["id"])
    assert space.ingest().completed == []
    assert set(space.documents()) == {untouched}
    account.change(deleted, "the changed words")
    assert len(space.ingest().completed) == 1
    assert set(space.documents()) == {untouched, deleted}
    space.delete(space.documents()[deleted]["id"])
    account.forget_cursors()
    space.ingest()
    assert {row["status"] for row in space.documents().values()} == {"SUCCESS"}
    assert set(space.documents()) == {untouched, deleted}


def test_a_cancelled_run_is_made_good_by_the_next(space, account):
    ids = {account.put(f"{number}.txt", f"text number {number}") for number in range(3)}
    job_run = space.request()

    def cancel(step):
        if step == "fetch":
            control.cancel_run(space.db, space.scope, job_run)

    space.work(before_step=cancel)
    run = space.run(job_run)
    assert (run.status, run.completed) == ("COMPLETED", [])
    assert {row["status"] for row in space.documents().values()} == {"CANCELLED"}
    run = space.ingest()
    assert (len(run.completed), run.failed) == (3, [])
    assert set(space.documents()) == ids


def test_a_connection_that_is_revoked_in_the_middle_of_a_listing_ends_the_run_in_words(space, account, monkeypatch):
    for number in range(6):
        account.put(f"{number}.txt", f"text number {number}")
    account.page, whole = 2, memory.Memory.iter_changes

    def revoking(self, tokens, cursor):
        for page in whole(self, tokens, cursor):
            yield page
            space.db.rows(
                "update connections set status = 'REVOKED', credentials = null where id = %(id)s",
                {"id": space.connection},
            )

    monkeypatch.setattr(memory.Memory, "iter_changes", revoking)
    job_run = space.request()
    with pytest.raises(Fatal, match="authorize it again"):
        space.take(space.lease())
    (entry,) = space.run(job_run).failed
    assert "authorize it again" in entry.error
    assert len(space.documents()) == 2
    assert space.db.row("select cursor from connections where id = %(id)s", {"id": space.connection})["cursor"] is None
