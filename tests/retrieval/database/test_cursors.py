"""Cursors page through a listing completely, and forged cursors are refused."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrieval.database.cursors import Cursors
from retrieval.documents import documents
from retrieval.filters import DocumentFilter
from tests.loops import run_coroutine

CURSORS = Cursors(b"s" * 32)
HERE = ("org_1", "ns_1", "t", "/v1/documents")
SHORT_TEXTS = st.text(max_size=20)


@given(SHORT_TEXTS, st.lists(SHORT_TEXTS, min_size=4, max_size=4), st.lists(SHORT_TEXTS, min_size=4, max_size=4))
def test_a_cursor_leads_back_to_its_place_in_its_own_listing_only(position, listing, reader_listing):
    cursor = CURSORS.write(listing, position)
    assert CURSORS.read(listing, cursor) == position
    assert CURSORS.read(reader_listing, cursor) == (position if reader_listing == listing else None)
    assert Cursors(b"t" * 32).read(listing, cursor) is None


def test_the_parts_of_a_listing_do_not_run_together():
    cursor = CURSORS.write(("a", "bc", "", "d"), "5")
    assert CURSORS.read(("ab", "c", "", "d"), cursor) is None
    assert CURSORS.read(("a", "bc", "d", ""), cursor) is None


@given(st.text(max_size=60) | st.text("ABCDEFabcdef0123456789-_=", max_size=60))
def test_a_made_up_cursor_is_refused(text):
    assert CURSORS.read(HERE, text) is None


def test_the_secret_is_in_no_repr():
    assert "ssss" not in repr(CURSORS)


@given(SHORT_TEXTS, st.data())
def test_a_changed_cursor_is_refused_or_the_same(position, data):
    cursor = CURSORS.write(HERE, position)
    at = data.draw(st.integers(0, len(cursor) - 1))
    letter = data.draw(st.sampled_from(["", *"ABCXYZabcxyz0189-_"]))
    assert CURSORS.read(HERE, cursor[:at] + letter + cursor[at + 1 :]) in {None, position}


COMINGS = st.lists(st.sampled_from(["put", "put", "delete", "nothing"]), max_size=6)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(existing_count=st.integers(0, 9), size=st.integers(1, 4), comings=st.lists(COMINGS, min_size=1, max_size=6))
def test_a_walk_shows_what_was_there_once_and_in_order(new_library, existing_count, size, comings):
    # Documents are added and deleted between pages.
    library = new_library()
    existing = [library.put(name=str(number)) for number in range(existing_count)]
    deleted, shown_ids = set(), []

    def step(cursor):
        page = documents.list_page(library.db, library.scope, DocumentFilter(), size, cursor, viewer=None)
        return run_coroutine(library.db, page)

    def remove(document):
        selection = DocumentFilter(document_ids=(document,))
        run_coroutine(library.db, documents.delete_documents(library.db, library.scope, selection))

    cursor, turn = None, 0
    while True:
        page = step(cursor)
        shown_ids += [item.id for item in page.items]
        cursor = page.cursor
        if cursor is None:
            break
        for change in comings[turn % len(comings)] if turn < len(comings) else []:
            if change == "put":
                library.put()
            remaining = [listed_id for listed_id in existing if listed_id not in deleted]
            if change == "delete" and remaining:
                deleted.add(remaining[len(remaining) // 2])
                remove(remaining[len(remaining) // 2])
        turn += 1
    assert len(shown_ids) == len(set(shown_ids)), "a document was shown twice"
    assert set(shown_ids) <= set(existing), "what came in since stands before the first page, not in a later one"
    expected = [listed_id for listed_id in reversed(existing) if listed_id not in deleted]
    assert [listed_id for listed_id in shown_ids if listed_id not in deleted] == expected
