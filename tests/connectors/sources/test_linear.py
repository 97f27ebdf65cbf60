"""Linear as people read it: people, labels, comments in their order, files; deletions by the next run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from connectors.sources.described import service
from connectors.sources.described.attachments import Attachment, find_attachments
from connectors.sources.described.description import read_description
from retrieval.errors import Fatal
from tests.connectors.sources.reading import list_items, open_connector, texts

SERVICE = "LINEAR"


def comment(number, moment="2026-05-14T10:{:02}:00Z", **author):
    person = author or {"user": {"name": "Bob Lund"}}
    return {"body": f"Comment {number}.", "createdAt": moment.format(number), **person}


def test_an_issue_has_people_labels_links_and_comments_from_the_oldest(account, tmp_path):
    key, long = account.put("Owls", "They hunt at night."), account.put("Mice", "They hide.")
    account.about[key] = {
        "state": {"name": "In Review"},
        "assignee": {"name": "Bob Lund"},
        "creator": {"name": "Ada Berg"},
        "labels": {"nodes": [{"name": "birds"}, {"name": "night"}]},
        "project": {"name": "Zoo"},
        "attachments": {"nodes": [{"title": "Pull request 7", "url": "https://github.com/acme/zoo/pull/7"}]},
    }
    account.comments[key] = [comment(1), comment(2, user=None, botActor={"name": "Deploy bot"})]
    account.comments[long] = [comment(number) for number in range(25)]
    account.requests.clear()
    read = texts(account, tmp_path)
    assert len(account.requests) == 5  # three lists, and the comments of one issue at listing and at fetching
    issue = read[account.locate(key)]
    assert issue.startswith(
        "# ENG-1: Owls\n\nTeam: Engineering\n\nStatus: In Review\n\nAssignee: Bob Lund\n\nCreator: Ada Berg"
    )
    assert "Labels: birds, night\n\nProject: Zoo" in issue
    assert "They hunt at night.\n\nLink: [Pull request 7](https://github.com/acme/zoo/pull/7)" in issue
    assert issue.endswith(
        "## Bob Lund, 14 May 2026 10:01\n\nComment 1.\n\n## Deploy bot, 14 May 2026 10:02\n\nComment 2."
    )
    comments = read[account.locate(long)].split("## Bob Lund, ")[1:]
    assert [text.split("\n\n")[1] for text in comments] == [f"Comment {number}." for number in range(25)]


def test_a_comment_changes_its_issue_and_an_issue_in_the_trash_is_removed_by_the_next_run(account):
    keys = [account.put(f"Title {number}", "text") for number in range(4)]
    before, last = list_items(account)
    account.comments[keys[1]] = [comment(1, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))]
    account.trash.add(keys[2])
    account.items[keys[2]].updated = datetime.now(UTC)
    account.requests.clear()
    items, later = list_items(account, last.cursor)
    assert {name: item.deleted for name, item in items.items()} == {
        account.locate(keys[1]): False,
        account.locate(keys[2]): True,
    }
    assert items[account.locate(keys[1])].version != before[account.locate(keys[1])].version
    assert (later.whole, len(account.requests)) == (False, 4)
    connector, tokens = open_connector(account)
    assert [connector.is_deleted(tokens, account.locate(key)) for key in keys[:3]] == [False, False, True]


def test_projects_and_documents_are_read_with_updates_and_authors(account, tmp_path):
    node = {"createdAt": "2026-05-14T00:00:00Z", "updatedAt": "2026-05-14T00:00:00Z", "trashed": None}
    update = {"body": "On track.", "createdAt": "2026-05-15T00:00:00Z", "user": {"name": "Ada Berg"}}
    updates = {"nodes": [update], "pageInfo": {"hasNextPage": False}}
    names = {"status": {"name": "Started"}, "lead": {"name": "Ada Berg"}, "members": {"nodes": [{"name": "Bob Lund"}]}}
    text = {"description": "A new zoo.", "content": "## Plan\n\nBuild."}
    account.projects = [
        {**node, "id": "p1", "slugId": "zoo-1", "name": "Zoo", **names, **text, "projectUpdates": updates}
    ]
    about = {"id": "d1", "slugId": "menu-2", "title": "Menu", "content": "Mice.", "project": {"name": "Zoo"}}
    account.documents = [{**node, **about, "creator": {"name": "Bob Lund"}}]
    account.put("Owls", "They hunt at night.")
    read, (items, _) = texts(account, tmp_path), list_items(account)
    project, document = "https://linear.app/acme/project/p1", "https://linear.app/acme/document/d1"
    assert read[project].startswith("# Zoo\n\nStatus: Started\n\nLead: Ada Berg\n\nMembers: Bob Lund")
    assert read[project].endswith("A new zoo.\n\n## Plan\n\nBuild.\n\n## Update by Ada Berg, 15 May 2026\n\nOn track.")
    assert read[document].startswith("# Menu\n\nProject: Zoo\n\nAuthor: Bob Lund")
    assert items[project].properties["url"] == "https://linear.app/acme/project/zoo-1"
    account.documents, account.projects[0]["trashed"] = [], True
    connector, tokens = open_connector(account)
    assert [connector.is_deleted(tokens, name) for name in (project, document)] == [True, True]


def test_limits_in_answers_of_400_are_waited_for_and_a_missing_permission_is_named(account, monkeypatch):
    monkeypatch.setattr(service, "BUSY_SECONDS", 0.01)
    account.put("Owls", "They hunt at night.")
    limited = {"errors": [{"message": "Rate limit exceeded", "extensions": {"code": "RATELIMITED"}}]}
    limits = [lambda handler: handler.reply(400, limited) or True] * 2
    account.fault = lambda _request: limits.pop() if limits else None
    assert len(list_items(account)[0]) == 1
    refused = {"errors": [{"message": "Forbidden", "extensions": {"code": "FORBIDDEN"}}]}
    account.fault = lambda _request: lambda handler: handler.reply(200, refused) or True
    with pytest.raises(Fatal, match=r"FORBIDDEN\. Give the API key the permission Read"):
        list_items(account)


def test_files_at_linear_are_attached_and_requested_with_the_key():
    content, host = read_description("LINEAR").streams[0].content, "https://uploads.linear.app"
    issue = {"description": f"![plan.png]({host}/a/b) and https://evil.example/uploads.linear.app/x"}
    files = [
        *find_attachments(content, issue, {}, ""),
        *find_attachments(content, {"body": f"[log]({host}/c)"}, {}, ""),
    ]
    assert files == [Attachment("plan.png", f"{host}/a/b", (host,)), Attachment("log", f"{host}/c", (host,))]
