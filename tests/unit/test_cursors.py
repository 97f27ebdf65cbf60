"""Cursors: a listing that is walked shows everything once, whatever comes and goes; what is made up is refused."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrieval import cursors, documents
from retrieval.errors import ErrorCode, ServiceError
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope

CODE = ErrorCode.INVALID_REQUEST
HERE = Scope("org_1", "ns_1", "t")
ELSEWHERE = (Scope("org_2", "ns_1", "t"), Scope("org_1", "ns_2", "t"), Scope("org_1", "ns_1", ""))


@given(st.integers(-(2**70), 2**70), st.text(max_size=20))
def test_a_cursor_leads_back_to_its_place_in_its_own_listing_only(place, listing):
    cursor = cursors.write(HERE, listing, place)
    assert cursors.read(HERE, listing, cursor, CODE) == place
    for scope, name in [*((other, listing) for other in ELSEWHERE), (HERE, listing + "x")]:
        with pytest.raises(ServiceError) as refused:
            cursors.read(scope, name, cursor, CODE)
        assert (refused.value.code, refused.value.reason) == (CODE, "bad_cursor")


@given(st.text(max_size=60) | st.text("ABCDEFabcdef0123456789-_=", max_size=60))
def test_a_made_up_cursor_is_refused(text):
    with pytest.raises(ServiceError):
        cursors.read(HERE, "runs", text, CODE)
    with pytest.raises(ServiceError):
        documents._read_cursor(HERE, text)


@given(st.integers(0, 2**40), st.data())
def test_a_changed_cursor_is_refused_or_the_same(place, data):
    cursor = cursors.write(HERE, "runs", place)
    at = data.draw(st.integers(0, len(cursor) - 1))
    letter = data.draw(st.sampled_from("ABCXYZabcxyz0189-_"))
    try:
        found = cursors.read(HERE, "runs", cursor[:at] + letter + cursor[at + 1 :], CODE)
    except ServiceError:
        found = place
    assert found == place


COMINGS = st.lists(st.sampled_from(["put", "put", "delete", "nothing"]), max_size=6)


@pytest.mark.decision("D34")
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(before=st.integers(0, 9), size=st.integers(1, 4), comings=st.lists(COMINGS, min_size=1, max_size=6))
def test_a_walk_shows_what_was_there_once_and_in_order(new_library, before, size, comings):
    """Between two pages documents are added and deleted: those that were there at first and stay are all shown."""
    library = new_library()
    there = [library.put(name=str(number)) for number in range(before)]
    deleted, shown = set(), []

    async def step(cursor):
        try:
            return await documents.list_page(library.db, library.scope, DocumentFilter(), size, cursor)
        finally:
            await library.db.async_close()
            library.db._async_pool = None

    async def remove(document):
        try:
            await documents.delete(library.db, library.scope, DocumentFilter(document_ids=(document,)))
        finally:
            await library.db.async_close()
            library.db._async_pool = None

    cursor, turn = None, 0
    while True:
        page = asyncio.run(step(cursor))
        shown += [item.id for item in page.items]
        cursor = page.cursor
        if cursor is None:
            break
        for what in comings[turn % len(comings)] if turn < len(comings) else []:
            if what == "put":
                library.put()
            left = [one for one in there if one not in deleted]
            if what == "delete" and left:
                deleted.add(left[len(left) // 2])
                asyncio.run(remove(left[len(left) // 2]))
        turn += 1
    assert len(shown) == len(set(shown)), "a document was shown twice"
    assert set(shown) <= set(there), "what came in since stands before the first page, not in a later one"
    kept = [one for one in reversed(there) if one not in deleted]
    assert [one for one in shown if one not in deleted] == kept
