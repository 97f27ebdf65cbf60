"""Files become Markdown or a refusal with a reason; a bad file never affects other files."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import docx
import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from connectors.parsers.parser import DocumentParser, document_parser
from connectors.parsers.pool import ChildPool, Limits
from retrieval.errors import Retryable, Skippable
from retrieval.ports import OcrStrategy, Parsed, RawContent
from retrieval.settings import PROJECT_ROOT

pytestmark = pytest.mark.service
"""Starts, kills and exhausts parser children."""

MB = 2**20
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
Save = Callable[[str, bytes], RawContent]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Write bytes to a file and describe the file as the pipeline does."""

    def write(name: str, data: bytes) -> RawContent:
        path = tmp_path / f"raw-{len(list(tmp_path.iterdir()))}"
        path.write_bytes(data)
        return RawContent(path=path, name=name, media_type="", size=len(data))

    return write


@pytest.fixture
def limited() -> Iterator[Callable[[float, int], DocumentParser]]:
    """Return parsers of one child with the given limits."""
    pools: list[ChildPool] = []

    def make(seconds: float, memory_bytes: int) -> DocumentParser:
        pools.append(ChildPool(1, Limits(seconds=seconds, memory_bytes=memory_bytes)))
        return DocumentParser(pools[-1], memory_bytes, seconds)

    yield make
    for pool in pools:
        pool.close()


def read(raw: RawContent, ocr: OcrStrategy = OcrStrategy.BASIC_PARSER) -> Parsed:
    return document_parser().parse(raw, ocr)


def refusal(raw: RawContent, ocr: OcrStrategy = OcrStrategy.BASIC_PARSER, by: DocumentParser | None = None) -> str:
    with pytest.raises(Skippable) as caught:
        (by or document_parser()).parse(raw, ocr)
    return str(caught.value)


def pdf(*texts: str, encrypt: StandardEncryption | None = None) -> bytes:
    """Return a PDF with one page per text."""
    file = io.BytesIO()
    canvas = Canvas(file, encrypt=encrypt)
    canvas.setTitle("Tide tables")
    for text in texts:
        for line, words in enumerate(text.split("\n")):
            canvas.drawString(72, 760 - 16 * line, words)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def packed(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def word(body: bytes) -> bytes:
    """A minimal DOCX around the XML of a body."""
    space = b"http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    return packed(
        {
            "[Content_Types].xml": b'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            b'<Default Extension="xml" ContentType="application/xml"/></Types>',
            "word/document.xml": b'<w:document xmlns:w="%s"><w:body>%s</w:body></w:document>' % (space, body),
        }
    )


PARAGRAPH = b"<w:p><w:r><w:t>The lighthouse keeper wrote it down.</w:t></w:r></w:p>"


# Text and Markdown


def test_plain_text_stays_as_it_is_but_for_line_endings(save: Save) -> None:
    text = "  First line\r\nsecond *line* <b>\r\rthird\ttab  \n\n\nend "
    assert read(save("a.txt", text.encode())).text == text.replace("\r\n", "\n").replace("\r", "\n")


def test_markdown_keeps_every_character_and_names_its_title(save: Save) -> None:
    text = "```\n# no title\n```\n\n# The *first* heading\n\n| a | b |\n| - | - |\n| 1 | 2 |\n"
    parsed = read(save("a.md", text.encode()))
    assert parsed.text == text
    assert parsed.title == "The first heading"
    assert parsed.properties == {"mimeType": "text/markdown", "fileSize": len(text)}


GREETING = "Grüße aus Köln: 5 € für den Käse"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(GREETING.encode(), id="utf-8"),
        pytest.param(GREETING.encode("utf-8-sig"), id="utf-8 with mark"),
        pytest.param(GREETING.encode("utf-16"), id="utf-16 with mark"),
        pytest.param(GREETING.encode("utf-16-be"), id="utf-16 without mark"),
        pytest.param(GREETING.encode("utf-32"), id="utf-32 with mark"),
        pytest.param(GREETING.encode("utf-32-le"), id="utf-32 without mark"),
        pytest.param(GREETING.encode("cp1252"), id="windows-1252"),
    ],
)
def test_the_encoding_of_a_text_is_found(save: Save, data: bytes) -> None:
    assert read(save("a.txt", data)).text == GREETING


@pytest.mark.parametrize("name", ["a.txt", "a.html", "a.csv"])
def test_zero_bytes_and_lone_surrogates_never_reach_the_text(save: Save, name: str) -> None:
    text = read(save(name, b"before\0 the zero and the surrogate \xed\xa0\x80 after, in a row of ordinary words")).text
    assert "\0" not in text
    assert "before the zero" in text
    text.encode()


# Documents


def test_each_page_of_a_pdf_starts_where_its_text_starts(save: Save) -> None:
    texts = [
        "Höhe: “spring tide” at noon.\nThe harbour floods.",
        "Ebb tide — follows “slowly”.",
        "Neap tide ends the week.",
    ]
    parsed = read(save("tides.pdf", pdf(*texts)))
    assert parsed.title == "Tide tables"
    assert parsed.properties["pageCount"] == 3
    assert len(parsed.pages) == 3
    ends = (*parsed.pages[1:], len(parsed.text))
    pages = [parsed.text[start:end].strip() for start, end in zip(parsed.pages, ends, strict=True)]
    assert ["spring tide" in pages[0], pages[1][:8], pages[2][:9]] == [True, "Ebb tide", "Neap tide"]
    assert "harbour floods" in pages[0]


def test_an_empty_page_takes_no_room(save: Save) -> None:
    parsed = read(save("a.pdf", pdf("Spring tide at noon.", "", "Neap tide ends the week.")))
    assert parsed.pages[0] == 0
    assert parsed.pages[1] == parsed.pages[2]
    assert parsed.text[parsed.pages[2] :].startswith("Neap")


def test_pages_with_the_same_first_words_keep_their_own_starts(save: Save) -> None:
    heading = "Annual report of the harbour office"
    parsed = read(save("a.pdf", pdf(f"{heading} says a.", f"{heading} says b.")))
    assert parsed.pages == (0, parsed.text.rindex(heading))


def test_structure_of_a_word_document_survives(save: Save) -> None:
    document = docx.Document()
    document.core_properties.title = "The keeper's log"
    document.core_properties.author = "M. Petrel"
    document.core_properties.modified = datetime(2026, 3, 4, 5, 6, 7)  # noqa: DTZ001 - it knows no time zones
    document.add_heading("Weather", 1)
    document.add_paragraph("Fog in the morning.")
    bullet = document.add_paragraph("Lamp oil", style="List Bullet")
    numbering = bullet.paragraph_format.element.get_or_add_pPr().get_or_add_numPr()
    numbering.get_or_add_numId().val = document.styles["List Bullet"].element.pPr.numPr.numId.val
    numbering.get_or_add_ilvl().val = 0
    table = document.add_table(2, 2)
    for cell, words in zip(
        [c for row in table.rows for c in row.cells], ["Day", "Wind", "Monday", "9 knots"], strict=True
    ):
        cell.text = words
    document.sections[0].footer.paragraphs[0].text = "Rock station 4"
    file = io.BytesIO()
    document.save(file)
    parsed = read(save("log.docx", file.getvalue()))
    assert parsed.title == "The keeper's log"
    assert parsed.properties["author"] == "M. Petrel"
    assert parsed.properties["modifiedAt"] == "2026-03-04T05:06:07Z"
    lines = parsed.text.split("\n")
    assert {"# Weather", "- Lamp oil", "| Day | Wind |", "| Monday | 9 knots |", "Rock station 4"} <= set(lines)


def test_html_becomes_markdown_without_scripts_and_embedded_pictures(save: Save) -> None:
    html = (
        "<html lang='de'><head><meta charset='windows-1252'><title>Wetter</title>"
        "<script>function x(){}</script></head><body><h2>Küste</h2><ul><li>Böen</li></ul>"
        "<img alt='Karte' src='data:image/png;base64,iVBORw0KGgoAAAA'></body></html>"
    )
    parsed = read(save("a.html", html.encode("cp1252")))
    assert "## Küste" in parsed.text
    assert "- Böen" in parsed.text
    assert "Karte" in parsed.text
    assert not {"function", "base64", "iVBOR"} & set(parsed.text.replace("(", " ").split())
    assert (parsed.title, parsed.properties["language"]) == ("Wetter", "de")


@pytest.mark.parametrize(
    ("head", "body", "text"),
    [
        ("<title>Tides</title>", "<p>Spring</p>", "# Tides\n\nSpring\n"),
        ("<title>Tides</title><meta name='x' content='y'>", "<h1>Tides</h1><p>Spring</p>", "# Tides\n\nSpring\n"),
        ("<meta name='x' content='y'>", "<p>Spring</p>", "Spring\n"),
        ("", "<hr><h2>title: real</h2><p>x</p>", "---\n\n## title: real\n\nx\n"),
    ],
)
def test_the_head_of_a_page_is_its_title_and_no_more(save: Save, head: str, body: str, text: str) -> None:
    assert read(save("a.html", f"<html><head>{head}</head><body>{body}</body></html>".encode())).text == text


# What a file is


def test_content_counts_more_than_the_name(save: Save) -> None:
    assert "spring tide" in read(save("named.docx", pdf("A spring tide at noon."))).text
    assert "lighthouse" in read(save("named.pdf", word(PARAGRAPH))).text
    assert "<b>" not in read(save("named.txt", b"<!DOCTYPE html><html><body><b>bold</b></body></html>")).text


def test_an_unknown_kind_is_refused_with_the_kinds_that_are_taken(save: Save) -> None:
    message = refusal(save("song.mp3", b"ID3\x03\0\0\0\0\0\x17" + bytes(range(256)) * 20))
    assert all(kind in message for kind in (".mp3", "PDF", "DOCX", "HTML", "Markdown", "plain text"))
    assert "ZIP" in message


def test_an_archive_becomes_a_list_of_its_unpacked_files(save: Save) -> None:
    parsed = read(save("a.zip", packed({"docs/a.txt": b"one", "b.bin": b"two"})))
    assert parsed.text == "# Files in a.zip\n\n- docs/a.txt\n- b.bin\n"
    assert [(member.path, member.file.read_bytes()) for member in parsed.members] == [
        ("docs/a.txt", b"one"),
        ("b.bin", b"two"),
    ]


def test_an_empty_archive_is_refused(save: Save) -> None:
    assert "holds no files" in refusal(save("a.zip", packed({})))


def test_a_name_that_promises_what_the_content_is_not_is_refused(save: Save) -> None:
    assert "no PDF" in refusal(save("a.pdf", b"just some words"))


def test_a_text_sent_as_text_may_have_any_name(save: Save) -> None:
    raw = save("report.pdf", b"just some words")
    text_file = RawContent(path=raw.path, name=raw.name, media_type="text/plain; charset=utf-8", size=raw.size)
    assert read(text_file).text == "just some words"


# Hostile and broken files


def test_a_pdf_with_a_password_is_refused_in_words(save: Save) -> None:
    locked = pdf("secret", encrypt=StandardEncryption("open sesame", "owner"))
    assert "password" in refusal(save("a.pdf", locked))


def test_a_pdf_with_an_owner_password_only_is_read(save: Save) -> None:
    assert "public words" in read(save("a.pdf", pdf("public words", encrypt=StandardEncryption("", "owner")))).text


@pytest.mark.parametrize(("name", "data"), [("a.pdf", pdf("text " * 20)[:600]), ("a.docx", word(PARAGRAPH * 50)[:-40])])
def test_a_damaged_file_is_refused_in_words(save: Save, name: str, data: bytes) -> None:
    message = refusal(save(name, data))
    assert f"The {name[2:].upper()} file is damaged or incomplete" in message


@pytest.mark.parametrize("data", [OLE + bytes(3000), OLE + bytes(40)])
def test_a_compound_file_of_nothing_known_is_refused_with_the_kinds_that_are_taken(save: Save, data: bytes) -> None:
    assert "Kinds that are taken: PDF" in refusal(save("a.doc", data))


@pytest.mark.parametrize("data", [b"", b" \n\t \r\n"])
def test_a_file_without_text_is_refused(save: Save, data: bytes) -> None:
    assert "Upload a file with text in it." in refusal(save("a.txt", data))


def test_a_scan_is_refused_with_the_strategy_to_use(save: Save) -> None:
    blank = save("scan.pdf", pdf("", ""))
    assert "STANDARD_OCR" in refusal(blank)
    assert "nothing but blank pages" in refusal(blank, OcrStrategy.STANDARD_OCR)
    picture = save("a.png", b"\x89PNG\r\n\x1a\n" + bytes(64))
    assert "STANDARD_OCR" in refusal(picture)
    assert "damaged or incomplete" in refusal(picture, OcrStrategy.STANDARD_OCR)


def test_an_outside_entity_is_not_read(save: Save, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the-secret-of-the-host")
    entity = f'<!DOCTYPE r [<!ENTITY x SYSTEM "file://{secret}">]>'
    xml = f'<?xml version="1.0"?>{entity}<r><p>harmless words</p><p>&x;</p></r>'
    text = read(save("a.xml", xml.encode())).text
    assert "harmless words" in text
    assert "the-secret-of-the-host" not in text


def test_a_bomb_is_refused_before_it_unfolds(save: Save) -> None:
    message = refusal(save("bomb.docx", word(b" " * (200 * MB))))
    assert "unfolds to 200 MB" in message


# Limits of the child


def test_a_file_that_takes_too_much_memory_is_refused(
    save: Save, limited: Callable[[float, int], DocumentParser]
) -> None:
    small = limited(60, 96 * MB)
    hungry = save("hungry.docx", word(PARAGRAPH * (20 * MB // len(PARAGRAPH))))
    message = refusal(hungry, by=small)
    assert "more than 96 MB of memory" in message
    assert "spring tide" in small.parse(save("a.pdf", pdf("A spring tide.")), OcrStrategy.BASIC_PARSER).text


def test_a_file_that_takes_too_long_is_refused(save: Save, limited: Callable[[float, int], DocumentParser]) -> None:
    hasty = limited(1, 2048 * MB)
    hasty.pool.start_child()
    began = time.monotonic()
    message = refusal(save("slow.docx", word(PARAGRAPH * 1_000_000)), by=hasty)
    assert "more than 1 s" in message
    assert time.monotonic() - began < 15


def test_a_machine_on_which_no_child_starts_is_not_the_files_fault(
    save: Save, limited: Callable[[float, int], DocumentParser]
) -> None:
    with pytest.raises(Retryable, match="could not be started"):
        limited(60, MB).parse(save("a.pdf", pdf("A spring tide.")), OcrStrategy.BASIC_PARSER)


def test_a_child_that_is_killed_fails_its_file_only(
    save: Save, limited: Callable[[float, int], DocumentParser]
) -> None:
    parser = limited(60, 2048 * MB)
    children_before = set(list_children())
    parser.pool.start_child()
    (child,) = set(list_children()) - children_before
    slow = save("slow.docx", word(PARAGRAPH * 1_000_000))
    killer = threading.Timer(1.0, os.kill, (child, signal.SIGKILL))
    killer.start()
    message = refusal(slow, by=parser)
    killer.join()
    assert "ended from outside" in message
    assert "spring tide" in parser.parse(save("a.pdf", pdf("A spring tide.")), OcrStrategy.BASIC_PARSER).text


def list_children() -> Iterator[int]:
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that ended
            yield from map(int, (task / "children").read_text().split())


def test_a_file_that_takes_long_keeps_no_place_from_others(save: Save) -> None:
    pool = ChildPool(1, Limits(seconds=60, memory_bytes=2048 * MB), quick_seconds=0.3)
    parser = DocumentParser(pool, 2048 * MB, 60)
    slow = save("slow.docx", word(PARAGRAPH * 1_000_000))

    def read_slow_file() -> None:
        with suppress(Skippable, Retryable):  # its child ends with the pool
            parser.parse(slow, OcrStrategy.BASIC_PARSER)

    thread = threading.Thread(target=read_slow_file)
    children_before = set(list_children())
    thread.start()
    time.sleep(0.5)
    try:
        assert "spring tide" in parser.parse(save("a.pdf", pdf("A spring tide.")), OcrStrategy.BASIC_PARSER).text
        assert thread.is_alive()
    finally:
        while thread.is_alive():
            for child in set(list_children()) - children_before:
                os.kill(child, signal.SIGKILL)
            thread.join(0.1)
        pool.close()


def test_a_child_can_neither_dial_nor_start_programs() -> None:
    script = (
        "from connectors.parsers import confinement\n"
        "confinement.confine_process(2**29, 2**20)\n"
        "import os, socket\n"
        "for attempt in (socket.socket, lambda: os.execv('/bin/true', ['true'])):\n"
        "    try:\n"
        "        attempt()\n"
        "    except PermissionError:\n"
        "        print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60, cwd=PROJECT_ROOT
    )
    assert done.stdout.split() == ["refused", "refused"]
