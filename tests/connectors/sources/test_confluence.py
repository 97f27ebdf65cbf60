"""Confluence as people read it: macros, people, labels, comments, attachments; a site; deletions at once."""

from __future__ import annotations

import re

import pytest

from connectors.sources.described.filters import storage
from tests.connectors.sources.reading import list_items, open_connector, texts
from tests.standins import described_services


@pytest.fixture(params=["CONFLUENCE_SITE", "CONFLUENCE", "CONFLUENCE_DATA_CENTER"])
def wiki(request):
    with described_services.serving(request.param) as account:
        yield account


def test_a_page_has_space_ancestors_labels_people_macros_and_comments(wiki, tmp_path):
    top, page = wiki.put("Home", "Start"), wiki.put("Owls & mice", "x")
    wiki.parents[page] = top
    wiki.labels[page] = ["birds", "night"]
    user = '<ac:link><ri:user ri:account-id="id-ada" ri:userkey="id-ada"/></ac:link>'
    task = "<ac:task><ac:task-status>complete</ac:task-status><ac:task-body>Feed</ac:task-body></ac:task>"
    warning = macro("warning", "<p>They bite.</p>")
    wiki.bodies[page] = f"<p>Ask {user} first.</p>{warning}<ac:task-list>{task}</ac:task-list>"
    wiki.put_comment(page, "901", "Bob Lund", "Really?", selection="They bite.")
    text = " ".join(texts(wiki, tmp_path)[wiki.locate(page)].split())
    for part in (
        "<h1>Owls &amp; mice</h1> <p> Space: Handbook<br> Below: Home<br> Labels: birds, night<br>",
        "<br> Created by: Ada Berg, ",
        "<br> Changed by: Bob Lund, ",
        "<p>Ask @Ada Berg first.</p><blockquote><p><strong>Warning</strong></p><p>They bite.</p></blockquote>",
        "<ul><li>[x] Feed</li></ul>",
        "<h2>Bob Lund, ",
        "<blockquote>They bite.</blockquote> <p>Really?</p>",
    ):
        assert part in text, text


def test_a_comment_is_in_the_next_listing_and_one_that_is_deleted_is_not(wiki, tmp_path):
    keys = [wiki.put(f"Page {number}", "text") for number in range(3)]
    wiki.put_comment(keys[1], "901", "Bob", "First.")
    before, last = list_items(wiki)
    for item in wiki.items.values():
        item.updated = item.created
    wiki.put_comment(keys[2], "902", "Bob", "Second.")
    items, last = list_items(wiki, last.cursor)
    assert items[wiki.locate(keys[2])].version != before[wiki.locate(keys[2])].version
    assert items[wiki.locate(keys[2])].properties["path"] == before[wiki.locate(keys[2])].properties["path"]
    assert "Second." in texts(wiki, tmp_path)[wiki.locate(keys[2])]
    del wiki.comments[keys[2]]
    items, last = list_items(wiki, last.cursor)
    assert last.whole
    assert items[wiki.locate(keys[2])].version == before[wiki.locate(keys[2])].version


def test_more_comments_than_a_list_has_are_requested(wiki, tmp_path):
    key = wiki.put("Page", "text")
    for number in range(30):
        wiki.put_comment(key, str(900 + number), "Bob", f"Comment {number}.")
    read = texts(wiki, tmp_path)[wiki.locate(key)]
    assert all(f"<p>Comment {number}.</p>" in read for number in range(30))


def test_an_attachment_is_a_document_and_its_new_address_gets_no_credentials(wiki, tmp_path):
    key = wiki.put("Page", "text")
    wiki.attach(key, "att7", "plan ü.txt", "text/plain", b"The plan.")
    items, last = list_items(wiki)
    (plan,) = [item for item in items.values() if item.name == "plan ü.txt"]
    assert plan.media_type == "text/plain"
    connector, tokens = open_connector(wiki)
    assert connector.fetch(tokens, plan, tmp_path / "plan").path.read_bytes() == b"The plan."
    wiki.attach(key, "att7", "plan ü.txt", "text/plain", b"Another.")
    assert list_items(wiki, last.cursor)[0][plan.external_id].version != plan.version
    wiki.files.clear()
    assert list_items(wiki, last.cursor)[1].whole
    assert connector.is_deleted(tokens, plan.external_id)


def macro(name, body="", title=""):
    parameter = f'<ac:parameter ac:name="title">{title}</ac:parameter>' if title else ""
    inner = f"<ac:rich-text-body>{body}</ac:rich-text-body>" if body else ""
    return f'<ac:structured-macro ac:name="{name}">{parameter}{inner}</ac:structured-macro>'


CODE = '<![CDATA[x < 1 && "&nbsp;" <!DOCTYPE html>]]>'
PAGE = '<ri:page ri:content-title="Other page"/>'
TABLE = '<table><tbody><tr><th colspan="2">A</th></tr><tr><td>1</td><td>2</td></tr></tbody></table>'
STORAGE = [
    ("<p>a &lt; b&eacute;&nbsp;c &unknown; &amp;</p>", "<p>a &lt; bé\xa0c  &amp;</p>"),
    (
        macro("code", "b").replace("rich-text-body>", "plain-text-body>").replace(">b<", f">{CODE}<"),
        "<pre><code>x &lt; 1 &amp;&amp; &quot;&amp;nbsp;&quot; &lt;!DOCTYPE html&gt;</code></pre>",
    ),
    (macro("expand", "<p>in</p>", "More"), "<p><strong>More</strong></p><p>in</p>"),
    (macro("toc") + macro("status", title="DONE"), "DONE"),
    (macro("excerpt", "<p>Kept</p>"), "<p>Kept</p>"),
    (f"<ac:link>{PAGE}</ac:link> <ac:link>{PAGE}<ac:link-body>label</ac:link-body></ac:link>", "Other page label"),
    (TABLE, TABLE),
    ('<a href="https://x/?a=1&amp;b=2">x</a><br/>', '<a href="https://x/?a=1&amp;b=2">x</a><br>'),
    ('<!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/passwd">]><p>&e;</p>', None),
    ("<p>open <b>not closed", "<p>open <b>not closed</b></p>"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "html"), STORAGE)
def test_the_storage_format_is_read(text, html):
    read = storage.convert_storage(text, lambda _kind, key: key)
    if html is None:
        assert "root:" not in read
    else:
        assert read == html


def test_storage_that_is_too_deep_ends():
    assert re.search("x", storage.convert_storage("<div>" * 300 + "x" + "</div>" * 300, lambda _kind, key: key)) is None
