"""Binary formats are refused by name; texts of every script are read."""

from __future__ import annotations

import gzip
import io
import random
import struct
import tarfile

import pytest

from connectors.parsers import detect, trust
from retrieval.errors import Skippable
from tests.connectors.parsers.test_encodings import SENTENCES

pytestmark = pytest.mark.service

LETTER = "Dear Mr Miller,\nthe delivery of 25 valves (type DN 40) arrives on Monday, 4 May.\n" * 20


def noise(count: int = 3000) -> bytes:
    return random.Random(5).randbytes(count)


def tape() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo("note.txt")
        entry.size = len(LETTER)
        archive.addfile(entry, io.BytesIO(LETTER.encode()))
    return file.getvalue()


def dbase(version: int = 3) -> bytes:
    field = b"NAME".ljust(11, b"\0") + b"C" + bytes(4) + b"\x0c" + bytes(15)
    head = bytes((version, 126, 11, 28)) + struct.pack("<IHH", 40, 65, 13) + bytes(20)
    return head + field + b"\r" + b" Miller & Son" * 40 + b"\x1a"


def metafile(text: str = "Boiler") -> bytes:
    head = struct.pack("<II", 1, 108) + bytes(32) + b" EMF" + struct.pack("<I", 0x10000) + bytes(60)
    return head + b"".join(struct.pack("<III", 84, 64, 7) + text.encode("utf-16-le") * 4 for _ in range(40))


BINARIES = {
    "song.mp3": ("audio", b"ID3\x04" + bytes(6) + noise()),
    "talk.mp4": ("video", b"\0\0\0\x18ftypmp42" + noise()),
    "type.ttf": ("font", b"\0\1\0\0\0\x0f\0\x80\0\3\0\x70OS/2" + noise()),
    "stock.sqlite": ("SQLite", b"SQLite format 3\0" + bytes(80) + LETTER.encode()),
    "stock.dbf": ("dBase", dbase()),
    "stock.parquet": ("Parquet", b"PAR1" + noise()),
    "program.exe": ("Windows Executable", b"MZ\x90\0\3\0\0\0" + noise()),
    "notes.tar": ("Tape Archive", tape()),
    "plan.svgz": ("gzip archive) cannot be read. Unpack it", gzip.compress(b"<svg/>")),
    "notes.7z": ("7-Zip", b"7z\xbc\xaf\x27\x1c\0\4" + noise()),
    "picture.emf": ("EMF", metafile()),
    "picture.wmf": ("WMF", b"\xd7\xcd\xc6\x9a\0\0" + bytes(16) + noise()),
    "picture.heic": ("HEIF", b"\0\0\0\x18ftypheic" + noise()),
    "plan.dwg": ("AutoCAD", b"AC1032\0\0\0\0" + noise()),
    "plan.dxf": ("DXF", b"  0\r\nSECTION\r\n  2\r\nHEADER\r\n" + b"  0\r\nLINE\r\n 10\r\n1.5\r\n" * 99),
    "letter.ps": ("PostScript", b"%!PS-Adobe-3.0\n72 700 moveto (Hello) show\nshowpage\n" * 20),
    "root.pem": ("PEM", b"-----BEGIN CERTIFICATE-----\nMIIDdTCCAl2gAwIBAgILBAAAAAABFUtaw5Qw\n" * 9),
    **{f"{code}.txt": ("EBCDIC", LETTER.encode(code)) for code in ("cp037", "cp500", "cp273", "cp1140")},
}  # fmt: skip


@pytest.mark.parametrize("name", BINARIES)
def test_a_binary_is_refused_by_the_name_of_its_format(read, name):
    subject, data = BINARIES[name]
    with pytest.raises(Skippable, match="Kinds that are taken") as caught:
        read(name, data)
    assert subject in str(caught.value)


@pytest.mark.parametrize(
    ("stream", "subject"),
    [("VisioDocument", "Visio drawing"), ("Quill/QuillSub/CONTENTS", "Publisher"), ("MatOST", "Works")],
)
def test_a_compound_file_of_another_program_is_refused_by_name(stream, subject):
    names = [stream.partition("/")[0], "\x05SummaryInformation"]
    assert subject in str(detect.unknown_kind("a.bin", detect.signatures.name_compound(names)))


def wide(start: int, end: int) -> bytes:
    chance = random.Random(3)
    units = [chance.randrange(start, end) for _ in range(1500)]
    return struct.pack(f"<{len(units)}H", *(unit for unit in units if not 0xD800 <= unit < 0xE000))


NONSENSE = {
    "marked.txt": b"\xff\xfe\xfd" * 800,
    "little.txt": b"\xff\xfe" + noise(),
    "big.txt": b"\xfe\xff" + noise(),
    "four.txt": b"\xff\xfe\0\0" + noise(),
    "letters.txt": "ÿþýÿþý".encode() * 500,
    "accents.txt": "".join(random.Random(2).choices("ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞßàáâãäåæçè", k=2000)).encode(),
    "swapped.txt": b"\xff\xfe" + LETTER.encode("utf-16-be"),
    "scripts.md": "".join(map(chr, random.Random(4).choices(range(0x400, 0x3000), k=2000))).encode(),
    "cipher.txt": LETTER.translate(str.maketrans("aeiotnrshl", "qxzjvkwpgf")).encode(),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_a_text_without_a_word_is_refused(read, name):
    with pytest.raises(Skippable, match=r"cannot be read|is damaged|Kinds that are taken"):
        read(name, NONSENSE[name])


SCRIPT_TEXTS = {
    **{language: " ".join(pair) * 20 for language, pair in SENTENCES.items()},
    "codes": "\n".join(f"part-{number:05} KX{number % 7}-DN{number} {number * 3.5} EUR" for number in range(400)),
    "hexadecimal": "\n".join(f"0x{number * 7919:08x} 0x{number * 104729:08x}" for number in range(400)),
    "keys": "\n".join("".join(random.Random(n).choices("BCDFGHJKLMNPQRSTVWXZ", k=20)) for n in range(200)),
    "boxes": "┌────┐\n│ ab │\n└────┘\n" * 60,
    "vietnamese": "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi. " * 20,
    "korean with hanja": "大韓民國의 主權은 國民에게 있고, 모든 權力은 國民으로부터 나온다. " * 20,
    "symbols": "∀ε>0 ∃δ>0: |x−x₀|<δ ⇒ |f(x)−f(x₀)|<ε; ∑αᵢβᵢ ≤ √(∑αᵢ²)·√(∑βᵢ²). " * 20,  # noqa: RUF001
    "languages": "English, Deutsch, Русский, 中文, 日本語, 한국어, العربية, עברית, ไทย, Ελληνικά, हिन्दी\n" * 30,
    "a quoted signature": "PK is the mark of ZIP, MZ of programs, %!PS of PostScript.\n" * 20,
}


@pytest.mark.parametrize("name", SCRIPT_TEXTS)
def test_a_text_of_any_script_is_read(read, name):
    assert not trust.judge_whole(SCRIPT_TEXTS[name]).unread
    assert read("a.txt", SCRIPT_TEXTS[name].encode()).text == SCRIPT_TEXTS[name]


@pytest.mark.parametrize("start", [b"Summary: caf\xe9 ", b"=== Gr\xfc\xdfe ", b"From here the caf\xe9 "])
def test_a_western_text_that_begins_like_a_format_is_read(read, start):
    assert "harbour" in read("a.txt", start + b"at the harbour. " * 30).text
