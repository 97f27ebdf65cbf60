"""Files of other programs are read as a person reads them."""

# ruff: noqa: RUF001 - letters of other scripts

from __future__ import annotations

import io
import zipfile

import pytest
from docx import Document
from docx.oxml import OxmlElement
from docx.oxml.ns import qn

from connectors.parsers import trust
from tests.connectors.parsers.conftest import Read
from tests.connectors.parsers.test_office import opened

pytestmark = pytest.mark.service


OPML = b"""<?xml version="1.0"?><opml version="2.0"><head><title>Harbour feeds</title></head><body>
<outline text="Tides"><outline text="Low &lt;b&gt;water&lt;/b&gt;" _note="Twice a day" xmlUrl="https://example.org/low.xml"/></outline></body></opml>"""


@pytest.mark.parametrize("name", ["feeds.opml", "feeds.xml"])
def test_an_opml_outline_keeps_its_topics_notes_and_addresses(read: Read, name: str) -> None:
    parsed = read(name, OPML)
    assert parsed.title == "Harbour feeds"
    assert parsed.text.splitlines() == [
        "# Harbour feeds", "", "## Tides", "", "- [Low water](https://example.org/low.xml)", "  Note: Twice a day",
    ]  # fmt: skip


def test_xml_of_several_roots_is_read_to_its_end(read: Read) -> None:
    text = read("part.xml", b"<p>First of the chapter.</p>\n<p>Second of the chapter.</p>\n<p>Third.</p>").text
    assert [line for line in text.splitlines() if line][1:] == [
        "First of the chapter.", "Second of the chapter.", "Third.",
    ]  # fmt: skip


def test_an_abiword_file_without_a_declaration_is_its_paragraphs(read: Read) -> None:
    text = read(
        "bazaar.abw", b'<abiword>\n<section>\n<p props="x:y">Linux is <c>subversive</c>.</p></section></abiword>'
    )
    assert "Linux is subversive." in text.text
    assert "<p" not in text.text


@pytest.mark.parametrize("first", [b"Delivered-To: <bob@example.org>\n", b"", b"Content-Type: text/plain\n"])
def test_a_single_mail_in_a_mailbox_file_is_read(read: Read, first: bytes) -> None:
    parsed = read("sent.mbox", first + b"From: Ann <ann@example.org>\nSubject: Tides\n\nAt noon.\n")
    assert (parsed.title, "At noon." in parsed.text) == ("Tides", True)


def test_an_initial_of_a_word_document_belongs_to_its_word(read: Read) -> None:
    document = Document()
    frame = OxmlElement("w:framePr")
    frame.set(qn("w:dropCap"), "drop")
    document.add_paragraph("O").paragraph_format.element.get_or_add_pPr().append(frame)
    document.add_paragraph("nce upon a time.")
    document.add_paragraph("The end.")
    file = io.BytesIO()
    document.save(file)
    assert read("tale.docx", file.getvalue()).text == "Once upon a time.\n\nThe end.\n"


MANIFEST = """<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"><m:file-entry m:full-path="/"
m:media-type="application/vnd.oasis.opendocument.text"/><m:file-entry m:full-path="Object 1/"
m:media-type="application/vnd.oasis.opendocument.formula"/></m:manifest>"""


def test_a_formula_in_an_open_text_stands_in_its_sentence(read: Read) -> None:
    frame = '<draw:frame><draw:object xlink:href="./Object 1" xmlns:xlink="http://www.w3.org/1999/xlink"/></draw:frame>'
    body = f"<office:body><office:text><text:p>So {frame} holds.</text:p></office:text></office:body>"
    file = io.BytesIO(opened("text", body))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(
            "Object 1/content.xml",
            '<m:math xmlns:m="http://www.w3.org/1998/Math/MathML"><m:mi>E</m:mi><m:mo>=</m:mo><m:mi>m</m:mi>'
            "<m:msup><m:mi>c</m:mi><m:mn>2</m:mn></m:msup></m:math>",
        )
        archive.writestr("META-INF/manifest.xml", MANIFEST)
    parsed = read("law.odt", file.getvalue())
    assert (parsed.text, "notice" in parsed.properties) == ("So E=mc^(2) holds.\n", False)


@pytest.mark.parametrize("text", ["0\n2\n4\n6\n8\n\u22121.5 100%", "Frequency (Hz)\nPhase (deg)\n0 20 40"])
def test_a_diagram_whose_fonts_name_no_letters_is_read_by_its_codes(text: str) -> None:
    quality = trust.judge_page(1, text, unmapped=1.0)
    assert (quality.unread, quality.quality, quality.reasons) == (False, 0.7, (trust.UNSURE_LETTERS,))


@pytest.mark.parametrize(
    "text", ["UHPSHUDWXUH 7LPH", "abcb defd ghibc jk", "Khoor zruog wklv lv", "\x01\x04\x05\x06", "!"]
)
def test_codes_of_fonts_that_lead_to_no_words_are_still_refused(text: str) -> None:
    assert trust.judge_page(1, text, unmapped=1.0).unread


def test_a_page_of_cyrillic_in_a_latin_font_is_not_read() -> None:
    words = "Насос проверяется под давлением в течение часа, и мастер подписывает протокол. " * 3
    quality = trust.judge_page(1, words.encode("cp1251").decode("latin-1"))
    assert (quality.unread, quality.reasons) == (True, (trust.WRONG_LETTERS,))
    assert (
        trust.judge_page(1, words).quality == trust.judge_page(1, "Příliš žluťoučký kůň úpěl ódy. " * 4).quality == 1.0
    )
