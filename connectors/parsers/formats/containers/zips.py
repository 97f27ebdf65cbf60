"""Entries of ZIP archives."""

from __future__ import annotations

import re
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from connectors.charsets import guessing
from connectors.parsers.detect import file_types
from connectors.parsers.formats.containers import ledger
from connectors.parsers.formats.containers.ledger import Ledger, Part
from retrieval.errors import Skippable

_JUNK = re.compile(r"(?:^|/)(?:__MACOSX/|\.DS_Store$|Thumbs\.db$|desktop\.ini$|\._[^/]*$)")
_UNSAFE = re.compile("[\0-\x1f\x7f\u202a-\u202e\u2066-\u2069]|^[A-Za-z]:|^/|(?:^|/)\\.\\.(?:/|$)")
_UTF8 = 0x800
_OTHER_DOS = ("cp932", "gb18030", "cp949", "cp950", "cp866", "cp1251")
"""Encodings of names that programs of the countries write without saying so."""


def unpack(path: Path, account: Ledger) -> None:
    """Account for every file of the archive. Skippable if it is damaged, encrypted, empty or too large."""
    try:
        with zipfile.ZipFile(path) as archive:
            account.take(_parts(archive))
    except ledger.BROKEN as error:
        raise Skippable(
            "The ZIP archive is damaged or packed in a way that cannot be read. "
            "Pack it again with an ordinary program and upload that."
        ) from error
    if account.members and all(member.reason == ledger.LOCKED for member in account.members):
        raise Skippable("The ZIP archive is protected by a password. Pack it again without one and upload that.")
    if not account.members:
        raise Skippable(f"The ZIP archive holds no files. Kinds that are taken: {file_types.TAKEN}.")


def content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Callable[[], Iterable[bytes]]:
    """A function that reads the entry, piece by piece."""

    def read() -> Iterator[bytes]:
        with archive.open(entry) as file:
            yield from ledger.pieces(file)

    return read


def _parts(archive: zipfile.ZipFile) -> Iterator[Part]:
    """Its files, without folders and without what operating systems add to archives for themselves."""
    for entry in archive.infolist():
        name = _spelled(entry).replace("\\", "/")
        if entry.is_dir() or _JUNK.search(name):
            continue
        if _UNSAFE.search(getattr(entry, "orig_filename", name).replace("\\", "/")) or _UNSAFE.search(name):
            why = "Its path leads out of the archive or holds characters no path has: it was not read."
            yield Part(name, error=why)
        elif stat.S_ISLNK(entry.external_attr >> 16):
            yield Part(name, error="It is a link, not a file: it was not followed. Pack the file itself.")
        elif entry.flag_bits & 1:
            yield Part(name, error=ledger.LOCKED)
        else:
            yield Part(name, content=content(archive, entry))


def _spelled(member: zipfile.ZipInfo) -> str:
    """The name; where it does not say that it is UTF-8, it is what it is likeliest to be, or of DOS as is the rule."""
    if member.flag_bits & _UTF8 or member.filename.isascii():
        return member.filename
    try:
        data = member.filename.encode("cp437")
    except UnicodeEncodeError:
        return member.filename
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        stem = data.rpartition(b".")[0] or data
        foreign = 2 * sum(byte > 127 for byte in stem) >= len(stem)  # of a few letters nothing can be told
        name = guessing.guess(data) if foreign else None
    return data.decode(name, "replace") if name in _OTHER_DOS else member.filename
