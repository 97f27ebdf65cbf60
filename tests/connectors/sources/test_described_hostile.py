"""Described services that answer wrongly or with hostile values: nothing is removed, and no text takes long."""

from __future__ import annotations

import time

import httpx
import pytest

from connectors import registry
from connectors.http import retries
from connectors.sources.described import custom, description, syntax
from connectors.sources.described.filters import adf, chat, storage
from connectors.sources.described.permission_layers import Paging
from connectors.sources.described.service import Service, open_site
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.ports import SourceItem
from retrieval.settings import Settings
from retrieval.sources import DESCRIBED_SOURCES
from retrieval.sync_filter import SyncFilter
from tests.connectors.sources.reading import Tokens, list_items, list_pages, open_connector
from tests.connectors.sources.test_described_custom import NOTES
from tests.standins import described_services
from tests.standins.slack import Channel, days_ago


def serve(name):
    return pytest.mark.parametrize("account", [name], indirect=True)


@serve("SLACK")
def test_messages_stay_when_the_list_of_channels_names_none(account):
    account.channels["C0ENGINE"] = Channel("eng-search")
    day = account.post("New day", days_ago(2), channel="C0ENGINE")
    thread = account.put("Shall we?", "Yes.")
    ids = list(list_items(account)[0])
    assert any(day.partition(".")[0] in list_items(account)[0][name].properties["url"] for name in ids)
    list_channels, account.list_channels = account.list_channels, lambda _query: {"channels": []}
    items, last = list_items(account)
    assert (items, last.whole) == ({}, True)
    connector, tokens = open_connector(account)
    assert [connector.is_deleted(tokens, name) for name in ids] == [False] * len(ids)
    account.delete(thread)
    assert connector.is_deleted(tokens, account.locate(thread))
    account.list_channels = list_channels
    list_items(account)
    chosen = connector.with_choice(SyncFilter(exclude=({"path": "eng-search"},)))
    assert {chosen.is_deleted(tokens, name) for name in ids if "C0ENGINE" in name} == {True}


@serve("GITLAB_GROUP")
def test_issues_of_a_project_are_deleted_only_when_the_service_does_not_find_them(account):
    for path in ("acme/handbook", "acme/search"):
        account.add(path).put("Owls", "They hunt at night.")
    list_items(account)
    projects = account.projects
    account.listed_projects = {"acme/search"}
    list_items(account)
    connector, tokens = open_connector(account)
    issue = f"{account.base}/acme/handbook/-/issues/1"
    assert not connector.is_deleted(tokens, issue)
    account.fault = lambda request: redirect if "acme%2Fhandbook" in request else None
    assert connector.is_deleted(tokens, issue)
    account.fault = lambda _request: None
    del projects["acme/handbook"]
    assert connector.is_deleted(tokens, issue)


def redirect(handler):
    handler.reply(301, {"message": "Moved"}, {"Location": "/api/v4/projects/7/issues/1"})
    return True


@serve("GITLAB_GROUP")
def test_changes_are_listed_after_a_crash_within_the_list_of_a_new_project(account):
    old = account.add("acme/handbook")
    old.put("Owls", "They hunt at night.")
    _, last = list_items(account)
    new = account.add("acme/added")
    for number in range(4):
        new.put(f"Issue {number}", "text")
    old.change("1", "They sleep by day.")
    account.page = 2
    expected = set(list_items(account, last.cursor)[0])
    assert f"{account.base}/acme/handbook/-/issues/1" in expected
    cursors = [last.cursor, *(page.cursor for page in list_pages(account, last.cursor))][:-1]
    for number in range(1, len(cursors)):
        before = list_pages(account, last.cursor)[:number]
        items = {item.external_id for page in before for item in page.items}
        items |= set(list_items(account, before[-1].cursor)[0])
        assert items == expected


@pytest.mark.parametrize("name", ["JIRA", "CONFLUENCE"])
def test_an_expired_token_is_refused_although_lists_answer_anonymously(name):
    """https://support.atlassian.com/jira/kb/jira-cloud-jql-search-rest-api-returns-200-ok-without-api-token/"""
    with described_services.serving(name) as account:
        key = account.put("Owls", "They hunt at night.")
        list_items(account)
        account.fault = lambda _request: answer_anonymously
        connector, tokens = open_connector(account)
        with pytest.raises(Fatal):
            list(connector.iter_changes(tokens, None))
        assert tokens.failed
        with pytest.raises(Fatal):
            connector.is_deleted(tokens, account.locate(key))


def answer_anonymously(handler):
    is_list = "search" in handler.path
    headers = {"X-Seraph-LoginReason": "AUTHENTICATED_FAILED"}
    empty = {"issues": [], "results": [], "total": 0, "count": 0, "totalSize": 0, "isLast": True}
    handler.reply(200 if is_list else 404, empty if is_list else {}, headers)
    return True


@pytest.mark.parametrize("text", ["<![CDATA[" * 100_000, "&a" * 300_000, "<a" * 100_000])
def test_markup_of_a_page_is_read_in_linear_time(text):
    began = time.monotonic()
    storage.convert_storage(text, lambda _kind, key: key)
    assert time.monotonic() - began < 4


CIRCLE = """
parents:
  boards: {list: /boards, fields: {board: id}, path: x, parents: teams}
  teams: {list: /teams, fields: {team: id}, path: x, parents: boards}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[^/?#]+)/(?P<notebook>", "[^/?#]+/(?P<notebook>"),
        ("    fields: {id: id}", "    fields: {id: id}\n    parents: boards"),
        ("    fields: {id: id}", "    fields: {id: id}\n    keep: {kind: '['}"),
        ("{{ title }}: {{ text }}", "{{ title }: {{ text }}"),
        ("item_name: title", "item_nam: title"),
        ("/notes/{id}", "/notes/{key}"),
        ("https://notes.example.com/handbook", "https://notes.example.com"),
        ("{{ title }}: {{ text }}", "{{ title | colour }}"),
        ("item_name: title", "item_name: 'title | | lower'"),
        ("    fields: {id: id}", "    fields: {id: id}\n    within: boards"),
        ("streams:", "    oauth2: {token_url: 'https://{tenant}.example.com/token'}\nstreams:"),
        ("streams:\n  - name: notes", f"{CIRCLE}streams:\n  - name: notes\n    parents: boards"),
        (
            "      media_type",
            "      attachments: [{each: files, fields: {name: name}, get: '/files/{key}'}]\n      media_type",
        ),
    ],
)
def test_a_malformed_description_is_refused_with_the_problem(old, new, tmp_path):
    assert old in NOTES
    (file := tmp_path / "notes.yaml").write_text(NOTES.replace(old, new, 1))
    with pytest.raises(ValueError, match=r"notes\.yaml: \S"):
        custom.load_description(file)


@pytest.mark.parametrize("name", DESCRIBED_SOURCES)
def test_patterns_and_templates_of_every_description_can_be_read(name):
    syntax.check_syntax(description.read_description(name))


@pytest.mark.parametrize("name", DESCRIBED_SOURCES)
def test_the_next_page_of_a_list_is_at_the_service_itself(name):
    about = description.read_description(name)
    policy = retries.ServicePolicy(about.title, per_minute=60, burst=1)
    settings = Settings(_env_file=None)
    service, site = Service(name, about, settings, policy), open_site(name, about, about.example, settings)
    request = httpx.Request("GET", f"{site.base}/list")
    for link in ("https://evil.example/x", f"{site.base}.evil.example/x", f"{site.base}@evil.example/x"):
        answer = httpx.Response(200, request=request, json={"next": link}, headers={"Link": f'<{link}>; rel="next"'})
        for paging in (Paging(address="next"), Paging(link=True)):
            with pytest.raises(Retryable, match="leads to another address"):
                service.next_page(paging, site, answer, [{}])


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("http://169.254.169.254/latest", "not requested"),
        ("file:///etc/passwd", "not requested"),
        ("http://[", "not requested"),
        ("{base}/unauthorized", "answers 401"),
        ("{base}/moved", "answers 302"),
    ],
)
@serve("CONFLUENCE")
def test_a_download_redirected_to_a_refused_address_fails_only_the_file(account, location, problem, tmp_path):
    account.put("Owls", "They hunt at night.")
    seen = []

    def answer(handler):
        seen.append(dict(handler.headers))
        is_first = "download" in handler.path
        code = 302 if is_first or "moved" in handler.path else 401
        handler.reply(code, {}, {"Location": location.format(base=account.base) if is_first else "/moved"})
        return True

    page = account.locate("1")
    settings = Settings(_env_file=None, endpoints=account.settings.endpoints, fetch_allow="127.0.0.0/8")
    connector, tokens = registry.make_connector("CONFLUENCE", {}, settings), Tokens(account)
    account.fault = lambda _request: answer
    site = page.partition("/pages/")[0]
    item = SourceItem(f"{site}/download/attachments/1/owl.txt?attachment=att1", "owl.txt", "text/plain")
    with pytest.raises(Skippable, match=problem):
        connector.fetch(tokens, item, tmp_path / "owl.txt")
    assert tokens.failed == ""
    assert [bool(headers.get("authorization") or headers.get("Authorization")) for headers in seen[1:]] in ([], [False])


def nest(make, levels=980):
    value = make("owls")
    for _ in range(levels):
        value = make(value)
    return value


@pytest.mark.parametrize(
    ("read", "make"),
    [
        (adf.read_words, lambda inner: [inner]),
        (adf.read_words, lambda inner: {"name": "owls", "child": inner}),
        (
            lambda value: chat.read_blocks({}, [{"type": "rich_text", "elements": [value]}]),
            lambda inner: {"type": "rich_text_list", "elements": [inner]},
        ),
        (
            lambda value: chat.read_blocks({}, [value]),
            lambda inner: {"type": "table", "rows": [[inner if isinstance(inner, dict) else {"text": inner}]]},
        ),
    ],
)
def test_values_within_values_are_read_to_a_limited_depth(read, make):
    assert isinstance(read(nest(make)), str)
