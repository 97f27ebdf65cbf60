"""Other people's text in the admin app: shown as text, exported as text."""

import csv
import io

import pytest

from ui.exports import csv_bytes
from ui.parts.search_options import as_curl
from ui.parts.search_results import EXCERPT_CHARACTERS, best_excerpt
from ui.parts.widgets import escape_markdown


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "  =1", '=HYPERLINK("http://203.0.113.9")'])
def test_no_cell_starts_a_formula(cell):
    (row,) = csv.DictReader(io.StringIO(csv_bytes([{"name": cell}], ["name"]).decode("utf-8-sig")))
    assert row["name"] == "'" + cell


@pytest.mark.parametrize(
    "text", ["<script>", "[x](javascript:alert(1))", "![p](http://203.0.113.9/p)", "$x$", ":red[x]"]
)
def test_nothing_of_a_name_is_markup(text):
    escaped = escape_markdown(text)
    for mark in "<>[]()!$:":
        assert mark not in escaped.replace(f"\\{mark}", "")


def test_a_snippet_quotes_what_was_typed_and_holds_no_key():
    body = {"query": "it's $HOME `id`"}
    shell = as_curl("http://127.0.0.1:8000", "alice", "/v1/search", body)
    assert "$API_KEY" in shell
    assert "'\"'\"'" in shell


def test_an_excerpt_shows_the_place_with_the_words_and_no_markup():
    text = "nothing here " * 60 + "<b>Seals</b> dive & hunt; a seal dives. " + "nothing more " * 60
    excerpt = best_excerpt(text, frozenset({"seals", "dive"}))
    assert "&lt;b&gt;<mark>Seals</mark>&lt;/b&gt; <mark>dive</mark> &amp; hunt" in excerpt
    assert excerpt.startswith("… ")
    assert excerpt.endswith(" …")
    assert len(excerpt) < EXCERPT_CHARACTERS + 100
