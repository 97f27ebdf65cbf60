"""Described services against their stand-ins: listing, resuming, changes, content, deletions, trouble."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime

import httpx
import pytest

from connectors import registry
from connectors.http import responses, retries
from connectors.sources.described import description, service
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.settings import Settings
from retrieval.sync_filter import SyncFilter
from tests.standins import github

SITE = f"https://github.com/{github.REPOSITORY}"


@pytest.fixture
def hub(monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.01)
    with github.serving() as account:
        yield account


class Tokens:
    """A `TokenSource` of a connection with a config."""

    def __init__(self, account, settings=None):
        self.connection_id = f"conn_{id(account)}"
        self.failed = ""
        self._token = registry.read_config(account.connector, account.config, settings or account.settings).access_token

    def token(self):
        return self._token

    def renew(self, refused):
        return refused

    def end_authorization(self, reason, _refused):
        self.failed = reason
        return Fatal(reason)


def opened(account):
    return registry.make_connector(account.connector, {}, account.settings), Tokens(account)


def pages(account, cursor=None):
    connector, tokens = opened(account)
    return list(connector.iter_changes(tokens, cursor))


def listed(account, cursor=None):
    """The items by their external id, and the last page."""
    found = pages(account, cursor)
    assert [page.done for page in found] == [False] * (len(found) - 1) + [True]
    return {item.external_id: item for page in found for item in page.items}, found[-1]


def fill(hub, issues=5):
    for number in range(1, issues + 1):
        hub.put_issue(f"Issue {number}", f"text of issue {number}")
    hub.files = {"README.md": "# Handbook", "docs/ü a#?.md": "Owls hunt at night.", "main.py": "pass"}


def test_everything_is_listed_and_fetched(hub, tmp_path):
    fill(hub)
    hub.page = 2
    items, last = listed(hub)
    assert last.whole
    assert len(items) == 7
    issue, file = items[f"{SITE}/issues/3"], items[f"{SITE}/blob/HEAD/docs/%C3%BC%20a%23%3F.md"]
    assert (issue.name, issue.properties["path"], issue.properties["owner"]) == ("Issue 3", "issues/3", "octocat")
    assert (file.name, file.properties["path"]) == ("ü a#?.md", "docs/ü a#?.md")
    connector, tokens = opened(hub)
    text = connector.fetch(tokens, issue, tmp_path / "a").path.read_text()
    assert re.fullmatch(
        r"# Issue 3\n\nIssue #3 of octo-org/handbook, open, by octocat on \d+ \w+ \d+\n\ntext of issue 3", text
    )
    assert connector.fetch(tokens, file, tmp_path / "b").path.read_text() == "Owls hunt at night."


def test_comments_follow_the_text_of_an_issue(hub, tmp_path):
    fill(hub, 1)
    hub.page = 1
    hub.put_comment(1, "mona", "First.")
    hub.put_comment(1, "hubot", "Second.")
    connector, tokens = opened(hub)
    issue = listed(hub)[0][f"{SITE}/issues/1"]
    text = connector.fetch(tokens, issue, tmp_path / "a").path.read_text()
    assert text.endswith("text of issue 1\n\n## mona, 14 May 2026\n\nFirst.\n\n## hubot, 14 May 2026\n\nSecond.")


def test_a_host_that_the_url_names_is_dialled_by_the_guard(hub):
    fill(hub)
    hub.config = {**hub.config, "url": f"{hub.base}/{github.REPOSITORY}"}
    plain = Settings(_env_file=None)
    with pytest.raises(ValueError, match="RETRIEVAL_FETCH_ALLOW"):
        registry.read_config("GITHUB", hub.config, plain)
    allowed = Settings(_env_file=None, fetch_allow="127.0.0.0/8")
    connector = registry.make_connector("GITHUB", {}, allowed)
    tokens = Tokens(hub, allowed)
    found = {item.external_id for page in connector.iter_changes(tokens, None) for item in page.items}
    (client,) = connector.service.clients.values()
    del connector
    assert client.is_closed
    assert len(found) == 7
    assert f"{hub.base}/{github.REPOSITORY}/issues/1" in found
    with pytest.raises(Fatal, match="RETRIEVAL_FETCH_ALLOW"):
        list(registry.make_connector("GITHUB", {}, plain).iter_changes(tokens, None))


def test_a_cursor_of_another_address_begins_anew(hub):
    fill(hub)
    _, last = listed(hub)
    position = json.loads(last.cursor)
    assert (position["url"], position["full"]) == (SITE, True)
    items, last = listed(hub, json.dumps({**position, "url": "https://github.com/octo-org/other", "next": "http://x/"}))
    assert (len(items), last.whole) == (7, True)


def test_an_empty_repository_is_listed_whole_and_a_cut_tree_is_an_error(hub):
    items, last = listed(hub)
    assert (items, last.whole) == ({}, True)
    fill(hub)
    hub.truncated = True
    with pytest.raises(Fatal):
        pages(hub)


@pytest.mark.parametrize("elsewhere", ["{base}/repos/octo-org/handbook/issues?page=2", "http://127.0.0.2:9/issues"])
def test_a_list_that_leads_in_a_circle_or_elsewhere_ends(hub, elsewhere):
    fill(hub)

    def fault(request):
        if not request.endswith("/issues"):
            return None
        link = {"Link": f'<{elsewhere.format(base=hub.base)}>; rel="next"'}
        return lambda handler: handler.reply(200, [hub.issues[1]], link) or True

    hub.fault = fault
    with pytest.raises(Retryable):
        pages(hub)
    assert len(hub.requests) <= 8


def replies(body, **headers):
    return lambda handler: handler.reply(200, body, headers) or True


def test_an_answer_without_the_fields_of_a_document_is_none(hub, tmp_path):
    """An error in an answer of 200 neither empties a document nor removes it; half an emoji is replaced."""
    fill(hub, 1)
    issue = listed(hub)[0][f"{SITE}/issues/1"]
    connector, tokens = opened(hub)
    hub.fault = lambda _request: replies({"message": "maintenance"})
    with pytest.raises(Retryable, match="cannot be read"):
        connector.fetch(tokens, issue, tmp_path / "a")
    hub.fault = lambda _request: replies({"title": "Owl \ud83d", "body": None})
    assert connector.fetch(tokens, issue, tmp_path / "a").path.read_text().startswith("# Owl \ufffd\n")


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"url": "https://github.com/"}, "url"),
        ({"url": "http://127.0.0.1/octo-org/handbook", "credentials": {"token": "t"}}, "url"),
        ({"url": "https://169.254.169.254/octo-org/handbook", "credentials": {"token": "t"}}, "url"),
        ({"url": "https://user:t@git.example.com/octo-org/handbook"}, "url"),
        ({"url": SITE}, "credentials"),
        ({"url": SITE, "credentials": {"token": "t", "accessKeyId": "k"}}, "credentials"),
        ({"url": SITE, "credentials": {"token": "t"}, "region": "r"}, "region"),
    ],
)
def test_a_config_that_cannot_be_used_names_the_field(config, field):
    with pytest.raises(ValueError, match=field) as refused:
        registry.read_config("GITHUB", config, Settings(_env_file=None))
    assert refused.value.args[0] == field


def test_an_answer_that_is_too_large_fails_its_item_or_listing_and_is_not_tried_again(hub, monkeypatch, tmp_path):
    monkeypatch.setattr(responses, "MAX_BODY_BYTES", 100_000)
    fill(hub, 1)
    issue = listed(hub)[0][f"{SITE}/issues/1"]
    hub.change_issue(1, body="x" * 100_001)
    hub.requests.clear()
    connector, tokens = opened(hub)
    with pytest.raises(Skippable, match="split it") as refused:
        connector.fetch(tokens, issue, tmp_path / "a")
    assert "larger than 0.1 MiB" in str(refused.value)
    assert not connector.is_deleted(tokens, issue.external_id)
    with pytest.raises(Fatal, match=r'exclude.*"issues"'):
        list(connector.iter_changes(tokens, None))
    assert len(hub.requests) == 3


@pytest.mark.parametrize("number", [None, [], ""])
def test_an_item_without_an_id_is_reported_and_no_document(hub, number):
    fill(hub, 3)
    hub.issues[2]["number"] = number
    items, last = listed(hub)
    assert last.whole
    (refused,) = [item for item in items.values() if item.error]
    assert (refused.name, "number" in refused.error, refused.version) == ("Issue 2", True, "")
    assert {f"{SITE}/issues/1", f"{SITE}/issues/3"} < items.keys()
    assert not [name for name in items if name.startswith(f"{SITE}/issues/") and name[-1] not in "13"]


def test_a_list_that_is_left_out_is_not_asked_for(hub):
    fill(hub)
    connector, tokens = opened(hub)
    for choice in (SyncFilter(exclude=({"id": "files"},)), SyncFilter(include=({"id": "issues"},))):
        hub.requests.clear()
        chosen = connector.with_choice(choice)
        items = {item.external_id for page in chosen.iter_changes(tokens, None) for item in page.items}
        assert len(items) == 5
        assert not [request for request in hub.requests if "trees" in request]
        assert chosen.is_deleted(tokens, f"{SITE}/blob/HEAD/README.md")
    by_path = connector.with_choice(SyncFilter(include=({"path": "docs/**"}, {"id": "issues"})))
    assert len([item for page in by_path.iter_changes(tokens, None) for item in page.items]) == 7


QUOTAS = [
    ("GITHUB", 403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "NOW+90"}, "{}", 90),
    ("GITHUB", 403, {"retry-after": "7"}, "{}", 7),
    ("GITHUB", 403, {}, '{"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}', 60),
    ("GITHUB", 403, {"x-ratelimit-remaining": "55"}, '{"message": "Resource not accessible by token"}', None),
    ("GITLAB", 429, {"retry-after": "30", "ratelimit-reset": "NOW+90"}, "Retry later", 30),
    ("GITLAB", 429, {"ratelimit-reset": "NOW+90"}, "Retry later", 90),
    ("GITLAB", 429, {}, "Retry later", 60),
    ("JIRA", 429, {"retry-after": "5", "x-ratelimit-reset": "2124-01-01T00:00Z"}, "{}", 5),
    ("JIRA", 429, {"x-ratelimit-reset": "ISO+90"}, "{}", 90),
    ("JIRA", 503, {}, "{}", None),
    ("CONFLUENCE", 429, {"retry-after": "5"}, "{}", 5),
    ("ZENDESK", 429, {"retry-after": "93"}, "Number of allowed API requests per minute exceeded", 93),
    ("ZENDESK", 429, {"ratelimit-reset": "41"}, "{}", 41),
    ("DISCOURSE", 429, {}, '{"error_type": "rate_limit", "extras": {"wait_seconds": 29, "time_left": "29 s"}}', 29),
    ("DISCOURSE", 429, {"retry-after": "8"}, "Slow down, too many requests from this IP address", 8),
    ("SLACK", 429, {"retry-after": "30"}, '{"ok": false, "error": "ratelimited"}', 30),
    ("SLACK", 429, {}, '{"ok": false, "error": "ratelimited"}', 60),
]
"""Answers of the pages on rate limits that the descriptions name, and the seconds to wait."""


@pytest.mark.parametrize(("name", "status", "headers", "body", "seconds"), QUOTAS)
def test_a_rate_limit_is_recognized_as_its_vendor_documents_it(name, status, headers, body, seconds):
    end = time.time() + 90
    names = {"NOW+90": str(int(end)), "ISO+90": datetime.fromtimestamp(end, UTC).isoformat()}
    answer = httpx.Response(status, headers={key: names.get(value, value) for key, value in headers.items()}, text=body)
    waited = service.find_wait(description.read_description(name).rate, answer)
    assert waited == (None if seconds is None else pytest.approx(seconds, abs=5))


ADDRESSES = """
GITHUB https://github.com/octo-org/handbook /issues/5#issuecomment-1
GITHUB https://github.com/octo-org/handbook /blob/main/docs/a.md?plain=1
GITHUB https://github.com/octo-org ?tab=repositories
GITHUB https://github.com/orgs/octo-org /repositories
GITLAB https://gitlab.com/acme/team/handbook /-/issues/5
GITLAB https://git.example.com/acme/handbook /-/tree/main
JIRA https://acme.atlassian.net/browse/HAND -12?focusedId=1
JIRA https://acme.atlassian.net/jira/software/c/projects/HAND /boards/7
JIRA https://acme.atlassian.net /jira/your-work
JIRA https://acme.atlassian.net /issues/?jql=x
JIRA https://jira.example.com/browse/HAND -1
JIRA https://example.com/jira /secure/Dashboard.jspa
CONFLUENCE https://acme.atlassian.net/wiki/spaces/HAND /pages/1/Owls
CONFLUENCE https://acme.atlassian.net/wiki /home
CONFLUENCE https://wiki.example.com/display/HAND /Owls
CONFLUENCE https://wiki.example.com /pages/viewpage.action?pageId=1
SLACK https://acme.slack.com/archives/C0123456789 /p1770000000000100
SLACK https://acme.slack.com/messages/C0123456789 /
SLACK https://acme.slack.com /apps/manage
ZENDESK https://acme.zendesk.com/hc/en-us /articles/360-Owls
ZENDESK https://acme.zendesk.com/agent/tickets /7
ZENDESK https://acme.zendesk.com /admin/home
GITLAB https://gitlab.com/groups/acme/team /-/issues
DISCOURSE https://forum.example.com /t/owls/5/3
DISCOURSE https://example.com/forum/c/support/7 /l/latest
WORDPRESS https://blog.example.com /2026/05/owls/
WORDPRESS https://example.com/blog /wp-admin/edit.php
FRESHDESK https://acme.freshdesk.com/a/tickets /5
FRESHDESK https://acme.freshdesk.com /a/dashboard/default
"""
"""A service, the part of an address that is understood, and the rest."""


@pytest.mark.parametrize(("name", "understood", "rest"), [line.split() for line in ADDRESSES.strip().splitlines()])
def test_an_address_of_a_browser_is_understood_by_its_beginning(name, understood, rest):
    address = understood + rest
    about = description.read_description(name)
    edition, location = about.find_edition(address.partition("#")[0].rstrip("/"))
    assert (location["url"], about.find_edition(understood)[0]) == (understood, edition)
    if "example.com" in address:
        return  # has no address
    config = {"url": address, "credentials": dict.fromkeys(edition.credentials, "x")}
    tokens = registry.read_config(name, config, Settings(_env_file=None))
    assert (tokens.account, json.loads(tokens.access_token)["url"]) == (understood, understood)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("JIRA", "https://acme.atlassian.net/wiki/spaces/HAND"),
        ("SLACK", "https://app.slack.com/client/T1/C1"),
        ("GITHUB", "https://github.com"),
        ("ZENDESK", "https://zendesk.example.com/hc"),
    ],
)
def test_an_address_of_another_service_is_refused(name, address):
    names = {name for edition in description.read_description(name).editions for name in edition.credentials}
    config = {"url": address, "credentials": dict.fromkeys(names, "x")}
    with pytest.raises(ValueError, match="must be the address of what to read, such as https://"):
        registry.read_config(name, config, Settings(_env_file=None))
