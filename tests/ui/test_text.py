"""Other people's text in the admin app: shown as text, exported as text."""

import csv
import html
import io

import pytest

from ui.parts import hit_tables, run_detail
from ui.parts.search_options import as_curl, as_python
from ui.parts.search_results import EXCERPT_CHARACTERS, best_excerpt, plain_text
from ui.parts.widgets import csv_bytes, escape_markdown


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "  =1", '=HYPERLINK("http://203.0.113.9")'])
def test_no_cell_starts_a_formula(cell):
    (row,) = csv.DictReader(io.StringIO(csv_bytes([{"name": cell}], ["name"]).decode("utf-8-sig")))
    assert row["name"] == "'" + cell


def test_numbers_stay_numbers_and_lists_are_readable():
    rows = csv_bytes([{"a": -3, "b": ["FAILED"], "c": None, "d": "plain"}], ["a", "b", "c", "d"])
    assert rows.decode("utf-8-sig").splitlines() == ["a,b,c,d", "-3,FAILED,,plain"]


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
    program = as_python("http://127.0.0.1:8000", "", "/v1/search", body)
    compile(program, "snippet", "exec")
    assert "API_KEY" in program


def test_an_excerpt_shows_the_place_with_the_words_and_no_markup():
    text = "nothing here " * 60 + "<b>Seals</b> dive & hunt; a seal dives. " + "nothing more " * 60
    excerpt = best_excerpt(text, frozenset({"seals", "dive"}))
    assert "&lt;b&gt;<mark>Seals</mark>&lt;/b&gt; <mark>dive</mark> &amp; hunt" in excerpt
    assert excerpt.startswith("… ")
    assert excerpt.endswith(" …")
    assert len(excerpt) < EXCERPT_CHARACTERS + 100


def test_an_excerpt_without_any_of_the_words_begins_at_the_start():
    assert best_excerpt("Owls  hunt\nmice.", frozenset({"seal"})) == "Owls hunt mice."
    assert best_excerpt("", frozenset()) == ""


def test_what_failed_before_it_was_a_document_never_makes_a_run_more_than_done(monkeypatch):
    progress_calls = []
    monkeypatch.setattr(run_detail.st, "progress", lambda share, text: progress_calls.append((share, text)))
    groups = {"failed": [{}] * 13, "cancelled": [], "completed": [{}] * 5, "queued": [], "processing": [{}] * 2}
    progress = {"found": 7, "upserted": 5, "failed": 13}
    created = {"isoString": "2026-11-20T12:00:00.000Z"}
    run_detail._show_head(
        {
            "id": "ijr_1",
            "source": "WEBSITE",
            "name": "",
            "outcome": None,
            "status": "PROCESSING",
            "documents": groups,
            "progress": progress,
            "createdAt": created,
        }
    )
    assert progress_calls == [(0.9, "18 of 20 documents finished")]


def test_markdown_is_read_without_its_marks():
    table = "| Animal | Depth |\n|---|---|\n| **Seal** | 500 m |"
    written = f"## Diving\n\n{table}\n\nSee [the list](https://a.example/b_(c)) of 2 * 3."
    assert plain_text(written).split("\n") == [
        "Diving",
        "",
        "Animal · Depth",
        "",
        "Seal · 500 m",
        "",
        "See the list of 2 * 3.",
    ]
    assert "&lt;b&gt;" in best_excerpt("# <b>owls</b>", frozenset({"owls"}))


def test_a_passage_shows_its_headings_and_the_rows_that_match_below_their_header():
    content = "# Manual\n\n## Pumps\n\nChange it.\n\n| Part | Price |\n|---|---|\n| Filter | 3 |\n| <b>Gasket | 2 |"
    passage = hit_tables.read_passage(content)
    assert (passage.headings, passage.text) == (["Manual", "Pumps"], "Change it.")
    table = hit_tables.build_table(passage, lambda cell: html.escape(cell).replace("Gasket", "<mark>Gasket</mark>"))
    assert table.startswith("<table><tr><th>Part</th><th>Price</th></tr>")
    assert "<tr><td>&lt;b&gt;<mark>Gasket</mark></td><td>2</td></tr>" in table
    rows = hit_tables.read_passage("| 7 | sent |", "Orders\norder_no | status")
    assert (rows.names, rows.rows, rows.text) == (["order_no", "status"], [["7", "sent"]], "")
    assert not hit_tables.build_table(passage, html.escape), "no row matches: the text is enough"
