"""Nonstandard mails, mailboxes and items of Outlook."""

# ruff: noqa: E501, RUF001 - parts of mails

from __future__ import annotations

import base64
import quopri
import struct
from datetime import UTC, datetime
from uuid import UUID

import pytest

from retrieval.settings import PROJECT_ROOT
from tests.connectors.parsers import containers
from tests.standins import outlook

pytestmark = pytest.mark.service

INNER = "From: cy@example.com\r\nSubject: Older words\r\n\r\nThe pump = the Canaryone of 1999, caf\xe9.\r\n".encode()
CASE = PROJECT_ROOT.parent / "shared" / "data" / "cases-4" / "b1-nested-mail-base64.eml"


@pytest.fixture
def documents(unpack):
    """Return the texts or errors of a file and its parts."""
    return lambda name, data: {part.filename: part.markdown or str(part.error) for part in unpack(name, data)}


def mixed(*parts: bytes, end: bytes = b"--B--\r\n") -> bytes:
    head = b'Subject: Outer\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="B"\r\n\r\n'
    return head + b"".join(b"--B\r\n" + part + b"\r\n" for part in parts) + end


NOTE = b"Content-Type: text/plain\r\n\r\nSee below."


@pytest.mark.parametrize("encoding", ["base64", "quoted-printable"])
@pytest.mark.parametrize("alone", [True, False])
def test_an_encoded_message_within_a_mail_is_read(documents, encoding, alone):
    data = {"base64": base64.encodebytes(INNER), "quoted-printable": quopri.encodestring(INNER), "7bit": INNER}
    part = (
        f"Content-Type: message/rfc822\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n".encode()
        + data[encoding.lower()]
    )
    texts = documents("mail.eml", b"MIME-Version: 1.0\r\n" + part if alone else mixed(NOTE, part))
    texts |= documents("outer.eml", b"Subject: Fwd\r\nMIME-Version: 1.0\r\n" + part)
    assert "Canaryone" in texts["outer.eml/Older words.eml"]
    assert any("The pump = the Canaryone of 1999, café." in text for text in texts.values()), texts
    assert alone or "mail.eml/Older words.eml" in texts


@pytest.mark.skipif(not CASE.exists(), reason="the shared test data is not next to the project")
def test_the_shared_nested_mail_is_read(documents):
    texts = documents(CASE.name, CASE.read_bytes())
    assert all("ZW" not in text[:400] for text in texts.values()), texts
    assert len(texts) > 1


def word(charset: str, text: str, codec: str) -> str:
    return f"=?{charset}?B?{base64.b64encode(text.encode(codec)).decode()}?="


CHARSETS = [
    ("gb2312", "gbk", "朱镕基与喆哥的会议纪要"),
    ("shift_jis", "cp932", "①株式会社髙島屋の見積書"),
    ("ks_c_5601-1987", "cp949", "똠방각하 펲시콜라 회의록"),
    ("unknown-8bit", "utf-8", "Protokoll der Sitzung für Ölprüfung"),
    ("unknown-8bit", "cp1251", "Протокол совещания по насосам и клапанам"),
    ("iso-8859-1", "cp1252", "Price 25 € – “net”"),
    ("iso-2022-jp", "iso2022_jp_ext", "港のﾒﾓ"),
    ("utf-7", "utf-7", "Grüße aus Kiel"),
    ("hz-gb-2312", "hz", "会议的记录"),
]  # fmt: skip


@pytest.mark.parametrize(("charset", "codec", "text"), CHARSETS)
def test_a_charset_that_is_too_narrow_or_unknown_is_read(documents, charset, codec, text):
    data = text.encode(codec)
    name = "".join(f"%{byte:02X}" for byte in data)
    body = f"Content-Type: text/plain; charset={charset}\r\nContent-Transfer-Encoding: base64\r\n\r\n".encode()
    declared = (
        f"Content-Type: text/plain\r\nContent-Disposition: attachment; filename*={charset}''{name}.txt\r\n\r\nCanaryone"
    )
    quoted = f'Content-Type: text/plain; name="{word(charset, text, codec)}"\r\nContent-Disposition: attachment\r\n\r\nCanarytwo'
    mail = mixed(body + base64.encodebytes(data), declared.encode(), quoted.encode())
    mail = mail.replace(b"Subject: Outer", f"Subject: {word(charset, text, codec)}".encode())
    texts = documents("mail.eml", mail)
    assert texts["mail.eml"] == f"**Subject**: {text}\n\n{text}\n"
    assert texts[f"mail.eml/{text}.txt"] == "Canaryone"
    assert texts[f"mail.eml/{text}"] == "Canarytwo"


@pytest.mark.parametrize("codec", ["utf-8", "cp1252"])
def test_raw_bytes_in_headers_and_names_are_read(documents, codec):
    attached = 'Content-Type: text/plain\r\nContent-Disposition: attachment; filename="Prüfung Öl.txt"\r\n\r\nCanaryone'
    inner = "Content-Type: message/rfc822\r\n\r\nSubject: Frühere Prüfung\r\n\r\nCanarytwo"
    mail = mixed(NOTE, attached.encode(codec), inner.encode(codec)).replace(b"Outer", "Große Prüfung".encode(codec))
    texts = documents("mail.eml", mail)
    assert "**Subject**: Große Prüfung" in texts["mail.eml"]
    assert texts["mail.eml/Prüfung Öl.txt"] == "Canaryone"
    assert "Canarytwo" in texts["mail.eml/Frühere Prüfung.eml"]


def mbox(separator: str = "From ann@example.com Mon Nov 23 10:00:00 2026") -> bytes:
    mails = [
        "Subject: First\n\nCanaryone\n\n>From here on it rains.\n",
        "Subject: Second\nX: y\n\nCanarytwo\n",
        "Subject: First\n\nThird\n",
    ]
    return "".join(f"{separator}\n{mail}\n" for mail in mails).encode()


@pytest.mark.parametrize(("name", "lines"), [("mail.mbox", "\n"), ("Inbox", "\r\n")])
def test_a_mailbox_is_a_container_of_mails(documents, name, lines):
    texts = documents(name, mbox("From - Mon Nov 23 10:00:00 2026").replace(b"\n", lines.encode()))
    assert list(texts) == [name, f"{name}/First.eml", f"{name}/Second.eml", f"{name}/First (2).eml"]
    assert texts[f"{name}/First.eml"] == "**Subject**: First\n\nCanaryone\n\nFrom here on it rains.\n"
    assert "From here" not in texts[f"{name}/Second.eml"]


def test_mails_without_headers_in_a_mailbox_are_read(documents):
    data = b"".join(b"From ann Mon Jun 01 10:00:00 2009\n\nCanary%d\n\n" % number for number in (1, 2))
    assert [text.strip() for text in documents("simple.mbox", data).values()][1:] == ["Canary1", "Canary2"]


def test_a_text_that_begins_with_from_is_a_text(read):
    text = "From Kiel to Oslo\n\nThe ferry leaves at noon.\n"
    assert read("a.txt", text.encode()).text == text


def test_a_file_of_apple_mail_is_read_without_its_property_list(read):
    mail = b"Subject: Tides\n\nHigh water at noon.\n"
    data = f"{len(mail)}        \n".encode() + mail + b'<?xml version="1.0"?><plist><dict/></plist>\n'
    assert read("1.emlx", data).text == "**Subject**: Tides\n\nHigh water at noon.\n"


PDF = containers.pdf("Canaryone")[1]
ATTACHED = (
    b"Content-Type: application/pdf; name=a.pdf\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64.encodebytes(PDF)
)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (mixed(NOTE, ATTACHED, end=b""), "a.pdf"),
        (mixed(NOTE, ATTACHED)[:-400], "a.pdf"),
        (mixed(NOTE, end=b""), "text/plain"),
        (b"Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64.b64encode(b"High water at noon.")[:-3], "text/plain"),
    ],
)  # fmt: skip
def test_a_mail_that_is_cut_off_says_so(read, data, name):
    assert (
        read("mail.eml", b"Subject: Cut\r\n" + data)
        .properties["notice"]
        .startswith(f"Not read: what follows where the mail is cut off (1): {name}.")
    )


def test_a_whole_mail_has_no_notice(read):
    assert "notice" not in read("mail.eml", mixed(NOTE, ATTACHED)).properties


SETS = {name: UUID(f"0006200{name}-0000-0000-C000-000000000046") for name in "2348"}


def ticks(moment: datetime) -> bytes:
    return struct.pack("<Q", int((moment - datetime(1601, 1, 1, tzinfo=UTC)).total_seconds()) * 10**7)


def item(kind: str, texts: dict[tuple[str, int], str], fixed: dict[tuple[str, int, int], bytes], body: str) -> bytes:
    """Return an Outlook item with named properties (set and number) and numbered properties (set "")."""
    tree = outlook.streams("Pump check", body, {})
    tree["__substg1.0_001A001F"] = kind.encode("utf-16-le")
    sets, entries, properties = list(SETS), b"", b""
    keys = [key[:2] for key in (*texts, *fixed) if key[0]]
    numbers = {key: 0x8000 + at for at, key in enumerate(dict.fromkeys(keys))}
    for at, (name, number) in enumerate(numbers):
        entries += struct.pack("<IHH", number, (sets.index(name) + 3) << 1, at)
    for (name, number), text in texts.items():
        tree[f"__substg1.0_{numbers.get((name, number), number):04X}001F"] = text.encode("utf-16-le")
    for (name, number, kind_of_value), value in fixed.items():
        properties += struct.pack("<II", numbers.get((name, number), number) << 16 | kind_of_value, 6) + value.ljust(
            8, b"\0"
        )
    tree["__properties_version1.0"] = bytes(32) + properties
    guids = b"".join(SETS[name].bytes_le for name in sets)
    tree["__nameid_version1.0"] = {"__substg1.0_00020102": guids, "__substg1.0_00030102": entries}
    return outlook.compound(tree)


NOON = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
ITEMS = {
    "IPM.Appointment": (
        {("2", 0x8208): "Boiler room, Kiel", ("2", 0x8232): "every Wednesday"},
        {("2", 0x820D, 0x40): ticks(NOON), ("2", 0x820E, 0x40): ticks(NOON.replace(hour=13))},
        ["- Start: 2026-11-25 12:00 UTC", "- End: 2026-11-25 13:00 UTC", "- Location: Boiler room, Kiel", "- Repeats: every Wednesday"],
    ),
    "IPM.Contact": (
        {("", 0x3001): "Ann Doe", ("", 0x3A16): "Pumps Ltd", ("", 0x3A08): "+49 431 1234", ("", 0x3A1C): "+49 170 99",
         ("4", 0x8083): "ann@example.org", ("4", 0x801B): "Quay 1\r\n24103 Kiel"},
        {("", 0x3A42, 0x40): ticks(NOON)},
        ["- Name: Ann Doe", "- Organization: Pumps Ltd", "- E-mail: ann@example.org", "- Business phone: +49 431 1234",
         "- Mobile phone: +49 170 99", "- Business address: Quay 1", "  24103 Kiel", "- Birthday: 2026-11-25"],
    ),
    "IPM.Task": (
        {("3", 0x811F): "Ann Doe"},
        {("3", 0x8105, 0x40): ticks(NOON), ("3", 0x8101, 3): struct.pack("<I", 1), ("3", 0x8102, 5): struct.pack("<d", 0.25)},
        ["- Due: 2026-11-25", "- Status: In progress", "- Complete: 25%", "- Owner: Ann Doe"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ITEMS)
def test_an_item_of_outlook_keeps_its_properties(read, kind):
    texts, fixed, lines = ITEMS[kind]
    text = read("item.msg", item(kind, texts, fixed, "Bring the seal.")).text
    assert [line for line in text.split("\n") if line.startswith(("- ", "  "))] == lines
    assert text.startswith("**Subject**: Pump check")
    assert text.endswith("Bring the seal.\n")


def test_a_message_of_outlook_without_such_properties_is_a_mail(read):
    assert "- " not in read("note.msg", item("IPM.Note", {}, {}, "Bring the seal.")).text
