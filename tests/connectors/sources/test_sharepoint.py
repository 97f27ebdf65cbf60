"""What is SharePoint's own: sites and libraries, those that are chosen, and several feeds that end as one listing."""

from __future__ import annotations

import itertools
from urllib.parse import unquote

import pytest

from connectors import registry
from connectors.http import responses
from retrieval.errors import Fatal, Retryable
from retrieval.sync_filter import SyncFilter
from tests.standins import faults, sharepoint
from tests.standins.place import APP
from tests.standins.sharepoint import HOME, HOST, SITE

CONNECTOR, STANDIN = "SHAREPOINT", sharepoint
OTHER = "sites/other"
OTHERS = f"{OTHER}/Shared Documents"


def pages(connector, tokens, cursor=None):
    return list(connector.iter_changes(tokens, cursor))


def items(found):
    return {item.external_id: item for page in found for item in page.items}


def skipped(found):
    return {reason: number for page in found for reason, number in page.skipped.items()}


@pytest.fixture
def choose(account):
    """A function: the connector with a choice."""
    made = registry.make_connector("SHAREPOINT", APP, account.settings)
    return lambda *include, exclude=(): made.with_choice(SyncFilter(include, tuple(exclude)))


def test_every_library_of_every_followed_site_is_listed(account, connector, tokens, tmp_path):
    """Ids of items repeat from library to library; paths begin with the library's own."""
    account.page = 1
    account.follow(OTHER)
    account.add_site("sites/strangers")
    account.add_library(SITE, f"{SITE}/Plans & mehr")
    ids = {
        account.put("a/one.txt", "first"): f"{HOME}/a/one.txt",
        account.put("a/one.txt", "second", f"{SITE}/Plans & mehr"): f"{SITE}/Plans & mehr/a/one.txt",
        account.put("one.txt", "third", OTHERS): f"{OTHERS}/one.txt",
    }
    account.put("hidden.txt", "x", "sites/strangers/Shared Documents")
    found = pages(connector, tokens)
    assert {one: item.properties["path"] for one, item in items(found).items()} == ids
    assert [page.done for page in found] == [False] * (len(found) - 1) + [True]
    assert found[-1].whole
    texts = [connector.fetch(tokens, item, tmp_path / "raw").path.read_text() for item in items(found).values()]
    assert sorted(texts) == ["first", "second", "third"]


def test_what_changed_costs_a_request_for_each_library_and_site(account, connector, tokens):
    account.follow(OTHER)
    before = pages(connector, tokens)
    changed = account.put("one.txt", "x", OTHERS)
    account.requests.clear()
    after = pages(connector, tokens, before[-1].cursor)
    assert set(items(after)) == {changed}
    assert not after[-1].whole
    assert len(account.requests) == 5


def test_a_file_that_is_moved_to_another_library_is_another_item_there(account, connector, tokens):
    account.follow(OTHER)
    one = account.put("one.txt", "moved words")
    before = pages(connector, tokens)
    two = account.move_to_library(one, OTHERS)
    after = items(pages(connector, tokens, before[-1].cursor))
    assert {key: item.deleted for key, item in after.items()} == {one: True, two: False}
    assert connector.is_deleted(tokens, one)
    assert not connector.is_deleted(tokens, two)


def test_a_deleted_folder_has_all_libraries_listed_again(account, connector, tokens):
    """Only then is it known what is gone."""
    account.follow(OTHER)
    kept, inside = account.put("kept.txt", "x"), account.put("folder/inside.txt", "x", OTHERS)
    before = pages(connector, tokens)
    account.delete(account.folder_of(inside))
    after = pages(connector, tokens, before[-1].cursor)
    assert kept in items(after)
    assert inside not in items(after)
    assert after[-1].whole
    assert [page.done for page in after].count(True) == 1
    assert not pages(connector, tokens, after[-1].cursor)[-1].whole


def test_a_new_site_and_a_new_library_are_listed_without_the_others(account, connector, tokens):
    old = account.put("old.txt", "x")
    before = pages(connector, tokens)
    account.follow(OTHER)
    new = account.put("new.txt", "x", OTHERS)
    after = pages(connector, tokens, before[-1].cursor)
    assert set(items(after)) == {new}
    assert not after[-1].whole
    account.change(old, "y")
    assert set(items(pages(connector, tokens, after[-1].cursor))) == {old}


def test_what_lies_in_a_site_that_is_not_followed_any_more_is_gone(account, connector, tokens):
    account.follow(OTHER)
    kept, left = account.put("kept.txt", "x"), account.put("left.txt", "x", OTHERS)
    before = pages(connector, tokens)
    account.followed.remove(OTHER)
    after = pages(connector, tokens, before[-1].cursor)
    assert set(items(after)) == {kept}
    assert after[-1].whole
    assert connector.is_deleted(tokens, left)
    assert not connector.is_deleted(tokens, kept)


@pytest.mark.parametrize("closed", [OTHER, OTHERS])
def test_a_site_or_library_that_may_not_be_read_is_left_out_alone_and_keeps_its_documents(
    account, connector, tokens, closed
):
    account.follow(OTHER)
    mine, held = account.put("mine.txt", "x"), account.put("held.txt", "x", OTHERS)
    before = pages(connector, tokens)
    account.closed.add(closed)
    account.change(mine, "y")
    after = pages(connector, tokens, before[-1].cursor)
    assert set(items(after)) == {mine}
    assert list(skipped(after).values()) == [1]
    again = pages(connector, tokens)
    assert set(items(again)) == {mine}
    assert not again[-1].whole or not connector.is_deleted(tokens, held)
    account.closed.clear()
    account.change(held, "z")
    assert held in items(pages(connector, tokens, after[-1].cursor))


@pytest.mark.parametrize("kind", ["site id", "site path", "address", "library id", "library path", "other case"])
def test_chosen_sites_and_libraries_are_listed_followed_or_not(account, tokens, choose, kind):
    account.add_site(OTHER)
    account.add_library(OTHER, f"{OTHER}/Plans")
    account.put("followed.txt", "x")
    shared, plans = account.put("shared.txt", "x", OTHERS), account.put("plans.txt", "x", f"{OTHER}/Plans")
    wanted = {
        "site id": {"id": account.site_id(OTHER)},
        "site path": {"path": f"/{OTHER}/"},
        "address": {"path": f"https://{HOST}/{OTHER}"},
        "library id": {"id": account.libraries[f"{OTHER}/Plans"].drive},
        "library path": {"path": f"{OTHER}/Plans"},
        "other case": {"path": f"{OTHER}/plans"},
    }[kind]
    found = pages(choose(wanted), tokens)
    assert set(items(found)) == ({shared, plans} if kind in {"site id", "site path", "address"} else {plans})
    assert found[-1].whole


def test_a_library_in_which_nothing_is_chosen_is_not_even_listed(account, tokens, choose):
    account.follow(OTHER)
    account.add_library(OTHER, f"{OTHER}/Plans")
    account.put("home.txt", "x")
    account.put("shared.txt", "x", OTHERS)
    plans = account.put("a/plans.txt", "x", f"{OTHER}/Plans")
    for include, exclude in (
        ([{"path": f"{OTHER}/Plans/a"}], []),
        ([{"id": f"{account.libraries[f'{OTHER}/Plans'].drive}/x"}], []),
        ([{"path": f"{OTHER}/pl*"}], []),
        ([], [{"path": "sites/team"}, {"path": "**/Shared Documents"}]),
        ([], [{"id": account.site_id("sites/team")}, {"id": account.libraries[OTHERS].drive}]),
    ):
        account.requests.clear()
        chosen = choose(*include, exclude=exclude)
        assert set(items(pages(chosen, tokens))) == {plans}, (include, exclude)
        feeds = {unquote(one).split("/")[3] for one in account.requests if one.endswith("/delta")}
        assert feeds == {account.libraries[f"{OTHER}/Plans"].drive}
        assert chosen.is_deleted(tokens, account.put("home2.txt", "x")) or include


def test_another_choice_lists_everything_and_what_is_not_chosen_is_gone(account, connector, tokens, choose):
    account.follow(OTHER)
    one, two = account.put("one.txt", "x"), account.put("two.txt", "x", OTHERS)
    before = pages(connector, tokens)
    narrower = choose({"path": OTHER})
    after = pages(narrower, tokens, before[-1].cursor)
    assert set(items(after)) == {two}
    assert after[-1].whole
    assert narrower.is_deleted(tokens, one)
    assert not narrower.is_deleted(tokens, two)
    assert set(items(pages(connector, tokens, after[-1].cursor))) == {one, two}


def test_a_choice_that_leads_nowhere_is_counted_and_takes_nothing_away(account, connector, tokens, choose):
    one = account.put("one.txt", "x")
    pages(connector, tokens)
    for wanted in ({"path": "sites/nowhere/Plans"}, {"id": "b!nowhere"}, {"id": f"{HOST},no,where"}):
        chosen = choose(wanted)
        found = pages(chosen, tokens)
        assert items(found) == {}
        assert skipped(found) == {"chosen site or library that the account does not see": 1}
        assert not chosen.is_deleted(tokens, one)


def test_an_account_without_sharepoint_is_said(account, connector, tokens):
    account.fault = lambda _request: faults.status(403)
    with pytest.raises(Fatal, match="account of work or school") as raised:
        pages(connector, tokens)
    assert "SECRET" not in str(raised.value)


def test_other_drives_of_a_site_are_no_libraries(account, connector, tokens):
    account.put("one.txt", "x")

    def twist(body):
        if "drives" in account.requests[-1]:
            return {"value": [{"id": "b!x", "driveType": "business"}, {"id": 5}, None]}
        return body

    account.twist = twist
    assert items(pages(connector, tokens)) == {}


@pytest.mark.parametrize("kind", ["back", "on"])
def test_sites_without_end_are_no_listing(account, connector, tokens, monkeypatch, kind):
    monkeypatch.setattr(responses, "IDLE_PAGES", 5)
    numbers = itertools.count(9)

    def twist(body):
        at = 9 if kind == "back" else next(numbers)
        return {"value": [], "@odata.nextLink": f"{account.base}/v1.0/me/followedSites?$skiptoken={at}"}

    account.twist = twist
    with pytest.raises(Retryable, match="would never end"):
        pages(connector, tokens)
    assert len(account.requests) < 10


def test_a_link_of_a_site_listing_leads_to_no_other_server(account, connector, tokens):
    account.twist = lambda body: {**body, "@odata.nextLink": "https://example.com/v1.0/me/followedSites"}
    with pytest.raises(Fatal, match="another server"):
        pages(connector, tokens)


def test_a_listing_goes_on_in_the_library_that_it_had_come_to(account, tokens):
    account.page = 1
    account.follow(OTHER)
    ids = {account.put(f"{n}.txt", "x", library) for n in range(3) for library in (HOME, OTHERS)}
    seen, cursor = set(), None
    for _ in range(30):
        page = next(iter(registry.make_connector("SHAREPOINT", APP, account.settings).iter_changes(tokens, cursor)))
        seen, cursor = seen | {item.external_id for item in page.items}, page.cursor
        assert account.base not in cursor
        if page.done:
            break
    assert seen == ids
    assert page.whole
