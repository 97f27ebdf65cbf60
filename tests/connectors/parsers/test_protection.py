"""The password of a retry opens protected files; a wrong password is refused with a reason."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import docx
import pytest
from msoffcrypto.format.ooxml import OOXMLFile
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from connectors.parsers import detect
from connectors.parsers.formats import protection
from connectors.parsers.parser import document_parser
from retrieval.errors import Skippable
from retrieval.failure_causes import find_cause
from retrieval.ports import OcrStrategy, Parsed, RawContent
from tests.connectors.parsers.test_office import OFFICE, opened

pytestmark = pytest.mark.service
"""Starts parser children."""

Read = Callable[..., Parsed]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read_file(name: str, data: bytes, password: str, ocr: OcrStrategy = OcrStrategy.BASIC_PARSER) -> Parsed:
        path = tmp_path / "raw"
        path.write_bytes(data)
        return document_parser().parse(RawContent(path, name, "", len(data), password=password), ocr)

    return read_file


def locked_word() -> bytes:
    """Return a Word file under agile encryption, the default of Office since 2010."""
    plain, locked, document = io.BytesIO(), io.BytesIO(), docx.Document()
    document.add_paragraph("The tide turns at noon.")
    document.save(plain)
    OOXMLFile(plain).encrypt("open sesame", locked)
    return locked.getvalue()


def locked_scan() -> bytes:
    """Return a scanned page in a PDF under 128-bit encryption."""
    picture, file = Image.new("RGB", (900, 200), "white"), io.BytesIO()
    ImageDraw.Draw(picture).text((40, 60), "The tide turns at noon", "black", ImageFont.load_default(60))
    canvas = Canvas(file, encrypt=StandardEncryption("open sesame", "owner", strength=128))
    canvas.drawImage(ImageReader(picture), 50, 600, 450, 100)
    canvas.save()
    return file.getvalue()


def fixture(name: str) -> bytes:
    data = (OFFICE / name).read_bytes()
    return gzip.decompress(data) if name.endswith(".gz") else data


@pytest.mark.parametrize(
    ("name", "data", "password", "words"),
    [
        ("a.pdf", fixture("locked_aes256.pdf"), "open sesame", "The tide turns"),
        ("a.docx", locked_word(), "open sesame", "The tide turns"),
        ("a.doc", fixture("locked_rc4.doc.gz"), "Password1234_", "lorem ipsum"),
        ("a.xls", fixture("locked_rc4.xls.gz"), "Password1234_", "| lorem ipsum |"),
    ],
)
def test_a_protected_file_is_read_only_with_its_password(
    read: Read, name: str, data: bytes, password: str, words: str
) -> None:
    parsed = read(name, data, password)
    assert words in parsed.text
    assert parsed.properties["fileSize"] == len(data)
    refusals = []
    for wrong_password in ("", "wrong"):
        with pytest.raises(Skippable) as caught:
            read(name, data, wrong_password)
        refusals.append(str(caught.value))
    assert ["does not open it" in refusal for refusal in refusals] == [False, True]
    assert {find_cause(refusal) for refusal in refusals} == {"PASSWORD"}


def test_members_of_a_zip_are_read_only_with_its_password(read: Read, tmp_path: Path) -> None:
    (member,) = read("a.zip", fixture("locked.zip"), "open sesame").members
    assert (member.path, member.file.read_text()) == ("tide.txt", "The tide turns at noon in the harbour.")
    with pytest.raises(Skippable, match="The ZIP archive is protected by a password, and the one that was given"):
        read("a.zip", fixture("locked.zip"), "wrong")


@pytest.mark.parametrize("name", ["locked_cp850.zip", "locked_cp1252.zip"])
def test_a_zip_opens_with_a_password_in_the_code_page_of_the_program_that_packed_it(read: Read, name: str) -> None:
    (member,) = read("a.zip", fixture(name), "Öffne dich, Tür").members
    assert member.file.read_text() == "The tide turns at noon in the harbour."


def test_a_wrong_password_that_seems_to_open_a_member_of_a_zip_is_refused(read: Read) -> None:
    # A ZIP member checks passwords by one byte: this password passes and the content is noise.
    with pytest.raises(Skippable, match="The ZIP archive is protected by a password, and the one that was given"):
        read("a.zip", fixture("locked.zip"), "wrong 72")


def test_what_no_password_opens_is_to_be_uploaded_without_protection(read: Read) -> None:
    # An archive under WinZip's AES and an OpenDocument text: the reason suggests no password.
    data = bytearray(fixture("locked.zip"))
    for sign, flag_offset in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        struct.pack_into("<H", data, data.index(sign) + flag_offset, 99)
    for name, content in (("a.zip", bytes(data)), ("a.odt", encrypted_text())):
        with pytest.raises(Skippable, match="Upload it without the protection") as caught:
            read(name, content, "open sesame")
        assert find_cause(str(caught.value)) == "UNREADABLE"


def encrypted_text() -> bytes:
    file = io.BytesIO(opened("text", ""))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("META-INF/manifest.xml", "<manifest:encryption-data/>")
    return file.getvalue()


def test_the_pictures_of_a_protected_scan_are_recognised(read: Read) -> None:
    assert "tide turns at noon" in read("a.pdf", locked_scan(), "open sesame", OcrStrategy.STANDARD_OCR).text


def test_a_password_leaves_files_without_one_as_they_are(read: Read) -> None:
    file = io.BytesIO()
    canvas = Canvas(file, encrypt=StandardEncryption("", "owner"))
    canvas.drawString(72, 700, "Anybody may read this.")
    canvas.save()
    assert "Anybody may read" in read("a.pdf", file.getvalue(), "open sesame").text
    assert "Minerva" in read("a.xls", fixture("harbour.xls"), "open sesame").text


def test_the_opened_copy_of_a_file_is_deleted_once_it_is_read():
    locked = OFFICE / "locked_aes256.pdf"
    with protection.open_copy(locked, detect.PDF, "open sesame") as copy:
        assert copy.read_bytes().startswith(b"%PDF")
    assert not copy.parent.exists()
    assert locked.exists()
