"""The text of a mail is its visible text: HTML without markup, original line breaks, names in any script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from struct import pack

import pytest

from connectors.parsers.parser import document_parser
from retrieval.ports import OcrStrategy, Parsed, RawContent
from tests.standins import outlook

HEAD = "From: ann@example.com\r\nTo: bo@example.com\r\nSubject: Seals\r\nMIME-Version: 1.0\r\n"
READ = "**Subject**: Seals\n**From**: ann@example.com\n**To**: bo@example.com\n\n"
Read = Callable[[str], Parsed]


@pytest.fixture
def read_mail(read: Callable[[str, bytes], Parsed]) -> Read:
    return lambda mail: read("mail.eml", mail.encode())


def page(html: str) -> str:
    return f"Content-Type: text/html; charset=utf-8\r\n\r\n<html><head><title></title></head><body>{html}</body></html>"


def parts(kind: str, *bodies: str) -> str:
    inner = "".join(f"--B\r\n{body}\r\n" for body in bodies)
    return f'Content-Type: multipart/{kind}; boundary="B"\r\n\r\n{inner}--B--\r\n'


def words(text: str) -> str:
    return f"Content-Type: text/plain; charset=utf-8\r\n\r\n{text}"


def test_a_mail_without_plain_text_is_read_as_a_page(read_mail: Read) -> None:
    table = "<table><tr><td>Seals</td><td>3</td></tr><tr><td>R&amp;D</td><td>25 &euro;</td></tr></table>"
    text = read_mail(HEAD + page(f"<p>Dear Bo,</p><p>see below.</p>{table}")).text
    assert text.startswith(READ + "Dear Bo,\n\nsee below.\n\n")
    assert text.splitlines()[-3::2] == ["| Seals | 3 |", "| R&D | 25 € |"]


def test_lines_of_a_mail_stay_lines(read_mail: Read) -> None:
    body = "Bring:\r\n- rope\r\n- two lamps\r\n\r\n> Where?\r\nAt_the_quay\r\n"
    assert read_mail(HEAD + words(body)).text == READ + body.replace("\r\n", "\n")


@pytest.mark.parametrize(("form", "paragraph"), [("", "It rose fast."), ("; delsp=yes", "It rosefast.")])
def test_lines_that_a_mail_program_wrapped_are_paragraphs(read_mail: Read, form: str, paragraph: str) -> None:
    text = "It rose \r\nfast.\r\n\r\n> Was it \r\n> high?\r\n>> Yes\r\n--\x20\r\nAnn"
    mail = read_mail(f"{HEAD}Content-Type: text/plain; format=flowed{form}\r\n\r\n{text}").text
    quoted = "> Was ithigh?" if form else "> Was it high?"
    assert mail == f"{READ}{paragraph}\n\n{quoted}\n>> Yes\n-- \nAnn\n"


def test_of_two_versions_the_plain_one_counts_unless_it_is_an_excuse(read_mail: Read) -> None:
    long = "<p>" + "The seal dives for thirty minutes. " * 10 + "</p>"
    assert read_mail(
        HEAD + parts("alternative", words("The seal dives."), page("<p>The seal dives!</p>"))
    ).text.endswith("The seal dives.\n")
    text = read_mail(HEAD + parts("alternative", words("Your program shows no HTML."), page(long))).text
    assert "thirty minutes" in text
    assert "Your program" not in text


def test_names_in_japanese_charsets_and_raw_headers_are_read(read_mail: Read) -> None:
    sender = "=?iso-2022-jp?B?GyRCOEQwdxsoQg==?= <ko@example.com>"
    mail = f"From: {sender}\r\nSubject: =?shift_jis?B?jWCCzIOBg4I=?=\r\n\r\nHello.\r\n"
    parsed = read_mail(mail)
    assert parsed.text.startswith("**Subject**: 港のメモ")
    assert "**From**: 個員 <ko@example.com>" in parsed.text
    assert parsed.properties["author"] == "個員 <ko@example.com>"
    assert parsed.title.startswith("港のメモ")
    assert read_mail("From: ann@example.com\r\nSubject: Grüße\r\n\r\nHello.\r\n").title == "Grüße"


def test_a_page_saved_as_one_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "raw"
    path.write_text(
        "From: <Saved by Blink>\r\nSubject: Seals\r\n" + parts("related", page("<h1>Seals</h1><p>dive</p>"))
    )
    raw = RawContent(path, "page.mhtml", "", path.stat().st_size)
    assert "# Seals\n\ndive" in document_parser().parse(raw, OcrStrategy.BASIC_PARSER).text


LEASE = "Договор аренды заключён в Москве."
INTERNET_CODE_PAGE, MESSAGE_CODE_PAGE = 0x3FDE0003, 0x3FFD0003


@pytest.mark.parametrize(
    ("codec", "pages", "meta"),
    [
        ("utf-8", {INTERNET_CODE_PAGE: 65001}, ""),
        ("cp1251", {INTERNET_CODE_PAGE: 1251}, ""),
        ("koi8-r", {INTERNET_CODE_PAGE: 20866}, ""),
        ("cp1251", {}, "<meta charset=windows-1251>"),
        ("cp1251", {}, ""),
    ],
)
@pytest.mark.parametrize("form", ["html", "text"])
def test_an_outlook_message_is_read_in_its_code_page(
    tmp_path: Path, form: str, codec: str, pages: dict[int, int], meta: str
) -> None:
    tree = outlook.streams("Lease", "", {})
    if form == "html":
        tree["__substg1.0_10130102"] = f"<html><head>{meta}</head><body><p>{LEASE}</p></body></html>".encode(codec)
    else:
        pages = {MESSAGE_CODE_PAGE if name == INTERNET_CODE_PAGE else name: page for name, page in pages.items()}
        tree["__substg1.0_1000001E"] = LEASE.encode(codec)
        del tree["__substg1.0_1000001F"]
    entries = b"".join(pack("<IIQ", name, 0, page) for name, page in pages.items())
    tree["__properties_version1.0"] = bytes(32) + entries
    path = tmp_path / "raw"
    path.write_bytes(outlook.compound(tree))
    parsed = document_parser().parse(RawContent(path, "lease.msg", "", path.stat().st_size), OcrStrategy.BASIC_PARSER)
    assert LEASE in parsed.text
