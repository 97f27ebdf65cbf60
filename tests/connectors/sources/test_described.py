"""Described services against their stand-ins: listings, cursors, content, rate limits and addresses."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime

import httpx
import pytest

from connectors import registry
from connectors.http import responses
from connectors.sources.described import description, service
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.settings import Settings
from retrieval.sync_filter import SyncFilter
from tests.connectors.sources.reading import Tokens, list_items, list_pages, open_connector
from tests.standins import github

SITE = f"https://github.com/{github.REPOSITORY}"


def fill(hub, issues=5):
    for number in range(1, issues + 1):
        hub.put_issue(f"Issue {number}", f"text of issue {number}")
    hub.files = {"README.md": "# Handbook", "docs/ü a#?.md": "Owls hunt at night.", "main.py": "pass"}


def test_everything_is_listed_and_fetched(hub, tmp_path):
    fill(hub)
    hub.page = 2
    items, last = list_items(hub)
    assert last.whole
    assert len(items) == 7
    issue, file = items[f"{SITE}/issues/3"], items[f"{SITE}/blob/HEAD/docs/%C3%BC%20a%23%3F.md"]
    assert (issue.name, issue.properties["path"], issue.properties["owner"]) == ("Issue 3", "issues/3", "octocat")
    assert (file.name, file.properties["path"]) == ("ü a#?.md", "docs/ü a#?.md")
    connector, tokens = open_connector(hub)
    text = connector.fetch(tokens, issue, tmp_path / "a").path.read_text()
    assert re.fullmatch(
        r"# Issue 3\n\nIssue #3 of octo-org/handbook, open, by octocat on \d+ \w+ \d+\n\ntext of issue 3", text
    )
    assert connector.fetch(tokens, file, tmp_path / "b").path.read_text() == "Owls hunt at night."


def test_the_guard_checks_the_host_of_the_url(hub):
    fill(hub)
    hub.config = {**hub.config, "url": f"{hub.base}/{github.REPOSITORY}"}
    default_settings = Settings(_env_file=None)
    with pytest.raises(ValueError, match="RETRIEVAL_FETCH_ALLOW"):
        registry.read_config("GITHUB", hub.config, default_settings)
    allowed = Settings(_env_file=None, fetch_allow="127.0.0.0/8")
    connector = registry.make_connector("GITHUB", {}, allowed)
    tokens = Tokens(hub, allowed)
    external_ids = {item.external_id for page in connector.iter_changes(tokens, None) for item in page.items}
    (client,) = connector.service.clients.values()
    del connector
    assert client.is_closed
    assert len(external_ids) == 7
    assert f"{hub.base}/{github.REPOSITORY}/issues/1" in external_ids
    with pytest.raises(Fatal, match="RETRIEVAL_FETCH_ALLOW"):
        list(registry.make_connector("GITHUB", {}, default_settings).iter_changes(tokens, None))


def test_a_cursor_of_another_address_restarts_the_listing(hub):
    fill(hub)
    _, last = list_items(hub)
    position = json.loads(last.cursor)
    assert (position["url"], position["full"]) == (SITE, True)
    items, last = list_items(
        hub, json.dumps({**position, "url": "https://github.com/octo-org/other", "next": "http://x/"})
    )
    assert (len(items), last.whole) == (7, True)


def test_an_empty_repository_is_listed_and_a_truncated_tree_is_an_error(hub):
    items, last = list_items(hub)
    assert (items, last.whole) == ({}, True)
    fill(hub)
    hub.truncated = True
    with pytest.raises(Fatal):
        list_pages(hub)


@pytest.mark.parametrize("elsewhere", ["{base}/repos/octo-org/handbook/issues?page=2", "http://127.0.0.2:9/issues"])
def test_a_list_with_circular_or_foreign_page_links_ends(hub, elsewhere):
    fill(hub)

    def fault(request):
        if not request.endswith("/issues"):
            return None
        link = {"Link": f'<{elsewhere.format(base=hub.base)}>; rel="next"'}
        return lambda handler: handler.reply(200, [hub.issues[1]], link) or True

    hub.fault = fault
    with pytest.raises(Retryable):
        list_pages(hub)
    assert len(hub.requests) <= 8


def replies(body, **headers):
    return lambda handler: handler.reply(200, body, headers) or True


def test_an_answer_without_the_fields_of_a_document_is_an_error(hub, tmp_path):
    """Keep the document after an error in an answer of 200; replace half an emoji."""
    fill(hub, 1)
    issue = list_items(hub)[0][f"{SITE}/issues/1"]
    connector, tokens = open_connector(hub)
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
def test_an_unusable_config_names_the_field(config, field):
    with pytest.raises(ValueError, match=field) as refused:
        registry.read_config("GITHUB", config, Settings(_env_file=None))
    assert refused.value.args[0] == field


def test_a_too_large_answer_fails_its_item_or_listing_without_a_retry(hub, monkeypatch, tmp_path):
    monkeypatch.setattr(responses, "MAX_BODY_BYTES", 100_000)
    fill(hub, 1)
    issue = list_items(hub)[0][f"{SITE}/issues/1"]
    hub.change_issue(1, body="x" * 100_001)
    hub.requests.clear()
    connector, tokens = open_connector(hub)
    with pytest.raises(Skippable, match="split it") as refused:
        connector.fetch(tokens, issue, tmp_path / "a")
    assert "larger than 0.1 MiB" in str(refused.value)
    assert not connector.is_deleted(tokens, issue.external_id)
    with pytest.raises(Fatal, match=r'exclude.*"issues"'):
        list(connector.iter_changes(tokens, None))
    assert len(hub.requests) == 3


@pytest.mark.parametrize("number", [None, [], ""])
def test_an_item_without_an_id_is_reported_as_an_error(hub, number):
    fill(hub, 3)
    hub.issues[2]["number"] = number
    items, last = list_items(hub)
    assert last.whole
    (refused,) = [item for item in items.values() if item.error]
    assert (refused.name, "number" in refused.error, refused.version) == ("Issue 2", True, "")
    assert {f"{SITE}/issues/1", f"{SITE}/issues/3"} < items.keys()
    assert not [name for name in items if name.startswith(f"{SITE}/issues/") and name[-1] not in "13"]


def test_an_excluded_list_is_not_requested(hub):
    fill(hub)
    connector, tokens = open_connector(hub)
    for choice in (SyncFilter(exclude=({"id": "files"},)), SyncFilter(include=({"id": "issues"},))):
        hub.requests.clear()
        filtered = connector.with_choice(choice)
        items = {item.external_id for page in filtered.iter_changes(tokens, None) for item in page.items}
        assert len(items) == 5
        assert not [request for request in hub.requests if "trees" in request]
        assert filtered.is_deleted(tokens, f"{SITE}/blob/HEAD/README.md")
    by_path = connector.with_choice(SyncFilter(include=({"path": "docs/**"}, {"id": "issues"})))
    assert len([item for page in by_path.iter_changes(tokens, None) for item in page.items]) == 7


# Answers at a rate limit, as documented by the vendors, and the seconds to wait.
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


@pytest.mark.parametrize(("name", "status", "headers", "body", "seconds"), QUOTAS)
def test_a_rate_limit_is_recognized_as_its_vendor_documents_it(name, status, headers, body, seconds):
    end = time.time() + 90
    names = {"NOW+90": str(int(end)), "ISO+90": datetime.fromtimestamp(end, UTC).isoformat()}
    answer = httpx.Response(status, headers={key: names.get(value, value) for key, value in headers.items()}, text=body)
    wait_seconds = service.find_wait(description.read_description(name).rate, answer)
    assert wait_seconds == (None if seconds is None else pytest.approx(seconds, abs=5))


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("JIRA", "https://acme.atlassian.net/wiki/spaces/HAND"),
        ("SLACK", "https://app.slack.com/signin"),
        ("GITHUB", "https://github.com"),
        ("ZENDESK", "https://zendesk.example.com/hc"),
    ],
)
def test_an_address_of_another_service_is_refused(name, address):
    names = {name for edition in description.read_description(name).editions for name in edition.credentials}
    config = {"url": address, "credentials": dict.fromkeys(names, "x")}
    with pytest.raises(ValueError, match="must be the address of what to read, such as https://"):
        registry.read_config(name, config, Settings(_env_file=None))
