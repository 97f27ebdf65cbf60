"""LyX documents are read as in print."""

from __future__ import annotations

import pytest

from retrieval.errors import Skippable
from tests.connectors.parsers.conftest import Read


def layout(name: str, body: str) -> str:
    return f"\\begin_layout {name}\n{body}\n\\end_layout\n"


def inset(name: str, body: str) -> str:
    return f"\n\\begin_inset {name}\n{body}\n\\end_inset\n"


def plain(body: str) -> str:
    return f"status open\n\n{layout('Plain Layout', body)}"


def lyx(body: str) -> bytes:
    header = "#LyX 2.3 created this file. For more info see http://www.lyx.org/\n\\lyxformat 544\n\\begin_document\n"
    return f'{header}\\begin_header\n\\pdf_author "Ann Doe"\n\\end_header\n\\begin_body\n{body}\\end_body\n'.encode()


def test_a_document_keeps_headings_lists_notes_and_formulas(read: Read) -> None:
    note = inset("Foot", plain("Since 1901."))
    link = inset("CommandInset href", 'LatexCommand href\nname "tides"\ntarget "https://example.org/t"')
    formula = inset("Formula \\begin{equation}", "v=\\frac{s}{t}\\label{eq:v}\n\\end{equation}\n")
    parsed = read(
        "harbour.lyx",
        lyx(
            layout("Title", "The \n\\family sans\nHarbour")
            + layout("Section*", "Piers")
            + layout("Standard", f"Two piers{note}, see \n{link}.\n{inset('Note Note', plain('Ask Bob'))}{formula}")
            + layout("Itemize", "Rope")
            + f"\\begin_deeper\n{layout('Itemize', 'Hemp')}\\end_deeper\n"
            + layout("Standard", "LyX \\SpecialChar ldots\n and 10\n\\begin_inset script superscript\n\n"
                     + layout("Plain Layout", "6") + "\n\\end_inset\n bar" + inset("Graphics", "\tfilename pier.png"))
        ),
    )  # fmt: skip
    assert parsed.text == (
        "# The Harbour\n\n## Piers\n\nTwo piers [1], see [tides](https://example.org/t).\n"
        "$$\\begin{equation} v=\\frac{s}{t} \\end{equation}$$\n\n- Rope\n  - Hemp\n\nLyX \u2026 and 10^(6) bar\n\n"
        "Footnote [1]: Since 1901.\n"
    )
    assert (parsed.title, parsed.properties["author"]) == ("The Harbour", "Ann Doe")
    assert parsed.properties["notice"] == (
        "Not read: pictures (1): pier.png. Not read: notes and inactive branches (1)."
    )


def test_a_table_is_a_table(read: Read) -> None:
    cells = [
        f"<cell>\n{inset('Text', layout('Plain Layout', words))}</cell>\n" for words in ("Valve", "Bar", "V1", "16")
    ]
    rows = f"<row>\n{''.join(cells[:2])}</row>\n<row>\n{''.join(cells[2:])}</row>\n"
    table = inset("Tabular", f'<lyxtabular version="3" rows="2" columns="2">\n{rows}</lyxtabular>\n')
    assert "| Valve | Bar |\n| --- | --- |\n| V1 | 16 |" in read("a.lyx", lyx(layout("Standard", table))).text


def test_a_damaged_document_is_refused(read: Read) -> None:
    with pytest.raises(Skippable, match="LyX file is damaged"):
        read("a.lyx", b"#LyX 2.3 created this file.\n\\begin_header\n")


def test_text_after_a_deleted_footnote_is_read(read: Read) -> None:
    deleted = f"\\change_deleted 1 1\nold{inset('Foot', plain('Obsolete'))}\\change_unchanged\n"
    assert read("a.lyx", lyx(layout("Standard", f"Before \n{deleted}after"))).text == "Before after\n"


def test_an_active_branch_is_read_and_an_inactive_one_is_named(read: Read) -> None:
    branches = "".join(inset(f"Branch {name}", plain(name)) for name in ("Solution", "Teacher"))
    head = b"\\branch Solution\n\\selected 1\n\\end_branch\n\\branch Teacher\n\\selected 0\n\\end_branch\n\\end_header"
    parsed = read("a.lyx", lyx(layout("Standard", branches)).replace(b"\\end_header", head))
    assert parsed.text == "Solution\n"
    assert parsed.properties["notice"] == "Not read: notes and inactive branches (1)."
