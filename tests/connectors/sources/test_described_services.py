"""One suite for every service that is read by a description, against its stand-in on loopback."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from connectors.http import responses
from connectors.sources.described import description, service
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.sources import DESCRIBED_SOURCES
from tests.connectors.sources.reading import list_items, list_pages, open_connector
from tests.nightly import nightly_except
from tests.standins import described_services, faults
from tests.standins.accounts import serving_account


@pytest.fixture(params=["GITHUB", *described_services.SERVICES])
def account(request, monkeypatch):
    monkeypatch.setattr(responses, "IDLE_PAGES", 3)
    with serving_account(request.param) as account:
        yield account


def test_every_service_has_a_stand_in():
    connectors = {service.connector for service in described_services.SERVICES.values()}
    assert connectors | {"GITHUB"} == set(DESCRIBED_SOURCES)


def fill(account, count=5):
    return [account.put(f"Title {number}", f"text of {number}") for number in range(count)]


def of_items(account, items):
    """Those of the listed that were put, without a wiki or files beside them."""
    urls = {account.locate(key): key for key in getattr(account, "items", None) or map(str, account.issues)}
    return {urls[name]: item for name, item in items.items() if name in urls}


def test_everything_is_listed_behind_any_page_and_fetched(account, tmp_path):
    keys, account.page = fill(account), 2
    whole = list_pages(account)
    assert [page.whole for page in whole] == [False] * (len(whole) - 1) + [True]
    items = {item.external_id: item for page in whole for item in page.items}
    assert len(whole) >= 3
    assert set(of_items(account, items)) == set(keys)
    for number, page in enumerate(whole[:-1]):
        seen = {item.external_id for page in whole[: number + 1] for item in page.items}
        rest, last = list_items(account, page.cursor)
        assert seen | rest.keys() == items.keys()
        assert last.whole
    connector, tokens = open_connector(account)
    text = connector.fetch(tokens, items[account.locate(keys[3])], tmp_path / "a").path.read_text()
    assert "Title 3" in text
    assert "text of 3" in text
    for item in items.values():
        assert connector.fetch(tokens, item, tmp_path / "a").size
    with pytest.raises(Skippable):
        connector.fetch(tokens, items[account.locate(keys[3])].__class__("https://elsewhere.example/1", "x"), tmp_path)


def test_changes_are_asked_for_and_once_a_day_everything(account):
    keys = fill(account, 9)
    before, last = list_items(account)
    account.change(keys[1], "other words")
    account.rename(keys[2], "Renamed")
    new = account.put("new", "x")
    if hasattr(account, "items"):
        account.items[new].updated = datetime.now(UTC)
    else:
        account.change(new, "y")
    account.page = 2
    items, later = list_items(account, last.cursor)
    changed = {keys[1], keys[2], new} if account.changes else {new}
    listed_keys = set(of_items(account, items))
    assert changed <= listed_keys
    assert len(listed_keys) <= 6 or not account.lists_changes
    assert later.whole == (not account.lists_changes)
    position = json.loads(later.cursor)
    yesterday = (datetime.now(UTC) - timedelta(days=1, minutes=1)).isoformat()
    everything, last = list_items(account, json.dumps({**position, "full_at": yesterday}))
    after = of_items(account, everything)
    assert (set(after), last.whole) == ({*keys, new}, True)
    assert "Renamed" in after[keys[2]].name
    versions = {key: item.version for key, item in of_items(account, before).items()}
    assert {key for key in keys if after[key].version != versions[key]} == {keys[1], keys[2]}


def test_a_page_or_cursor_that_expired_begins_a_whole_listing(account):
    """A cursor of another version, or a page that the service no longer has."""
    keys, account.page = fill(account), 2
    first = list_pages(account)[0]
    about = description.read_description(account.connector)
    expired = faults.status(about.streams[0].expired[0])
    parents = (
        "|".join(
            re.sub(r"\{[^}]*\}", "[^/]+", item.list) for item in (*about.parents.values(), *about.field_names.values())
        )
        or "(?!)"
    )
    faults_in_order = [expired, *[None] * getattr(account, "parent_requests", 0)]

    def expire(request):
        is_of_parents = re.search(f"({parents})$", request)
        return faults_in_order.pop() if faults_in_order and not is_of_parents else None

    account.fault = expire
    for cursor in (first.cursor, '{"old": 1}', first.cursor.replace('"stream": 0', '"stream": 9')):
        items, last = list_items(account, cursor)
        assert (set(of_items(account, items)), last.whole) == (set(keys), True)
    assert not faults_in_order


def test_a_deleted_item_is_confirmed_and_half_a_listing_removes_nothing(account, tmp_path):
    keys = fill(account)
    before, _ = list_items(account)
    account.delete(keys[4])
    after, last = list_items(account)
    assert (set(of_items(account, after)), last.whole) == (set(keys[:4]), True)
    connector, tokens = open_connector(account)
    assert [connector.is_deleted(tokens, account.locate(key)) for key in (keys[4], keys[0])] == [True, False]
    with pytest.raises(Skippable):
        connector.fetch(tokens, before[account.locate(keys[4])], tmp_path / "x")
    if account.connector in {"WORDPRESS", "ZENDESK", "JIRA", "CONFLUENCE"}:
        account.fault = lambda _request: lambda handler: handler.reply(200, {"error": "maintenance"}) or True
        with pytest.raises(Retryable):
            connector.is_deleted(tokens, account.locate(keys[0]))
    account.page, requests = 2, []

    def fault(request):
        requests.append(request)
        return faults.status(502) if len(requests) > 1 else None

    account.fault = fault
    seen = []
    with pytest.raises(Retryable):
        seen.extend(connector.iter_changes(tokens, None))
    assert not any(page.whole for page in seen)


def find_stream(account):
    """Return the description of the stream that holds what was put."""
    about = description.read_description(account.connector)
    site = service.open_site(account.connector, about, account.config["url"], account.settings)
    external_id = account.locate(next(iter(getattr(account, "items", None) or account.issues)))
    streams = [stream for stream in about.streams if stream.edition in {"", site.edition.name}]
    return next(stream for stream in streams if stream.parse_id(external_id, site.location))


@pytest.mark.parametrize("code", nightly_except([404, 410], 404))
@pytest.mark.parametrize("name", ["exists", "content"])
def test_a_retired_endpoint_deletes_nothing_and_names_the_reason(account, tmp_path, code, name):
    """The lists still answer; the address of each item answers as that of a deleted one."""
    keys = fill(account)
    items, _ = list_items(account)
    account.delete(keys[4])
    stream, (connector, tokens) = find_stream(account), open_connector(account)
    if re.split(r"[?\n]", getattr(stream, name).get)[0] == re.split(r"[?\n]", stream.list)[0]:
        return  # the list would fail, too
    account.fault = faults.retire(getattr(stream, name).get, but=stream.list, code=code)
    kept, deleted = items[account.locate(keys[0])], items[account.locate(keys[4])]

    def read(item):
        if name == "exists":
            connector.is_deleted(tokens, item.external_id)
        else:
            connector.fetch(tokens, item, tmp_path / "x")

    for item in (kept, deleted):
        with pytest.raises(Fatal, match=rf"{code}: This deprecated endpoint has been removed\."):
            read(item)
    account.fault = lambda _request: None
    connector.answers.forget(tokens.connection_id)
    assert connector.is_deleted(tokens, deleted.external_id)
    assert connector.fetch(tokens, kept, tmp_path / "x")


def test_blog_posts_of_confluence_cloud_are_read_and_confirmed_as_pages_are(tmp_path):
    with described_services.serving("CONFLUENCE") as account:
        page, post, deleted = fill(account, 3)
        account.posts = {post, deleted}
        items, _ = list_items(account)
        assert {account.locate(key): items[account.locate(key)].properties["path"] for key in (page, post)} == {
            account.locate(page): "pages/Title 0",
            account.locate(post): "blogposts/Title 1",
        }
        connector, tokens = open_connector(account)
        text = connector.fetch(tokens, items[account.locate(post)], tmp_path / "post").path.read_text()
        assert "text of 1" in text
        account.delete(deleted)
        assert [connector.is_deleted(tokens, account.locate(key)) for key in (page, post, deleted)] == [
            False,
            False,
            True,
        ]


def test_a_rate_limit_is_waited_for_and_a_refusal_is_not(account, monkeypatch):
    monkeypatch.setattr(service, "BUSY_SECONDS", 0.01)
    keys = fill(account)
    limits = [faults.status(429, Retry_After="0"), faults.status(429)]
    if account.connector == "SLACK":
        limits.append(lambda handler: handler.reply(200, {"ok": False, "error": "ratelimited"}) or True)
    account.fault = lambda _request: limits.pop() if limits else None
    assert set(of_items(account, list_items(account)[0])) == set(keys)
    account.fault = lambda _request: faults.status(403)
    account.requests.clear()
    with pytest.raises(Fatal, match="403"):
        list_pages(account)
    assert len(account.requests) == 1


def test_a_circle_ends_and_a_refused_credential_is_not_shown(account, capsys, caplog):
    fill(account)
    if hasattr(account, "circular"):
        account.page, account.circular = 2, True
        with pytest.raises(Retryable, match="circle"):
            list_pages(account)
        assert len(account.requests) <= 10
        account.circular = False
    connector, tokens = open_connector(account)
    account.expire()
    with pytest.raises(Fatal) as refused:
        list(connector.iter_changes(tokens, None))
    assert tokens.failed == str(refused.value)
    written = capsys.readouterr()
    for text in (tokens.failed, repr(connector), written.out, written.err, caplog.text):
        assert "canary" not in text
        assert "SECRET" not in text
