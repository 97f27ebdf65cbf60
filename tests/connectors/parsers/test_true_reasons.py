"""A refusal names the true reason: an old format, a protection, or text in other files of the document."""

# ruff: noqa: E501 - parts of packages

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


def test_a_document_without_any_text_is_refused(read):
    file = io.BytesIO()
    Document().save(file)
    with pytest.raises(Skippable, match="holds no text"):
        read("empty.docx", file.getvalue())
