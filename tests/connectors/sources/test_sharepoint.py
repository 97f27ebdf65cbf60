"""SharePoint: sites and libraries, chosen or followed, and several feeds in one listing."""

from __future__ import annotations

import pytest

from connectors import registry
from retrieval.errors import Fatal
from retrieval.sync_filter import SyncFilter
from tests.standins import sharepoint
from tests.standins.place import APP
from tests.standins.sharepoint import HOME, HOST, SITE_PATH

CONNECTOR, STANDIN = "SHAREPOINT", sharepoint
OTHER = "sites/other"
OTHERS = f"{OTHER}/Shared Documents"


def pages(connector, tokens, cursor=None):
    return list(connector.iter_changes(tokens, cursor))


def items(listing):
    return {item.external_id: item for page in listing for item in page.items}


def skipped(listing):
    return {reason: number for page in listing for reason, number in page.skipped.items()}


@pytest.fixture
def choose(account):
    """A function: the connector with a choice."""
    connector = registry.make_connector("SHAREPOINT", APP, account.settings)
    return lambda *include, exclude=(): connector.with_choice(SyncFilter(include, tuple(exclude)))


def test_every_library_of_every_followed_site_is_listed(account, connector, tokens, tmp_path):
    """Ids of items repeat from library to library; paths begin with the library's own."""
    account.page = 1
    account.follow(OTHER)
    account.add_site("sites/strangers")
    account.add_library(SITE_PATH, f"{SITE_PATH}/Plans & mehr")
    ids = {
        account.put("a/one.txt", "first"): f"{HOME}/a/one.txt",
        account.put("a/one.txt", "second", f"{SITE_PATH}/Plans & mehr"): f"{SITE_PATH}/Plans & mehr/a/one.txt",
        account.put("one.txt", "third", OTHERS): f"{OTHERS}/one.txt",
    }
    account.put("hidden.txt", "x", "sites/strangers/Shared Documents")
    listing = pages(connector, tokens)
    assert {item_id: item.properties["path"] for item_id, item in items(listing).items()} == ids
    assert [page.done for page in listing] == [False] * (len(listing) - 1) + [True]
    assert listing[-1].whole
    texts = [connector.fetch(tokens, item, tmp_path / "raw").path.read_text() for item in items(listing).values()]
    assert sorted(texts) == ["first", "second", "third"]


def test_a_file_that_is_moved_to_another_library_is_another_item_there(account, connector, tokens):
    account.follow(OTHER)
    file_id = account.put("one.txt", "moved words")
    first_pages = pages(connector, tokens)
    two = account.move_to_library(file_id, OTHERS)
    changes = items(pages(connector, tokens, first_pages[-1].cursor))
    assert {key: item.deleted for key, item in changes.items()} == {file_id: True, two: False}
    assert connector.is_deleted(tokens, file_id)
    assert not connector.is_deleted(tokens, two)


def test_a_new_site_and_a_new_library_are_listed_without_the_others(account, connector, tokens):
    old = account.put("old.txt", "x")
    first_pages = pages(connector, tokens)
    account.follow(OTHER)
    new = account.put("new.txt", "x", OTHERS)
    next_pages = pages(connector, tokens, first_pages[-1].cursor)
    assert set(items(next_pages)) == {new}
    assert not next_pages[-1].whole
    account.change(old, "y")
    assert set(items(pages(connector, tokens, next_pages[-1].cursor))) == {old}


def test_what_lies_in_a_site_that_is_not_followed_any_more_is_gone(account, connector, tokens):
    account.follow(OTHER)
    kept_id, unfollowed_id = account.put("kept.txt", "x"), account.put("left.txt", "x", OTHERS)
    first_pages = pages(connector, tokens)
    account.followed.remove(OTHER)
    next_pages = pages(connector, tokens, first_pages[-1].cursor)
    assert set(items(next_pages)) == {kept_id}
    assert next_pages[-1].whole
    assert connector.is_deleted(tokens, unfollowed_id)
    assert not connector.is_deleted(tokens, kept_id)


@pytest.mark.parametrize("closed", [OTHER, OTHERS])
def test_a_forbidden_site_or_library_is_skipped_and_keeps_its_documents(account, connector, tokens, closed):
    account.follow(OTHER)
    mine, held_id = account.put("mine.txt", "x"), account.put("held.txt", "x", OTHERS)
    first_pages = pages(connector, tokens)
    account.closed.add(closed)
    account.change(mine, "y")
    next_pages = pages(connector, tokens, first_pages[-1].cursor)
    assert set(items(next_pages)) == {mine}
    assert list(skipped(next_pages).values()) == [1]
    later_pages = pages(connector, tokens)
    assert set(items(later_pages)) == {mine}
    assert not later_pages[-1].whole or not connector.is_deleted(tokens, held_id)
    account.closed.clear()
    account.change(held_id, "z")
    assert held_id in items(pages(connector, tokens, next_pages[-1].cursor))


@pytest.mark.parametrize("kind", ["site id", "site path", "address", "library id", "library path", "other case"])
def test_chosen_sites_and_libraries_are_listed_followed_or_not(account, tokens, choose, kind):
    account.add_site(OTHER)
    account.add_library(OTHER, f"{OTHER}/Plans")
    account.put("followed.txt", "x")
    shared, plans = account.put("shared.txt", "x", OTHERS), account.put("plans.txt", "x", f"{OTHER}/Plans")
    chosen = {
        "site id": {"id": account.site_id(OTHER)},
        "site path": {"path": f"/{OTHER}/"},
        "address": {"path": f"https://{HOST}/{OTHER}"},
        "library id": {"id": account.libraries[f"{OTHER}/Plans"].drive},
        "library path": {"path": f"{OTHER}/Plans"},
        "other case": {"path": f"{OTHER}/plans"},
    }[kind]
    listing = pages(choose(chosen), tokens)
    assert set(items(listing)) == ({shared, plans} if kind in {"site id", "site path", "address"} else {plans})
    assert listing[-1].whole


def test_another_choice_starts_a_whole_listing_and_deletes_the_rest(account, connector, tokens, choose):
    account.follow(OTHER)
    file_id, two = account.put("one.txt", "x"), account.put("two.txt", "x", OTHERS)
    first_pages = pages(connector, tokens)
    narrower = choose({"path": OTHER})
    next_pages = pages(narrower, tokens, first_pages[-1].cursor)
    assert set(items(next_pages)) == {two}
    assert next_pages[-1].whole
    assert narrower.is_deleted(tokens, file_id)
    assert not narrower.is_deleted(tokens, two)
    assert set(items(pages(connector, tokens, next_pages[-1].cursor))) == {file_id, two}


def test_a_choice_that_leads_nowhere_is_counted_and_takes_nothing_away(account, connector, tokens, choose):
    file_id = account.put("one.txt", "x")
    pages(connector, tokens)
    for missing in ({"path": "sites/nowhere/Plans"}, {"id": "b!nowhere"}, {"id": f"{HOST},no,where"}):
        chosen = choose(missing)
        listing = pages(chosen, tokens)
        assert items(listing) == {}
        assert skipped(listing) == {"chosen site or library that the account does not see": 1}
        assert not chosen.is_deleted(tokens, file_id)


def test_a_link_of_a_site_listing_leads_to_no_other_server(account, connector, tokens):
    account.twist = lambda body: {**body, "@odata.nextLink": "https://example.com/v1.0/me/followedSites"}
    with pytest.raises(Fatal, match="another server"):
        pages(connector, tokens)


def test_a_listing_goes_on_in_the_library_that_it_had_come_to(account, tokens):
    account.page = 1
    account.follow(OTHER)
    ids = {account.put(f"{n}.txt", "x", library) for n in range(3) for library in (HOME, OTHERS)}
    listed_ids, cursor = set(), None
    for _ in range(30):
        page = next(iter(registry.make_connector("SHAREPOINT", APP, account.settings).iter_changes(tokens, cursor)))
        listed_ids, cursor = listed_ids | {item.external_id for item in page.items}, page.cursor
        assert account.base not in cursor
        if page.done:
            break
    assert listed_ids == ids
    assert page.whole
