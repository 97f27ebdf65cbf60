"""Notion's listing, whatever a workspace looks like and wherever the process dies."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.sources.notion.listing import NotionCursor, NotionListing
from connectors.sources.notion.transport import BadRequest, NotFound
from tests.standins.notion import NotionAccount


def asking(account):
    """The stand-in without HTTP."""

    def answered(template, path, parameters):
        status, answer = account._answered(template, "", path, {k: v for k, v in parameters.items() if v is not None})
        if status != 200:
            raise {400: BadRequest, 404: NotFound}[status]
        return answer

    client = SimpleNamespace(
        search=lambda auth, **asked: answered("/v1/search", "/v1/search", asked),
        databases=SimpleNamespace(retrieve=lambda one, auth: answered("", f"/v1/databases/{one}", {})),
        data_sources=SimpleNamespace(
            query=lambda one, auth, **asked: answered("", f"/v1/data_sources/{one}/query", asked)
        ),
        pages=SimpleNamespace(retrieve=lambda one, auth: answered("", f"/v1/pages/{one}", {})),
        blocks=SimpleNamespace(
            children=SimpleNamespace(list=lambda one, auth, **asked: answered("", f"/v1/blocks/{one}/children", asked))
        ),
    )
    return lambda request: request(client, "token")


@settings(deadline=None)
@given(
    pages=st.integers(0, 8),
    databases=st.lists(st.tuples(st.integers(0, 14), st.booleans()), max_size=4),
    page=st.integers(1, 5),
    limit=st.integers(7, 9),
    deaths=st.lists(st.booleans(), max_size=60),
    forgets=st.lists(st.booleans(), max_size=4),
)
def test_every_page_is_listed(pages, databases, page, limit, deaths, forgets):
    # Except pages beyond search's limit from both ends: at most 13 here.
    account = NotionAccount()
    account.page, account.limit = page, limit
    expected_ids = {account.add(f"page {number}") for number in range(pages)}
    for database, (rows, nested) in enumerate(databases):
        folder = f"{'top/' if nested else ''}{database}"
        expected_ids |= {account.put(f"{folder}/{number}", "x") for number in range(rows)}
    for thing in account.things.values():
        thing.is_searchable = thing.object == "data_source" or "data_source_id" not in thing.parent
    assert walked(account, deaths, forgets) == expected_ids


def walked(account, deaths, forgets):
    """Return all listed ids, resuming after each page in a new listing."""
    listed_ids, cursor = set(), None
    deaths, forgets = list(deaths), list(forgets)
    for _ in range(1000):
        for page in NotionListing(asking(account)).pages(NotionCursor.parse(cursor)):
            listed_ids |= {item.external_id for item in page.items}
            cursor = page.cursor
            if page.done:
                assert page.whole
                return listed_ids
            if deaths and deaths.pop():
                if forgets and forgets.pop():
                    account.forget_cursors()
                break
    raise AssertionError("The listing never ended.")
