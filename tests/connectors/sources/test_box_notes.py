"""Box Notes of both forms as Markdown."""

import json

import pytest

from connectors.sources.box import files
from retrieval.errors import Skippable


def text(words, *marks):
    return {"type": "text", "text": words, "marks": [{"type": "author_id", "attrs": {"authorId": "1"}}, *marks]}


def node(kind, *content, **attrs):
    return {"type": kind, "attrs": attrs, "content": list(content)}


def paragraph(*words):
    return node("paragraph", *(text(word) if isinstance(word, str) else word for word in words))


def markdown(*content):
    note = {"version": 7, "schema_version": 1, "doc": {"type": "doc", "content": list(content)}}
    return files.render_note(json.dumps(note).encode())


def test_headings_paragraphs_and_rules():
    rule = {"type": "horizontal_rule"}
    result = markdown(
        node("heading", text("Plan"), level=3), paragraph("First."), {"type": "paragraph"}, rule, paragraph("Last.")
    )
    assert result == "### Plan\n\nFirst.\n\n---\n\nLast."


def test_marks_and_breaks():
    link = {"type": "link", "attrs": {"href": "https://example.com/"}}
    result = markdown(
        paragraph(text("bold", {"type": "strong"}), " and ", text("the site", link), {"type": "hard_break"}, "below"),
        paragraph(
            text("https://example.com/", link), text(" small", {"type": "font_size", "attrs": {"size": "0.75em"}})
        ),
    )
    assert result == "**bold** and [the site](https://example.com/)\nbelow\n\nhttps://example.com/ small"


def test_lists_in_lists():
    inner = node("ordered_list", node("list_item", paragraph("b1")), node("list_item", paragraph("b2")), order=3)
    checks = node(
        "check_list",
        node("check_list_item", paragraph("done"), checked=True),
        node("check_list_item", paragraph("open")),
    )
    result = markdown(
        node("bullet_list", node("list_item", paragraph("a")), inner, node("list_item", paragraph("c"))), checks
    )
    assert result == "- a\n    3. b1\n    4. b2\n- c\n\n- [x] done\n- [ ] open"


def test_tables_boxes_and_code():
    head = node("table_row", node("table_header", paragraph("Name")), node("table_header", paragraph("A|B")))
    row = node("table_row", node("table_cell", paragraph("one"), paragraph("two")))
    box = node("call_out_box", paragraph("Mind"), paragraph("this"))
    result = markdown(node("table", head, row), box, node("code_block", text("x = 1")))
    assert result == ("| Name | A\\|B |\n| --- | --- |\n| one<br>two |  |\n\n> Mind\n>\n> this\n\n```\nx = 1\n```")


def test_what_is_not_known_is_read_for_its_text():
    assert (
        markdown(node("grid", node("column", paragraph("left")), node("column", paragraph("right")))) == "left\n\nright"
    )


def test_a_note_from_before_2022():
    old = {"atext": {"text": "Title\n*first\n*second\n\nEnd", "attribs": "+1"}, "pool": {}}
    assert files.render_note(json.dumps(old).encode()) == "Title\n- first\n- second\n\nEnd\n"


def test_a_note_without_a_word():
    assert files.render_note(b"") == ""
    assert markdown() == ""


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b'{"doc": 5}',
        b'{"doc": {"content": [{}]}}',
        b'{"doc": {"content": [{"type": "heading", "attrs": {"level": "x"}}]}}',
        b'{"atext": {"text": 5}}',
        b"\xff",
        b'{"doc":' + b'{"content":[' * 5000,
        b'{"doc":' + b'{"content":[' * 500 + b"{}" + b"]}" * 500 + b"}",
    ],
)
def test_an_invalid_note_is_reported(data):
    with pytest.raises(Skippable, match="Box Note"):
        files.render_note(data)


def test_a_note_of_some_depth_is_read():
    deep = paragraph("end")
    for _ in range(100):
        deep = node("grid", deep)
    assert markdown(deep) == "end"
