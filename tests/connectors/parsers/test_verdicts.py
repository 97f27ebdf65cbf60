"""Files of unusual make are read: words in no language, and other spellings of names within the file."""

# ruff: noqa: RUF001 - letters of Japanese

from __future__ import annotations

import gzip
import io
from pathlib import Path

import docx
import pytest

from retrieval.errors import Skippable
from tests.connectors.parsers.conftest import Read

# Identifier of the summary of a compound file.
SUMMARY_FORMAT = bytes.fromhex("e0859ff2f94f6810ab9108002b27b3d9")
OFFICE = Path(__file__).resolve().parents[2] / "fixtures" / "office"
REDACTED = "Dear Mr. Xxxxxxxx, xxxxxxxxx xxxx xxxxxx xxxxx xxxxxxxx xxx qqqxxqx xqxqx zxzxz xjxjx vxvxv kxkxk. " * 9
JAPANESE = (
    "現状課題：生徒に読みやすい誌面となっている一方で、年４回の内容が固定化しており、新鮮味に欠けることは否めない。"
    "ＦＦＪアプリを開発し、FFJ検定、QRコード、ＸＭＬ、PDFの得点をアプリ上で累積する機能をもたせ、WWW上に公開する。"
) * 20


def word_file(text: str) -> bytes:
    document, file = docx.Document(), io.BytesIO()
    document.add_paragraph(text)
    document.save(file)
    return file.getvalue()


def test_a_document_of_words_in_no_language_is_read_with_a_low_quality(read: Read) -> None:
    parsed = read("a.docx", word_file(REDACTED))
    assert "Dear Mr. Xxxxxxxx" in parsed.text
    assert parsed.qualities[0].quality < 0.4
    assert "To check" in str(parsed.properties["notice"])
    with pytest.raises(Skippable, match="letters follow each other"):
        read("a.txt", REDACTED.encode())


@pytest.mark.parametrize("name", ["a.docx", "a.txt"])
def test_text_in_a_script_without_model_is_read_despite_abbreviations(read: Read, name: str) -> None:
    data = word_file(JAPANESE) if name == "a.docx" else JAPANESE.encode()
    assert "現状課題" in read(name, data).text


def test_a_workbook_in_capital_letters_is_read(read: Read) -> None:
    data = (OFFICE / "harbour.xls").read_bytes()
    names = ("Workbook".encode("utf-16-le"), "WORKBOOK".encode("utf-16-le"))
    assert read("a.xls", data.replace(*names)).text == read("a.xls", data).text


def test_slides_with_a_title_in_wide_characters_are_read(read: Read) -> None:
    data = gzip.decompress((OFFICE / "slides.ppt.gz").read_bytes())
    at = data.index(SUMMARY_FORMAT)
    wide = data[:at] + data[at:].replace(b"\x1e\0\0\0", b"\x1f\0\0\0", 1)
    assert read("a.ppt", wide).text == read("a.ppt", data).text


def test_slides_of_powerpoint_95_are_refused_by_their_name(read: Read) -> None:
    data = gzip.decompress((OFFICE / "slides.ppt.gz").read_bytes())
    stream, replacement = ("DocumentSummaryInformation".encode("utf-16-le"), "Text_Content".encode("utf-16-le"))
    at = data.index(stream) - 2
    name = replacement + b"\0" * (64 - len(replacement)) + bytes([len(replacement) + 2, 0])
    with pytest.raises(Skippable, match=r"PowerPoint 95 .* save it as PPTX"):
        read("a.ppt", data[:at] + name + data[at + 66 :])
