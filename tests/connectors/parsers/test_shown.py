"""Slides, pages, books, mails and texts are read in visual order."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import pytest
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from tests.connectors.parsers.conftest import Read

OFFICE = Path(__file__).resolve().parents[2] / "fixtures" / "office"


def written(read: Read, name: str, data: bytes) -> list[str]:
    """The blocks of the text."""
    return read(name, data).text.strip().split("\n\n")


# Slides


class Deck:
    """Build a presentation shape by shape."""

    def __init__(self) -> None:
        self.file = Presentation()

    def slide(self, title: str = "") -> None:
        self.shapes = self.file.slides.add_slide(self.file.slide_layouts[5]).shapes
        self.shapes.title.text = title

    def text(self, words: str, x: float, top: float, width: float = 3) -> None:
        self.shapes.add_textbox(Inches(x), Inches(top), Inches(width), Inches(0.8)).text_frame.text = words

    def data(self) -> bytes:
        file = io.BytesIO()
        self.file.save(file)
        return file.getvalue()


def test_columns_of_a_slide_are_read_one_after_another_below_what_spans_them(read: Read) -> None:
    deck = Deck()
    deck.slide("Berths")
    places = {
        "left 2": (1, 4),
        "right 1": (6, 3),
        "across": (1, 2),
        "right 2": (6, 4),
        "left 1": (1, 3),
        "foot": (1, 5),
    }
    for words, (x, top) in places.items():
        deck.text(words, x, top, 8 if words in ("across", "foot") else 3)
    assert written(read, "a.pptx", deck.data()) == [
        *("## Berths", "across", "left 1", "left 2", "right 1", "right 2", "foot"),
    ]


def test_each_slide_is_a_page_with_its_bullets_and_notes(read: Read) -> None:
    deck = Deck()
    bullet_slide = deck.file.slides.add_slide(deck.file.slide_layouts[1])
    bullet_slide.shapes.title.text = "Rules"
    frame = bullet_slide.shapes.placeholders[1].text_frame
    for level, words in enumerate(("No wake", "At night too")):
        paragraph = frame.paragraphs[0] if not level else frame.add_paragraph()
        paragraph.text, paragraph.level = words, level
    bullet_slide.notes_slide.notes_text_frame.text = "Say it slowly."
    deck.slide("Fees")
    parsed = read("a.pptx", deck.data())
    first, second = parsed.text[: parsed.pages[1]], parsed.text[parsed.pages[1] :]
    assert first == "## Rules\n\n- No wake\n  - At night too\n\nNotes on slide 1: Say it slowly.\n\n"
    assert second == "## Fees\n\n"
    assert parsed.properties["pageCount"] == 2


def test_tables_of_slides_repeat_merged_cells(read: Read) -> None:
    deck = Deck()
    deck.slide("Fees")
    table = deck.shapes.add_table(3, 3, Inches(1), Inches(2), Inches(6), Inches(1)).table
    rows = [["Berth", "Summer", ""], ["North|quay", "1", ""], ["", "", "2"]]
    for at, row in enumerate(rows):
        for column, text in enumerate(row):
            table.cell(at, column).text = text
    table.cell(0, 1).merge(table.cell(0, 2))
    table.cell(1, 0).merge(table.cell(2, 0))
    table_lines = "| Berth | Summer | Summer |\n| --- | --- | --- |\n| North\\|quay | 1 |  |\n| North\\|quay |  | 2 |"
    assert written(read, "a.pptx", deck.data()) == ["## Fees", table_lines]


def test_a_table_of_an_older_presentation_keeps_its_rows(read: Read) -> None:
    parsed = read("slides.ppt", gzip.decompress((OFFICE / "slides.ppt.gz").read_bytes()))
    assert "|  | Class1 \u2013 A merged with B | Class1 \u2013 A merged with B | Class1 \u2013 C |" in parsed.text
    assert "| R4 |  | True |  | True | False | False |" in parsed.text
    assert "introduce a list\n- With foo\n- Bar" in parsed.text
    assert "Notes on slide 3: Final notes on the third slide.\nSecond line of notes." in parsed.text
    assert parsed.text[parsed.pages[1] :].startswith("## Second slide title")


def test_lists_of_an_older_document_carry_their_numbers(read: Read) -> None:
    text = read("lists.doc", gzip.decompress((OFFICE / "lists.doc.gz").read_bytes())).text
    expected_lines = (
        "### Test 7:\n\n1. First item with numId 2\n2. Second item",
        "\n\n- Buy fresh bread",
        "1.2 Greenhouse Shelves",
        "3.1 Bench Setup",
    )
    assert [part for part in expected_lines if part not in text] == []


# Pages and books


@pytest.mark.parametrize(
    ("body", "blocks"),
    [
        (
            "<table><tr><th>Berth<th colspan=2>Summer<tr><td rowspan=2>North|quay<td>1<td><tr><td><td>2</table>",
            ["| Berth | Summer | Summer |\n| --- | --- | --- |\n| North\\|quay | 1 |  |\n| North\\|quay |  | 2 |"],
        ),
        (
            "<table><tr><td colspan=2>Fees</td></tr><tr><td>Berth</td><td>9</td></tr></table>",
            ["| Fees |  |\n| --- | --- |\n| Berth | 9 |"],
        ),
        (
            "<table><tr><th colspan=2>Berth<th>Fee<tr><td>North<td>quay<td>9</table>",
            ["| Berth | Berth | Fee |\n| --- | --- | --- |\n| North | quay | 9 |"],
        ),
        (
            "<table><tr><td>Dear Ann,<table><tr><td>Rope</td><td>9</td></tr></table></td><td></td></tr></table>Bye.",
            ["Dear Ann,", "| Rope | 9 |\n| --- | --- |", "Bye."],
        ),
        (
            "<table><tr><td>Key</td><td>Goods</td></tr><tr><td>a</td><td><ul><li>Tar<li>Rope</ul></td></tr></table>",
            ["| Key | Goods |\n| --- | --- |\n| a | - Tar - Rope |"],
        ),
        ("<ol start=3><li>Three<ul><li>a<li>b</ul><li>Four</ol>", ["3. Three\n   - a\n   - b\n4. Four"]),
        ("<ol type=a><li>Rope<li value=4>Tar</ol>", ["a. Rope\nd. Tar"]),
        ("<ol reversed><li>Two<li>One</ol>", ["2. Two\n1. One"]),
        ("Rope<span style='display: none'>x</span><b hidden>x</b><p style='visibility:hidden'>x</p>", ["Rope"]),
        ("<svg><title>x</title><text>Tide</text><text>Wind</text></svg><video>x</video>", ["Tide", "Wind"]),
        (
            "Name <input value=Ann><input type=hidden value=x><button>Yes</button><button>No</button>",
            ["Name Ann Yes No"],
        ),
        (
            "Land <select><option>Peru<option selected>Mali</select> Port <select><option>A<option>B</select>",
            ["Land Mali Port A"],
        ),
        (
            "Sails <select size=2><option selected>Main<option>Jib</select><datalist><option>x</datalist>",
            ["Sails ☒ Main ☐ Jib"],
        ),
        (
            "<table><tr><th>Berth<th>Fee<tbody><tr><td rowspan=0>North<td>1<tr><td>2<tbody><tr><td>South<td>3</table>",
            ["| Berth | Fee |\n| --- | --- |\n| North | 1 |\n| North | 2 |\n| South | 3 |"],
        ),
        (
            "<table><tr><th>Year<th>Month<th>Fee<tr><th rowspan=3>2025<tr><td>May<td>9<tr><td>June<td>8</table>",
            ["| Year | Month | Fee |\n| --- | --- | --- |\n| 2025 |  |  |\n| 2025 | May | 9 |\n| 2025 | June | 8 |"],
        ),
        ("<pre>x = 1\n  y</pre><blockquote>Say<p>so</blockquote>", ["```\nx = 1\n  y\n```", "> Say\n>\n> so"]),
        (
            "<table><tfoot><tr><td>Sum<td>9<tbody><tr><td>May<td>9<thead><tr><th>Month<th>Fee</table>",
            ["| Month | Fee |\n| --- | --- |\n| May | 9 |\n| Sum | 9 |"],
        ),
        ("<ul><li><input type=checkbox checked disabled> Rope<li><input type=checkbox> Tar</ul>", ["- ☒ Rope\n- Tar"]),
        (  # as LibreOffice saves notes on cells
            "<table><tr><th>Month<th>Fee<tr><td><comment>Ask Ann</comment>May<td>9</table><comment>Old</comment>",
            ["| Month | Fee |\n| --- | --- |\n| May | 9 |", "Comment on May: Ask Ann", "Comment: Old"],
        ),
        ("a<br>b <a href='/in'>in</a> <a href='https://e.org/x'>out</a>", ["a\nb in [out](https://e.org/x)"]),
    ],
)
def test_html_keeps_what_a_browser_shows(read: Read, body: str, blocks: list[str]) -> None:
    assert written(read, "a.html", f"<html><body>{body}</body></html>".encode()) == blocks


@pytest.mark.parametrize("element", ["<ul><li>x", "<blockquote>x", "<table><tr><td>x<td>"])
def test_a_page_of_endless_nesting_is_not_much_longer_than_its_words(read: Read, element: str) -> None:
    text = read("a.html", f"<html><body>{element * 3_000}</body></html>".encode()).text
    assert (text.count("x"), len(text) < 1_000_000) == (3_000, True)


def test_an_empty_element_of_a_book_does_not_swallow_its_chapter(read: Read) -> None:
    chapter = "<html><head><title/><script src='x'/></head><body><a id='p1'/><p>Fog <i/>at noon.</p></body></html>"
    package = (
        "<package xmlns='http://www.idpf.org/2007/opf'><manifest>"
        "<item id='c' href='c.xhtml'/><item id='n' properties='nav' href='n.xhtml'/></manifest><spine>"
        "<itemref idref='n'/><itemref idref='c'/></spine></package>"
    )
    root = "<rootfiles><rootfile full-path='p.opf'/></rootfiles>"
    space = "urn:oasis:names:tc:opendocument:xmlns:container"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", f"<container xmlns='{space}'>{root}</container>")
        archive.writestr("p.opf", package)
        archive.writestr("c.xhtml", chapter)
        archive.writestr("n.xhtml", "<html><body><nav>Contents</nav></body></html>")
    assert read("a.epub", file.getvalue()).text == "Fog at noon."


# Texts

RTF = rb"""{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}{\f1\fcharset204 Arial;}}{\stylesheet{\s1 heading 1;}}
{\info{\title Fees}{\author Ann}}{\header Confidential\par}{\footer 7\par}
\pard\s1 Berths\par\pard \f1\'c3\'e0\'e2\'e0\'ed\'fc\f0  caf\'e9{\deleted  gone}\v  unseen\v0{\v  unseen\plain\f0}
{\footnote At night.}
{\*\generator x;}\par
{\listtext 2.1\tab}Clause\par{\listtext\'b7\tab}Rope\par
\trowd\cellx1000\cellx3000\intbl Berth\cell Summer\cell\row
\trowd\clvmgf\cellx1000\cellx2000\cellx3000\intbl North\cell 1\cell 2\cell\row
\trowd\clvmrg\cellx1000\cellx2000\cellx3000\intbl\cell 3\cell 4\cell\row\pard End{\pict 0102}\bin3 {}}.\par}"""


def test_rtf_keeps_headings_lists_merged_cells_and_letters_of_all_code_pages(read: Read) -> None:
    parsed = read("a.rtf", RTF)
    assert parsed.text.strip().split("\n\n") == [
        "# Berths",
        "Гавань café",
        "2.1 Clause",
        "- Rope",
        "| Berth | Summer | Summer |\n| --- | --- | --- |\n| North | 1 | 2 |\n| North | 3 | 4 |",
        "End.",
        "Confidential",
        "Footnote: At night.",
    ]
    assert (parsed.title, parsed.properties["author"]) == ("Fees", "Ann")


def test_xml_that_is_not_to_the_letter_is_read(read: Read) -> None:
    assert read("a.xml", b"<shop><name>Rope & tar</name><price>9</shop>").text == "# shop\n\nname: Rope tar\nprice: 9\n"


# Charts


def test_charts_of_slides_and_open_texts_are_tables_and_no_notice(read: Read) -> None:
    values = CategoryChartData()
    values.categories = ["East", "West"]
    values.add_series("Spring", (19.25, 21))
    deck = Deck()
    deck.slide("Goods")
    deck.shapes.add_chart(XL_CHART_TYPE.PIE, Inches(1), Inches(2), Inches(4), Inches(3), values)
    names = {name: f"urn:oasis:names:tc:opendocument:xmlns:{name}:1.0" for name in ("office", "text", "table", "chart")}
    names |= {"draw": "urn:oasis:names:tc:opendocument:xmlns:drawing:1.0", "xlink": "http://www.w3.org/1999/xlink"}
    spaces = " ".join(f'xmlns:{name}="{space}"' for name, space in names.items())
    lines = (("", "Spring"), ("East", "19.25"), ("West", "21"))
    cells = (
        "".join(f"<table:table-cell><text:p>{text}</text:p></table:table-cell>" for text in line) for line in lines
    )
    table = "".join(f"<table:table-row>{line}</table:table-row>" for line in cells)
    title = "<chart:title><text:p>Goods</text:p></chart:title>"
    chart = f"<chart:chart>{title}<table:table>{table}</table:table></chart:chart>"
    frame = "<text:p>See:<draw:frame><draw:object xlink:href='./Object 1'/></draw:frame></text:p>"
    manifest_entry = "manifest:full-path='Object 1/' manifest:media-type='application/vnd.oasis.opendocument.chart'"
    space = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        archive.writestr(
            "content.xml",
            f"<office:document {spaces}><office:text>{frame}</office:text></office:document>",
        )
        archive.writestr("Object 1/content.xml", f"<office:document {spaces}>{chart}</office:document>")
        archive.writestr(
            "META-INF/manifest.xml",
            f"<manifest:manifest xmlns:manifest='{space}'><manifest:file-entry {manifest_entry}/></manifest:manifest>",
        )
    for name, data in (("a.pptx", deck.data()), ("a.odt", file.getvalue())):
        parsed = read(name, data)
        assert "Chart" in parsed.text
        assert "| Spring |\n| --- | --- |\n| East | 19.25 |\n| West | 21 |" in parsed.text
        assert "notice" not in parsed.properties
