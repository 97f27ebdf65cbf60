"""GitHub as people read it: people, labels, reviews; an organization, with requests only for what changed."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from retrieval.sync_filter import SyncFilter
from tests.connectors.sources.reading import list_items, open_connector, texts
from tests.standins import github

SITE = "https://github.com/octo-org"


@pytest.fixture
def organization():
    with github.serving_organization() as account:
        for name in ("handbook", "search", "site"):
            repository = account.add(name)
            for number in range(1, 4):
                repository.put_issue(f"Issue {number}", f"text of {name} {number}")
            repository.files = {"README.md": f"# {name}", "docs/notes.txt": "Plain *text*.", "main.py": "pass"}
        yield account


def test_an_issue_and_a_pull_request_have_people_labels_comments_and_reviews(tmp_path):
    with github.serving() as hub:
        hub.put_issue("Owls", "They hunt at night.")
        hub.change_issue(
            1,
            labels=[{"name": "birds"}],
            assignees=[{"login": "mona"}],
            milestone={"title": "1.0"},
            state="closed",
            state_reason="not_planned",
        )
        hub.put_issue("Add owls", None)
        pull = {"url": "https://api.github.com/x", "merged_at": "2026-05-16T00:00:00Z"}
        hub.change_issue(2, pull_request=pull)
        hub.reviews[2] = [
            {"user": {"login": "mona"}, "body": "Good.", "state": "APPROVED", "submitted_at": "2026-05-15T00:00:00Z"},
            {"user": {"login": "mona"}, "body": "", "state": "COMMENTED", "submitted_at": "2026-05-15T00:00:00Z"},
        ]
        hub.review_comments[2] = [
            {"user": {"login": "hubot"}, "body": "Rename it.", "path": "owls.py", "created_at": "2026-05-15T00:00:00Z"}
        ]
        read = texts(hub, tmp_path)
        issue, pull_request = (read[f"{SITE}/handbook/issues/{number}"] for number in (1, 2))
        assert "Issue #1 of octo-org/handbook, closed as not planned, by octocat on" in issue
        assert "Assignees: mona\n\nLabels: birds\n\nMilestone: 1.0\n\nThey hunt at night." in issue
        assert "Pull request #2 of octo-org/handbook, merged, by octocat on" in pull_request
        assert pull_request.endswith(
            "## Review by mona, 15 May 2026: approved\n\nGood.\n\n## hubot on `owls.py`, 15 May 2026\n\nRename it."
        )


def test_a_deleted_issue_makes_the_next_listing_a_whole_one():
    with github.serving() as hub:
        for number in range(3):
            hub.put_issue(f"Issue {number}", "text")
        _, last = list_items(hub)
        del hub.issues[2]
        items, last = list_items(hub, last.cursor)
        assert (len(items), last.whole) == (2, True)


def test_an_organization_is_listed_and_asked_only_for_what_changed(organization, tmp_path):
    read = texts(organization, tmp_path)
    assert len(read) == 3 * 5
    assert read[f"{SITE}/search/issues/2"].endswith("text of search 2")
    assert read[f"{SITE}/site/blob/HEAD/docs/notes.txt"] == "Plain *text*."
    items, last = list_items(organization)
    assert items[f"{SITE}/search/issues/2"].properties["path"] == "search/issues/2"
    assert items[f"{SITE}/site/blob/HEAD/docs/notes.txt"].media_type == "text/plain"
    organization.requests.clear()
    assert list_items(organization, last.cursor)[0] == {}
    assert organization.requests == ["GET /orgs/octo-org/repos", "GET /orgs/octo-org/issues", "GET /search/issues"]
    organization.repositories["search"].change_issue(2, body="other")
    organization.repositories["site"].files = {"README.md": "# New"}
    organization.pushed["site"] = datetime.now(UTC)
    new = organization.add("new")
    new.put_issue("Old issue of a repository that was moved here", "text")
    items, last = list_items(organization, last.cursor)
    assert set(items) == {
        f"{SITE}/search/issues/2",
        f"{SITE}/site/blob/HEAD/README.md",
        f"{SITE}/new/issues/1",
    }
    assert re.fullmatch(last.whole_pattern, f"{SITE}/site/blob/HEAD/docs/notes.txt")
    for other in (f"{SITE}/search/issues/1", f"{SITE}/search/blob/HEAD/README.md"):
        assert not re.fullmatch(last.whole_pattern, other)
    del organization.repositories["new"]
    items, last = list_items(organization, last.cursor)
    assert last.whole
    connector, tokens = open_connector(organization)
    assert connector.is_deleted(tokens, f"{SITE}/new/issues/1")


def test_a_deleted_issue_of_an_organization_makes_the_next_listing_a_whole_one(organization):
    _, last = list_items(organization)
    del organization.repositories["search"].issues[2]
    items, last = list_items(organization, last.cursor)
    assert (f"{SITE}/search/issues/2" in items, len(items), last.whole) == (False, 14, True)
    organization.repositories["site"].put_issue("New", "text")
    organization.repositories["site"].change_issue(4, created_at=datetime.now(UTC).isoformat())
    assert not list_items(organization, last.cursor)[1].whole


def test_repositories_are_chosen_by_a_pattern_and_others_are_not_requested(organization):
    connector, tokens = open_connector(organization)
    chosen = connector.with_choice(SyncFilter(include=({"path": "s*"},), exclude=({"id": "site"},)))
    items = {item.external_id for page in chosen.iter_changes(tokens, None) for item in page.items}
    assert items == {
        f"{SITE}/search/{part}"
        for part in ("issues/1", "issues/2", "issues/3", "blob/HEAD/README.md", "blob/HEAD/docs/notes.txt")
    }
    assert not [request for request in organization.requests if "handbook" in request]
    assert {entry.path for entry in connector.browse(tokens, None, None).entries} == {"handbook", "search", "site"}
