"""A refusal names the true reason: an old format, a protection, or text in other files of the document."""

# ruff: noqa: E501, RUF001 - parts of packages, letters of many scripts

from __future__ import annotations

import io
import struct
import zipfile

import pytest
from docx import Document
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from retrieval.errors import Skippable
from tests.standins import outlook

pytestmark = pytest.mark.service


@pytest.mark.parametrize(("magic", "version"), [(0xA5DC, 101), (0xA5DC, 104), (0xA5EC, 104), (0xA697, 101)])
def test_a_document_of_word_6_or_95_is_named(read, magic, version):
    data = outlook.compound({"WordDocument": struct.pack("<HH", magic, version).ljust(5000, b"\0")})
    with pytest.raises(Skippable, match=r"Word 6 and Word 95 are not read\. .*save it as DOCX"):
        read("letter.doc", data)


def irregular_word_97(text: str) -> bytes:
    """Return a Word 97 document of a text and its piece table, without the styles that a converter needs."""
    letters = text.encode("utf-16-le")
    head = bytearray(2048)
    struct.pack_into("<HH", head, 0, 0xA5EC, 0x00C1)
    struct.pack_into("<H", head, 0x0A, 0x0200)
    struct.pack_into("<i", head, 0x4C, len(text))
    pieces = b"\x02" + struct.pack("<I", 16) + struct.pack("<II", 0, len(text)) + struct.pack("<HIH", 0, len(head), 0)
    struct.pack_into("<II", head, 0x01A2, 0, len(pieces))
    return outlook.compound(
        {"WordDocument": (bytes(head) + letters).ljust(5000, b"\0"), "1Table": pieces.ljust(5000, b"\0")}
    )


def test_an_irregular_document_is_read_without_its_layout(read):
    text = 'Tides of the harbour\rSee \x13 HYPERLINK "https://a.example" \x14the tables\x15 of May.\rДеревня\r'
    parsed = read("tides.doc", irregular_word_97(text))
    assert parsed.text == "Tides of the harbour\n\nSee the tables of May.\n\nДеревня\n"
    assert parsed.properties["notice"].startswith("Not read: tables, lists, notes and headers")


def test_a_document_of_broken_pieces_is_damaged(read):
    for text in ("", "\xff\xfe\x01\x02" * 400):
        with pytest.raises(Skippable, match="damaged"):
            read("tides.doc", irregular_word_97(text))


@pytest.mark.parametrize(
    ("head", "label"),
    [
        (b"\xfe\x37\x00\x23", "Word for Macintosh"),
        (b"\xdb\xa5\x2d\x00", "Word 1 or 2"),
        (b"\x31\xbe\x00\x00\x00\xab", "Microsoft Write"),
    ],
)
def test_older_documents_of_word_are_named(read, head, label):
    with pytest.raises(Skippable, match=label):
        read("letter.doc", head + bytes(range(256)) * 8)


@pytest.mark.parametrize(
    ("name", "data", "label"),
    [
        ("a.slk", b'ID;PWXL;N;E\r\nC;Y1;X1;K"Zeit"\r\nE\r\n', "SYLK"),
        ("a.dif", b'TABLE\r\n0,1\r\n"EXCEL"\r\nVECTORS\r\n0,2\r\n', "DIF"),
    ],
)
def test_spreadsheets_in_text_of_other_programs_are_named(read, name, data, label):
    with pytest.raises(Skippable, match=f"{label} spreadsheet"):
        read(name, data)


@pytest.mark.parametrize(
    "streams",
    [
        {"\tDRMContent": b"x" * 5000, "WordDocument": b"x" * 5000},
        {"EncryptedPackage": b"x" * 5000, "\x06DataSpaces": {"TransformInfo": {"DRMEncryptedTransform": b"x"}}},
    ],
)
def test_a_document_under_rights_management_is_refused(read, streams):
    with pytest.raises(Skippable, match="no password opens"):
        read("letter.docx", outlook.compound(streams))


@pytest.mark.parametrize("security", [b"/FoxitSec", b"/PubSec.X"])
def test_a_pdf_of_another_security_scheme_is_protected_not_damaged(read, security):
    file = io.BytesIO()
    canvas = Canvas(file, encrypt=StandardEncryption("", "owner"))
    canvas.drawString(72, 700, "Secret tides.")
    canvas.save()
    data = file.getvalue().replace(b"/Standard", security)
    assert security in data
    with pytest.raises(Skippable, match="protected by a certificate or by rights management"):
        read("tides.pdf", data)


def with_chunk(name: str, chunk: bytes, words: str = "") -> bytes:
    """Return a Word document with its text in an altChunk, as report generators write."""
    file, document = io.BytesIO(), Document()
    if words:
        document.add_paragraph(words)
    document.save(file)
    changed = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(changed, "w") as target:
        for entry in source.namelist():
            data = source.read(entry)
            if entry == "word/_rels/document.xml.rels":
                kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/aFChunk"
                data = data.replace(
                    b"</Relationships>",
                    f'<Relationship Id="c1" Type="{kind}" Target="{name}"/></Relationships>'.encode(),
                )
            elif entry == "word/document.xml":
                space = b'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
                data = data.replace(b"<w:sectPr", b'<w:altChunk %s r:id="c1"/><w:sectPr' % space, 1)
            target.writestr(entry, data)
        target.writestr(f"word/{name}", chunk)
    return changed.getvalue()


def with_declaration(declaration: str) -> bytes:
    """Return a Word document with a declaration before its text."""
    source, target = io.BytesIO(), io.BytesIO()
    document = Document()
    document.add_paragraph("High water at noon.")
    document.save(source)
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w") as changed:
        for name in archive.namelist():
            data = archive.read(name)
            mark = b"<w:document" if name == "word/document.xml" else b"no such mark"
            changed.writestr(name, data.replace(mark, declaration.encode() + mark, 1))
    return target.getvalue()


def test_a_document_that_declares_entities_is_refused_for_them(read):
    with pytest.raises(Skippable, match="declares entities"):
        read("a.docx", with_declaration('<!DOCTYPE w [<!ENTITY a "haha">]>'))


def test_a_document_type_without_entities_is_no_damage(read):
    assert "High water at noon." in read("a.docx", with_declaration('<!DOCTYPE w SYSTEM "w.dtd">')).text


def test_entities_of_an_xml_file_are_its_text(read):
    declarations = '<!DOCTYPE a [<!ENTITY corp "ACME <b>Ltd</b>"><!ENTITY part SYSTEM "part1.xml"><!ENTITY idle "x">]>'
    parsed = read(
        "a.xml",
        f"<?xml version='1.0'?>{declarations}<a><p>Sold by &corp;, 10&nbsp;km away, caf&eacute;.</p>&part;</a>".encode(),
    )
    assert "Sold by ACME Ltd, 10 km away, café." in parsed.text
    assert parsed.properties["notice"] == "Not read: other files that the XML includes: part1.xml."


def test_entities_that_unfold_without_end_are_named(read):
    bomb = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    with pytest.raises(Skippable, match="declares entities"):
        read("a.xml", f'<!DOCTYPE a [<!ENTITY e0 "haha">{bomb}]><a><p>Tides</p><p>&e10;</p></a>'.encode())


CHUNKS = {
    "chunk.htm": b"<html><body><p>High water at <b>noon</b>.</p></body></html>",
    "chunk.txt": b"High water at noon.",
    "chunk.mht": b'MIME-Version: 1.0\nContent-Type: text/html; charset="utf-8"\n\n<html><body>High water at noon.</body></html>',
    "chunk.rtf": rb"{\rtf1 High water at noon.}",
}


@pytest.mark.parametrize("words", ["", "Tides of the harbour."])
@pytest.mark.parametrize("name", CHUNKS)
def test_the_text_of_a_chunk_is_read(unpack, name, words):
    documents = unpack("report.docx", with_chunk(name, CHUNKS[name], words))
    assert not [document.error for document in documents if document.error]
    assert any("High water at" in document.markdown for document in documents)


def test_a_template_of_styles_holds_no_text(read):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text-template")
        archive.writestr("styles.xml", "<styles/>")
    with pytest.raises(Skippable, match="holds no text"):
        read("default.ott", file.getvalue())


def test_a_document_without_any_text_is_refused(read):
    file = io.BytesIO()
    Document().save(file)
    with pytest.raises(Skippable, match="holds no text"):
        read("empty.docx", file.getvalue())
