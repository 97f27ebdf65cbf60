"""Jira as people read it: fields by name, people, links, comments, attachments; a whole site, deletions at once."""

from __future__ import annotations

import pytest

from connectors.sources.described.filters import adf
from tests.connectors.sources.reading import texts
from tests.standins import described_services
from tests.standins.jira import paragraph

SITE = "https://acme.atlassian.net"


@pytest.fixture(params=["JIRA_SITE", "JIRA"])
def jira(request):
    with described_services.serving(request.param) as account:
        account.has_comments = False
        yield account


def fill(account, count=3):
    return [account.put(f"Title {number}", f"text of {number}") for number in range(count)]


def test_an_issue_has_its_fields_by_name_people_links_and_comments(jira, tmp_path):
    key, other = fill(jira, 2)
    jira.field_names = {"customfield_10016": "Story points", "customfield_10020": "Sprint", "customfield_10030": "Plan"}
    jira.set_fields(
        key,
        issuetype={"name": "Bug"},
        status={"name": "In Progress"},
        priority={"name": "High"},
        assignee={"displayName": "Ada Berg", "accountId": "a"},
        reporter={"displayName": "Bob <Lund>"},
        labels=["night", "owls"],
        components=[{"name": "Search"}],
        fixVersions=[{"name": "2.1"}],
        parent={"key": "HAND-9", "fields": {"summary": "SECRET epic"}},
        issuelinks=[
            {
                "type": {"outward": "blocks", "inward": "is blocked by"},
                "inwardIssue": {"key": other, "fields": {"summary": "SECRET"}},
            }
        ],
        customfield_10016=5,
        customfield_10020=[{"id": 7, "name": "Sprint 7"}],
        customfield_10030=paragraph("In two steps."),
        customfield_10040=None,
    )
    jira.put_comment(key, "Bob", "It is done.")
    jira.put_comment(key, "Eve", "SECRET", visibility={"type": "role", "value": "Administrators"})
    text = texts(jira, tmp_path)[f"{SITE}/browse/{key}"]
    words = " ".join(text.split())
    for part in (
        f"<h1>{key}: Title 0</h1>",
        "Project: Handbook<br> Type: Bug<br> Status: In Progress<br> Priority: High<br> Assignee: Ada Berg<br>",
        "Reporter: Bob &lt;Lund&gt;<br> Labels: night, owls<br> Components: Search<br> Fix versions: 2.1<br>",
        # Without summaries: not all readers of this issue may see the others.
        "Parent: HAND-9<br>",
        f"Is blocked by: {other}<br>",
        "Story points: 5<br> Sprint: Sprint 7<br>",
        "<p>text of 0</p>",
        "<h2>Plan</h2> <p>In two steps.</p>",
        "<h2>Bob, 14 May 2026 10:32</h2><p>It is done.</p>",
    ):
        assert part in words, words
    assert "SECRET" not in text


def test_more_comments_than_a_search_has_are_requested(jira, tmp_path):
    key, *_ = fill(jira)
    for number in range(5):
        jira.put_comment(key, "Bob", f"Comment {number}.")
    read = texts(jira, tmp_path)[f"{SITE}/browse/{key}"]
    assert all(f"Comment {number}." in read for number in range(5))


def node(kind, *content, **attrs):
    return {
        "type": kind,
        "attrs": attrs,
        "content": [text(part) if isinstance(part, str) else part for part in content],
    }


def text(words, *marks):
    return {"type": "text", "text": words, "marks": list(marks)}


LINK = {"type": "link", "attrs": {"href": 'https://x/"'}}
DOCUMENTS = [
    (node("heading", "A", level=9), "<h6>A</h6>"),
    (node("heading", level="x"), "<h2></h2>"),
    (
        node("paragraph", text("<b>", {"type": "strong"}, LINK)),
        '<p><a href="https://x/&quot;"><strong>&lt;b&gt;</strong></a></p>',
    ),
    (
        node("panel", node("paragraph", "Hot"), panelType="warning"),
        "<blockquote><p><strong>Warning</strong></p><p>Hot</p></blockquote>",
    ),
    (
        node("taskList", node("taskItem", "a", state="DONE"), node("taskItem", state="TODO")),
        "<ul><li>[x] a</li><li>[ ] </li></ul>",
    ),
    (
        node("table", node("tableRow", node("tableHeader", node("paragraph", "H")))),
        "<table><tr><th><p>H</p></th></tr></table>",
    ),
    (node("codeBlock", "x < 1"), "<pre><code>x &lt; 1</code></pre>"),
    (
        node(
            "paragraph",
            node("mention", text="@Ada"),
            node("hardBreak"),
            node("status", text="DONE"),
            node("date", timestamp="1778760000000"),
            node("inlineCard", url="https://x"),
            node("emoji", shortName=":+1:"),
        ),
        "<p>@Ada<br>DONE14 May 2026https://x:+1:</p>",
    ),
    (node("expand", node("rule"), title="More"), "<p><strong>More</strong></p><hr>"),
    (node("later", "kept", 7, None), "kept"),
]


@pytest.mark.parametrize(("content", "html"), DOCUMENTS)
def test_a_document_of_atlassian_is_read(content, html):
    assert adf.read_document({"type": "doc", "content": [content]}) == html


def test_a_document_that_is_too_deep_ends_and_text_without_a_format_is_read():
    node = {"type": "text", "text": "x"}
    for _ in range(5000):
        node = {"type": "paragraph", "content": [node]}
    assert "x" not in adf.read_document({"type": "doc", "content": [node]})
    assert adf.read_document("a\n<b>") == "<p>a</p><p>&lt;b&gt;</p>"
    assert adf.read_words([True, 5, None, {"value": "A", "child": {"value": "B"}}]) == "yes, 5, A / B"
