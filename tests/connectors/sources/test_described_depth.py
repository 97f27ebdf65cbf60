"""GitLab, Zendesk, Discourse and WordPress as people read them: people, labels, comments; deletions at once."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from connectors.sources.described.description import read_description
from retrieval.settings import PROJECT_ROOT
from retrieval.sources import DESCRIBED_SOURCES
from tests.connectors.sources.reading import list_items, list_pages, open_connector, texts
from tests.nightly import nightly_except
from tests.standins import described_services, github

ONE = pytest.mark.parametrize


@ONE("account", ["GITLAB"], indirect=True)
def test_issues_and_merge_requests_of_gitlab_have_people_labels_and_notes(account, tmp_path):
    key = account.put("Owls", "They hunt at night.")
    account.fields[key] = {"labels": ["birds"], "assignees": [{"name": "Bob Lund"}], "milestone": {"title": "1.0"}}
    about = {"author": {"name": "Bob Lund"}, "created_at": "2026-05-14T00:00:00Z", "system": False}
    account.notes[key] = [
        {**about, "body": "Where?"},
        {**about, "body": "SECRET", "internal": True},
        {**about, "body": "closed", "system": True},
    ]
    account.requests_of_merge["3"] = {
        "iid": 3,
        "title": "Add owls",
        "description": "As asked.",
        "source_branch": "owls",
        "state": "merged",
        "author": {"name": "Ada Berg"},
        "reviewers": [{"name": "Bob Lund"}],
        "user_notes_count": 0,
        "created_at": "2026-05-14T00:00:00Z",
        "updated_at": "2026-05-14T00:00:00Z",
    }
    read = texts(account, tmp_path)
    issue, request = read[account.locate(key)], read[f"{account.base}/acme/handbook/-/merge_requests/3"]
    assert "Issue #1 of acme/handbook, opened, by Ada Berg on" in issue
    assert "Assignees: Bob Lund\n\nLabels: birds\n\nMilestone: 1.0\n\nThey hunt at night." in issue
    assert issue.endswith("## Bob Lund, 14 May 2026\n\nWhere?")
    assert request == (
        "# Add owls\n\nMerge request !3 of acme/handbook, merged, by Ada Berg on 14 May 2026\n\n"
        "Reviewers: Bob Lund\n\nAs asked."
    )


@ONE("account", ["GITLAB_GROUP"], indirect=True)
def test_a_group_of_gitlab_is_asked_only_for_what_changed(account, tmp_path):
    for path in ("acme/handbook", "acme/team/search"):
        project = account.add(path)
        for number in range(3):
            project.put(f"Issue {number}", f"text of {path} {number}")
    read = texts(account, tmp_path)
    assert read[f"{account.base}/acme/team/search/-/issues/2"].endswith("text of acme/team/search 1")
    assert len(read) == 2 * 5
    _, last = list_items(account)
    account.requests.clear()
    assert list_items(account, last.cursor)[0] == {}
    assert len(account.requests) == 4
    account.projects["acme/team/search"].change("2", "other")
    account.active["acme/handbook"] = datetime.now(UTC)
    items, last = list_items(account, last.cursor)
    assert {name.partition("/-/")[2] for name in items} == {"issues/2", "wikis/a/b", "blob/HEAD/docs/a.md"}
    assert re.fullmatch(last.whole_pattern, f"{account.base}/acme/handbook/-/blob/HEAD/other.md")
    assert not re.fullmatch(last.whole_pattern, f"{account.base}/acme/team/search/-/blob/HEAD/other.md")


@ONE("account", ["ZENDESK_TICKETS"], indirect=True)
def test_internal_notes_of_a_ticket_are_a_document_of_their_own(account, tmp_path):
    key = account.put("Owls", "They hunt at night.")
    account.comments[key] = [{"public": True, "html_body": "<p>Where?</p>"}]
    read = texts(account, tmp_path)
    public, internal = read[account.locate(key)], read[f"{account.locate(key)}?notes=internal"]
    assert "<h2>Ada Berg, 14 May 2026 10:32</h2><p>They hunt at night.</p>" in public
    assert "Status: open<br>" in public
    assert ("<p>Where?</p>" in public, "SECRET" in public) == (True, False)
    assert "SECRET note" in internal
    assert "Where?" not in internal


@ONE("account", ["WORDPRESS"], indirect=True)
def test_a_post_of_wordpress_has_author_categories_tags_and_comments(account, tmp_path):
    keys = [account.put(f"Owls {number}", "They hunt at night.") for number in range(3)]
    account.requests.clear()
    text = texts(account, tmp_path)[account.locate(keys[0])]
    assert "Author: Ada Berg<br> Published: " in " ".join(text.split())
    assert "Categories: News<br> Tags: owls, night<br>" in " ".join(text.split())
    assert not [request for request in account.requests if re.search(r"posts/\\d", request)]
    before, last = list_items(account)
    _, last = list_items(account, last.cursor)
    account.put_comment(keys[1], "Bob", "Really?")
    items, last = list_items(account, last.cursor)
    assert items[account.locate(keys[1])].version != before[account.locate(keys[1])].version
    connector, tokens = open_connector(account)
    read = connector.fetch(tokens, items[account.locate(keys[1])], tmp_path / "a").path.read_text()
    assert re.search("<h2>Bob, [^<]*</h2><p>Really\\?</p>", read)


@ONE(
    "account",
    [
        "GITLAB",
        "ZENDESK",
        "ZENDESK_TICKETS",
        "DISCOURSE",
        "WORDPRESS",
        "CONFLUENCE",
        "JIRA",
        "SERVICENOW",
        "HUBSPOT",
        "ASANA",
        "CLICKUP",
        "CLICKUP_WORKSPACE",
    ],
    indirect=True,
)
def test_a_deleted_item_makes_the_next_listing_a_whole_one(account):
    keys = [account.put(f"Title {number}", "text") for number in range(5)]
    _, last = list_items(account)
    new = account.put("new", "x")
    account.items[new].created = account.items[new].updated = datetime.now(UTC)
    items, last = list_items(account, last.cursor)
    assert not last.whole
    account.delete(keys[1])
    items, last = list_items(account, last.cursor)
    assert last.whole
    assert account.locate(keys[1]) not in items
    _, last = list_items(account, last.cursor)
    assert not last.whole


# Stand-ins of a whole account, where the stand-in of the service's name is a part of one.
WHOLE_ACCOUNTS = {
    "AIRTABLE": "AIRTABLE_ACCOUNT",
    "ASANA": "ASANA_WORKSPACE",
    "AZURE_DEVOPS": "AZURE_DEVOPS_ORGANIZATION",
    "CLICKUP": "CLICKUP_WORKSPACE",
    "CONFLUENCE": "CONFLUENCE_SITE",
    "JIRA": "JIRA_SITE",
    "MONDAY": "MONDAY_ACCOUNT",
}


@pytest.mark.parametrize("name", nightly_except(DESCRIBED_SOURCES, "GITHUB", "SLACK"))
def test_a_thousand_items_take_the_documented_requests(name):
    standin = github.serving() if name == "GITHUB" else described_services.serving(WHOLE_ACCOUNTS.get(name, name))
    with standin as account:
        account.page, account.has_comments = 1000, False
        for number in range(1000):
            if name == "SLACK":
                account.post(f"Message {number}", f"{1770000000 + number * 3600}.000100")
            else:
                account.put(f"Title {number}", f"text of {number}")
        account.requests.clear()
        pages = list_pages(account)
        fetched_later = sum(item.content is None for page in pages for item in page.items)
        first = len(account.requests) + fetched_later
        list_pages(account, pages[-1].cursor)
        account.requests.clear()
        list_pages(account, pages[-1].cursor)
        unchanged = len(account.requests)
    rows = (PROJECT_ROOT / "docs" / "connectors.md").read_text(encoding="utf-8").splitlines()
    (row,) = [row for row in rows if row.startswith(f"| {read_description(name).title} |") and row.count("|") > 6]
    assert row.endswith(f"| {first} / {unchanged} |")
