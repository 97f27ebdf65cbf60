"""Old and open office files, made with LibreOffice 7.4, and texts of every encoding."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import olefile
import openpyxl
import pytest
from reportlab.pdfgen.canvas import Canvas

from connectors.parsers import messages
from retrieval.errors import Skippable
from tests.connectors.parsers.conftest import Read

OFFICE = Path(__file__).resolve().parents[2] / "fixtures" / "office"
LEDGER = "The harbour master keeps a ledger of every vessel."


@pytest.mark.parametrize(
    ("name", "words", "media_type"),
    [
        ("harbour.doc", (LEDGER, "Größe und Gewicht"), "application/msword"),
        ("harbour.xls", ("| Minerva | Kaffee und Größe |",), "application/vnd.ms-excel"),
        ("harbour.ppt.gz", ("Harbour rules", LEDGER), "application/vnd.ms-powerpoint"),
        ("harbour.odp", ("Harbour rules", LEDGER), "application/vnd.oasis.opendocument.presentation"),
    ],
)
def test_an_office_file_of_an_older_or_open_format_is_read(
    read: Read, name: str, words: tuple[str, ...], media_type: str
) -> None:
    data = (OFFICE / name).read_bytes()
    parsed = read(name.removesuffix(".gz"), gzip.decompress(data) if name.endswith(".gz") else data)
    assert [part for part in words if part not in parsed.text] == []
    assert "Click to edit" not in parsed.text + parsed.title
    assert parsed.properties["mimeType"] == media_type


def test_a_formula_that_was_never_calculated_is_a_blank_cell_and_a_notice(read: Read) -> None:
    file, book = io.BytesIO(), openpyxl.Workbook()
    for row in (["Goods", "Casks", "Price", "Total"], ["Coffee", 12, 30, "=B2*C2"]):
        book.active.append(row)
    book.save(file)
    parsed = read("goods.xlsx", file.getvalue())
    lines = [line.replace(" ", "") for line in parsed.text.splitlines()]
    assert "|Goods|Casks|Price|Total|" in lines
    assert "|Coffee|12|30||" in lines
    assert "results of formulas (1)" in str(parsed.properties["notice"])


def marked(data: bytes, stream: str, offset: int, mark: bytes) -> bytes:
    """Overwrite bytes at an offset of one stream, as the format marks encryption."""
    file = io.BytesIO(data)
    with olefile.OleFileIO(file, write_mode=True) as opened:
        body = opened.openstream(stream).read()
        opened.write_stream(stream, body[:offset] + mark + body[offset + len(mark) :])
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "stream", "offset", "mark"),
    [
        ("harbour.doc", "WordDocument", 10, b"\x00\x13"),
        ("harbour.ppt.gz", "Current User", 12, b"\xdf\xc4\xd1\xf3"),
        ("harbour.xls", "Workbook", 20, b"\x2f\x00"),
    ],
)
def test_an_older_office_file_with_a_password_is_refused_in_words(
    read: Read, name: str, stream: str, offset: int, mark: bytes
) -> None:
    data = (OFFICE / name).read_bytes()
    locked = marked(gzip.decompress(data) if name.endswith(".gz") else data, stream, offset, mark)
    with pytest.raises(Skippable, match="protected by a password"):
        read(name.removesuffix(".gz"), locked)


def test_a_pdf_locked_with_aes_256_is_refused_in_words_unless_it_opens_without_a_password(read: Read) -> None:
    # Made with pypdf 7.1: the same page with a user password and with an owner password.
    with pytest.raises(Skippable, match="The PDF is protected by a password"):
        read("a.pdf", (OFFICE / "locked_aes256.pdf").read_bytes())
    assert read("b.pdf", (OFFICE / "owner_aes256.pdf").read_bytes()).text.startswith("The tide turns")


ODF_XMLNS = "".join(
    f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{namespace}:1.0"'
    for name, namespace in (("office", "office"), ("style", "style"), ("text", "text"), ("draw", "drawing"),
                        ("table", "table"), ("presentation", "presentation"), ("svg", "svg-compatible"))
)  # fmt: skip


def slides(body: str, prefix: str = "") -> bytes:
    return opened("presentation", body, prefix)


def opened(kind: str, body: str, prefix: str = "") -> bytes:
    """An OpenDocument file of a kind."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", f"application/vnd.oasis.opendocument.{kind}")
        archive.writestr("content.xml", f"{prefix}<office:document-content{ODF_XMLNS}>{body}</office:document-content>")
    return file.getvalue()


def test_an_open_text_keeps_all_that_a_reader_sees(read: Read) -> None:
    # Lists in cells, formatted words, text boxes, notes and comments; deleted text is left out.
    items = "".join(f"<text:list-item><text:p>{item}</text:p></text:list-item>" for item in ("Tar", "Rope"))
    cell = "<table:table-cell>{}</table:table-cell>"
    row = f"<table:table-row>{cell}{cell}</table:table-row>"
    body = (
        "<office:body><office:text><text:tracked-changes><text:p>Deleted words.</text:p></text:tracked-changes>"
        '<text:h text:outline-level="2">Harbour <text:span>rules</text:span></text:h>'
        "<text:p>The <text:span>pilot</text:span> boards<text:note><text:note-citation>1</text:note-citation>"
        "<text:note-body><text:p>At the buoy.</text:p></text:note-body></text:note> first."
        "<office:annotation><text:p>Say when.</text:p></office:annotation>"
        "<draw:frame><draw:text-box><text:p>No wake!<draw:frame><draw:text-box><text:p>Inner box.</text:p>"
        "</draw:text-box></draw:frame></text:p></draw:text-box></draw:frame>"
        "<draw:frame><svg:desc>A red lamp</svg:desc></draw:frame></text:p>"
        f"<table:table>{row.format('<text:p>Ship</text:p>', '<text:p>Needs</text:p>')}"
        f"{row.format('<text:p>Minerva</text:p>', f'<text:list>{items}</text:list>')}</table:table>"
        "</office:text></office:body>"
    )
    parsed = read("a.odt", opened("text", body))
    assert parsed.text.split("\n\n") == [
        "## Harbour rules",
        "The pilot boards [1] first.",
        "No wake!",
        "Inner box.",
        "[picture: A red lamp]",
        "| Ship | Needs |\n| --- | --- |\n| Minerva | - Tar - Rope |",
        "Footnote [1]: At the buoy.",
        "Comment: Say when.\n",
    ]
    assert (parsed.title, parsed.properties["mimeType"]) == (
        "Harbour rules",
        "application/vnd.oasis.opendocument.text",
    )


def test_titles_lists_tables_and_notes_of_slides_keep_their_form_and_page(read: Read) -> None:
    row = "<table:table-row><table:table-cell><text:p>{}</text:p></table:table-cell></table:table-row>"
    body = (
        '<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>Harbour <text:span>rules</text:span>'
        "</text:p></draw:text-box></draw:frame><draw:frame><draw:text-box><text:list><text:list-item><text:p>Tea"
        "</text:p></text:list-item></text:list></draw:text-box></draw:frame></draw:page><draw:page><draw:frame>"
        f"<table:table>{row.format('Ship')}{row.format('Minerva')}</table:table></draw:frame><presentation:notes>"
        '<draw:frame presentation:class="notes"><draw:text-box><text:p>Say it slowly.</text:p></draw:text-box>'
        "</draw:frame></presentation:notes></draw:page>"
    )
    parsed = read("a.odp", slides(body))
    assert parsed.title == "Harbour rules"
    assert parsed.text[: parsed.pages[1]] == "## Harbour rules\n\n- Tea\n\n"
    assert parsed.text[parsed.pages[1] :] == "| Ship |\n| --- |\n| Minerva |\n\nNotes on slide 2: Say it slowly.\n\n"
    assert parsed.properties["pageCount"] == 2


@pytest.mark.parametrize(
    ("prefix", "reason"),
    [('<!DOCTYPE x [<!ENTITY a "aaaa">]>', "declares entities"), ("<broken", "damaged"), ("<a>", "damaged")],
)
def test_slides_that_declare_entities_or_are_broken_are_refused(read: Read, prefix: str, reason: str) -> None:
    with pytest.raises(Skippable, match=reason):
        read("a.odp", slides("<draw:page/>", prefix))


def test_a_long_pdf_is_read_window_by_window_as_if_in_one(read: Read) -> None:
    file = io.BytesIO()
    canvas = Canvas(file)
    canvas.setTitle("Harbour rules")
    canvas.setAuthor("The harbour master")
    for page in range(1, messages.WINDOW_PAGES + 4):
        if page != messages.WINDOW_PAGES + 1:
            canvas.drawString(50, 700, f"Rule number {page} of the harbour holds for every vessel.")
        canvas.showPage()
    canvas.save()
    parsed = read("rules.pdf", file.getvalue())
    assert parsed.title == "Harbour rules"
    assert parsed.properties["pageCount"] == len(parsed.pages) == messages.WINDOW_PAGES + 3
    assert parsed.properties["author"] == "The harbour master"
    assert parsed.properties["fileSize"] == len(file.getvalue())
    assert list(parsed.pages) == sorted(parsed.pages)
    for page in (1, messages.WINDOW_PAGES, messages.WINDOW_PAGES + 2, messages.WINDOW_PAGES + 3):
        assert parsed.text[parsed.pages[page - 1] :].startswith(f"Rule number {page} of the harbour")


def test_a_pdf_of_more_pages_than_are_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MAX_PAGES", 2)
    with pytest.raises(Skippable, match="3 pages; at most 2"):
        messages.check_page_count(3)
