"""Texts of slides, books, RTF, JSON and web pages are complete and in order where libraries lose some."""

from __future__ import annotations

import re

import pytest

from retrieval.errors import Skippable
from tests.connectors.parsers.conftest import Read
from tests.connectors.parsers.test_margins import packed, presentation, relations, shape, slide
from tests.connectors.parsers.test_word import paragraph, run, word


def deck(*order: int) -> bytes:
    """Slides with part numbers out of order, each with notes."""
    parts = {
        "ppt/_rels/presentation.xml.rels": relations(*(("slide", f"slides/slide{n}.xml") for n in order)),
        "ppt/presentation.xml": presentation_of(len(order)),
    }
    for n in order:
        parts |= {
            f"ppt/slides/slide{n}.xml": slide("sld", shape(f"Words of part {n}")),
            f"ppt/slides/_rels/slide{n}.xml.rels": relations(("notesSlide", f"../notesSlides/notesSlide{n}.xml")),
            f"ppt/notesSlides/notesSlide{n}.xml": slide("notes", shape(f"Notes of part {n}", '<p:ph type="body"/>')),
            f"ppt/notesSlides/_rels/notesSlide{n}.xml.rels": relations(("slide", f"../slides/slide{n}.xml")),
        }
    return presentation("", parts)


def presentation_of(slides: int) -> str:
    spaces = (
        'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
        'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    )
    slide_ids = "".join(f'<p:sldId id="{255 + n}" r:id="rId{n}"/>' for n in range(1, slides + 1))
    return f"<p:presentation {spaces}><p:sldIdLst>{slide_ids}</p:sldIdLst></p:presentation>"


def test_slides_are_read_in_the_order_in_which_they_are_shown(read: Read) -> None:
    text = read("deck.pptx", deck(3, 1, 2)).text
    positions = [text.index(f"Words of part {n}") for n in (3, 1, 2)]
    assert positions == sorted(positions)
    assert "Notes on slide 1: Notes of part 3" in text
    assert "Notes on slide 3: Notes of part 2" in text


def book(*chapters: str) -> bytes:
    head = "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>T{n}</title></head>"
    page = head + "<body><p>Words {n}</p></body></html>"
    items = "".join(
        f'<item id="c{n}" href="{at}" media-type="application/xhtml+xml"/>' for n, at in enumerate(chapters)
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    parts = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": (
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile '
            'full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
        ),
        "OEBPS/book.opf": (
            '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata/>'
            f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
        ),
    }
    for n, at in enumerate(chapters):
        parts[f"OEBPS/{at.replace('%20', ' ')}"] = page.format(n=n)
    return packed(parts)


def test_chapters_with_encoded_names_are_read_without_their_titles(read: Read) -> None:
    assert read("book.epub", book("a.xhtml", "part%20one.xhtml", "c.xhtml")).text.split("\n\n") == [
        "Words 0",
        "Words 1",
        "Words 2",
    ]


def test_rtf_keeps_surrogate_pairs_and_no_break_spaces(read: Read) -> None:
    data = rb"{\rtf1\ansi Seal \u-10179?\u-8704? and \u-10179?\u-8703?, 5\~km, C:\\~x\par}"
    text = " ".join(read("a.rtf", data).text.split())
    assert text == "Seal \U0001f600 and \U0001f601, 5 km, C:\\~x"


PATHS = r"\\server\share C:\Users\ann a\_b \d+\*"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.docx", word(paragraph(run(PATHS)))),
        ("a.pptx", presentation(shape(PATHS), {})),
        ("a.html", f"<html><body><p>{PATHS}</p></body></html>".encode()),
        ("a.csv", f"path,x\n{PATHS},1\n".encode()),
    ],
)
def test_backslashes_are_not_escaped(read: Read, name: str, data: bytes) -> None:
    assert PATHS in read(name, data).text


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "seal"}\n{"a": "walrus"}\n',
        '// settings\n{"a": "seal",}\n',
        '{"a": NaN, "b": "seal"}',
        '{"a": "seal \\ud800"}',
        '{"a": "seal", "b": [1,',
    ],
)
def test_invalid_json_is_read_as_text(read: Read, text: str) -> None:
    assert read("a.json", text.encode()).text == text


@pytest.mark.parametrize("data", [b"{}", b"[" * 100_000 + b"]" * 100_000])
def test_json_without_text_is_refused(read: Read, data: bytes) -> None:
    with pytest.raises(Skippable, match="holds no text"):
        read("a.json", data)


def test_json_in_one_long_line_is_indented(read: Read) -> None:
    record = '{"id":1.10,"name":"a, {b}: \\"c\\"","tags":["x",[]],"empty":{}}'
    text = read("a.json", f"[{','.join([record] * 50)}]".encode()).text
    assert "".join(text.split()) == "".join(f"[{','.join([record] * 50)}]".split())
    assert text.splitlines()[:3] == ["[", "  {", '    "id": 1.10,']


def test_the_separator_line_of_excel_is_no_row(read: Read) -> None:
    assert read("a.csv", b"sep=;\r\nname;count\r\nseal;3\r\n").text.splitlines()[0] == "| name | count |"


@pytest.mark.parametrize(
    "element",
    [
        "<p>word{n} of many",
        "<div>word{n}",
        "<font size=2>word{n}<br>",
        "<p><i>word{n}",
        "<center>word{n}<hr>",
        "<blockquote>word{n}",
        "<table><tr><td>word{n}",
        "<ul><li>word{n}",
    ],
)
def test_deeply_nested_pages_are_read_to_the_end(read: Read, element: str) -> None:
    page = "<html><body>" + "".join(element.format(n=n) for n in range(300)) + "<p>The end</body></html>"
    mail = f"Subject: Seals\r\nContent-Type: text/html\r\n\r\n{page}"
    for name, data in (("a.html", page), ("a.eml", mail)):
        text = read(name, data.encode()).text
        assert re.findall(r"word\d+", text) == [f"word{n}" for n in range(300)]
        assert "The end" in text


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("größe_übung.txt", "utf-8"),
        ("größe_übung.txt", "cp437"),
        ("résumé.txt", "cp437"),
        ("Überblick 2024.txt", "cp437"),
        ("port_año_niño.txt", "cp437"),
        ("港のアザラシ報告.txt", "cp932"),
        ("中文报告文件.txt", "gbk"),
        ("Отчёт за март.txt", "cp866"),
    ],
)
def test_names_in_an_archive_are_decoded_as_they_were_packed(read: Read, name: str, encoding: str) -> None:
    encoded_name = name.encode(encoding)
    # `zipfile` writes other encodings as UTF-8 only.
    placeholder = "x" * len(encoded_name)
    data = packed({placeholder: "Words."}).replace(placeholder.encode(), encoded_name)
    assert [member.path for member in read("a.zip", data).members] == [name]


def test_encoded_pictures_in_markdown_are_left_out(read: Read) -> None:
    data = f"# Tide\n\n![moon](data:image/png;base64,{'QUJD' * 5000})\n\nWords.\n\n[i]: <data:image/png;base64,QUJD>\n"
    assert read("a.md", data.encode()).text == "# Tide\n\n![moon]()\n\nWords.\n\n[i]: <>\n"


def test_a_pdf_without_pages_is_refused_with_a_reason(read: Read) -> None:
    data = (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
        b"trailer<</Root 1 0 R/Size 3>>\n%%EOF"
    )
    with pytest.raises(Skippable) as caught:
        read("a.pdf", data)
    assert "crashed" not in str(caught.value)
