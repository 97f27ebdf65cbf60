"""Files crafted to exhaust a reader are read or refused with a reason."""

from __future__ import annotations

import json

import pytest

from retrieval.errors import Skippable
from tests.connectors.parsers.conftest import Read
from tests.connectors.parsers.test_drawings import svg, text
from tests.connectors.parsers.test_word import word

pytestmark = pytest.mark.service

COUNT = 200_000


def notebook(kind: str, source: str) -> bytes:
    return json.dumps({"cells": [{"cell_type": kind, "source": source}], "nbformat": 4}).encode()


CUE = b"WEBVTT\n\n00:01.000 --> 00:02.000\nCanaryone"
MAIL = b"From a Mon Nov 23 10:00:00 2026\nSubject: Tides\n\nCanaryone\n\nFrom "
REPEATED = {
    "spaces.vtt": CUE + b" " * COUNT,
    "speaker.vtt": CUE + b"<v " + b" " * COUNT,
    "speakers.vtt": CUE + b"<v " * COUNT,
    "lines.ass": b"[Script Info]\n\nDialogue: 0,0:00:01.00,0:00:02.00,A,B,0,0,0,,Canaryone\n" + b"Dialogue:" * COUNT,
    "alt.ipynb": notebook("markdown", "Canaryone" + "![" * COUNT),
    "link.ipynb": notebook("markdown", "Canaryone" + "![](data:" * COUNT),
    "title.ipynb": notebook("code", "Canaryone" + "\x1b]" * COUNT),
    "space.xml": b"<a><b>Canaryone" + b"aA1" * 30 + b" " * COUNT + b".</b></a>",
    "fonts.svg": svg(f'<g style="{"font:" * COUNT}">{text(0, 9, "Canaryone")}</g>'),
    "digits.svg": svg(f'<g style="font:{"1" * COUNT}x">{text(0, 9, "Canaryone")}</g>'),
    "opacity.svg": svg(f'<g style="opacity:{"0" * COUNT}x">{text(0, 9, "Canaryone")}</g>'),
    "rules.svg": svg(f"<style>{'a' * COUNT}</style>" * 20 + text(0, 9, "Canaryone")),
    "page.xml": b"<a><b>Canaryone</b><description><![CDATA[" + b"<p>" * COUNT + b"]]></description></a>",
}


@pytest.mark.parametrize("name", REPEATED)
def test_repeated_characters_do_not_slow_a_reader(read: Read, name: str) -> None:
    assert "Canaryone" in read(name, REPEATED[name]).text


@pytest.mark.parametrize("line", [b"11:11 " * COUNT, b"11:11 1111 " * 20_000])
def test_a_long_line_does_not_slow_the_reader_of_mailboxes(read: Read, line: bytes) -> None:
    assert "Tides.eml" in read("a.mbox", MAIL + line).text


HEADING = '{"cells": [{"cell_type": "heading", "level": %s, "source": "Canaryone"}], "nbformat": 3}'


def test_a_heading_of_an_infinite_level_is_damaged(read: Read) -> None:
    with pytest.raises(Skippable, match="The Jupyter notebook file is damaged"):
        read("a.ipynb", (HEADING % "1e999").encode())


CELL = "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>x</w:t></w:r></w:p>"
PICTURE = b"\\begin_inset Graphics\n" + b"a" * COUNT + b"\n\\end_inset\nCanaryone\n"


def test_a_long_parameter_does_not_slow_the_reader_of_lyx(read: Read) -> None:
    start = b"#LyX 2.3\n\\begin_body\n\\begin_layout Standard\n"
    assert "Canaryone" in read("a.lyx", start + PICTURE + b"\\end_layout\n\\end_body\n").text


BOX = b"\\begin_inset Box Boxed\n\\begin_layout Plain\n"


def boxes(count: int) -> bytes:
    ends = b"\n\\end_layout\n\\end_inset" * count
    start = b"#LyX 2.3\n\\begin_body\n\\begin_layout Standard\n"
    return start + BOX * count + b"Canaryone" + ends + b"\n\\end_layout\n\\end_body\n"


DEEP = {
    "a.svg": svg("<g>" * 2_000 + text(0, 9, "Canaryone") + "</g>" * 2_000),
    "a.lyx": boxes(10_000),
    "a.xml": b"<a>" * 10_000 + b"Canaryone" + b"</a>" * 10_000,
    "a.docx": word(CELL * 10_000 + "</w:tc></w:tr></w:tbl>" * 10_000),
    "a.ipynb": b'{"cells":' + b"[" * 100_000 + b"]" * 100_000 + b',"nbformat":4}',
}


@pytest.mark.parametrize("name", DEEP)
def test_a_file_that_is_nested_too_deep_is_refused_for_that(read: Read, name: str) -> None:
    with pytest.raises(Skippable, match="lie too deep within each other"):
        read(name, DEEP[name])


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("<b>", "</b>"),
        ("<p>x<fn>y", "</fn></p>"),
        ("<table><tr><td>", "</td></tr></table>"),
        ("<p>x<sup>y", "</sup></p>"),
        ("<ul><li>x", "</li></ul>"),
    ],
)
def test_text_in_deeply_nested_elements_is_kept(read: Read, start: str, end: str) -> None:
    assert "Canaryone" in read("a.xml", f"<a>{start * 600}Canaryone{end * 600}</a>".encode()).text


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.svg", svg("<g>" * 100 + text(0, 9, "Canaryone") + "</g>" * 100)),
        ("a.svg", svg("<text>" + "<tspan>" * 100 + "Canaryone" + "</tspan>" * 100 + "</text>")),
        ("a.lyx", boxes(100)),
    ],
)
def test_text_in_nested_groups_of_a_drawing_or_boxes_of_a_text_is_kept(read: Read, name: str, data: bytes) -> None:
    assert "Canaryone" in read(name, data).text


@pytest.mark.parametrize("ending", ["xml", "html"])
def test_a_table_of_millions_of_cells_is_refused_for_its_memory(read: Read, ending: str) -> None:
    rows = f"<tr>{'<td>1</td>' * 100}</tr>" * 40_000
    with pytest.raises(Skippable, match="MB of memory"):
        read(f"a.{ending}", f"<html><table>{rows}</table></html>".encode())
