"""The account of a container's parts: each becomes a file of its own, a reported failure or a line of the notice."""

from __future__ import annotations

import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from connectors.charsets import guessing
from connectors.parsers import detect, packages
from connectors.parsers.messages import Packed, Unpack
from retrieval.errors import Retryable, Skippable

_PIECE = 1 << 20
_LONGEST = 400
_NAMED = 5
"""Names in a notice; the others are counted."""
_SPLIT = "Split it into smaller archives and upload those."
DAMAGED = "It is damaged in the file that holds it, or packed in a way that cannot be read. Upload the file itself."
LOCKED = "A password protects it within its archive. Pack it without one and upload that."
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
)
"""Errors of reading a damaged part."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a container.

    Exactly one is set: `content`, which returns its bytes in pieces; `error`, why it cannot be had; or `notice`, the
    kind of thing it is, in the plural, where it is no document: "pictures within the text".
    """

    name: str
    media_type: str = ""
    content: Callable[[], Iterable[bytes]] | None = None
    error: str = ""
    notice: str = ""


class Ledger:
    """Parts of one container, counted as they are found and as they are accounted for.

    Files are written to the folder that `bounds` names, within its limits.
    """

    def __init__(self, bounds: Unpack) -> None:
        self._bounds = bounds
        self._paths: set[str] = set()
        self._bytes = 0
        self.found = 0
        self.members: list[Packed] = []
        self.notices: dict[str, list[str]] = {}

    def take(self, parts: Iterable[Part]) -> None:
        """Account for every part. Skippable if the container unfolds to too much.

        A container that turns out to be damaged while it is listed keeps what was found until then, and reports that.
        """
        part_iterator = iter(parts)
        while True:
            try:
                part = next(part_iterator, None)
            except BROKEN:
                part = Part("other parts", error=f"Not all parts of the file could be listed. {DAMAGED}")
                part_iterator = iter(())
            if part is None:
                break
            self.found += 1
            self._account(part)
        self._check()

    def notice(self) -> str:
        """Return, in sentences, the members that were not read as documents; "" without any."""
        return " ".join(_counted(kind, names) for kind, names in self.notices.items())

    def _account(self, part: Part) -> None:
        if part.notice:
            self.notices.setdefault(part.notice, []).append(detect.one_line(make_readable(part.name)))
            return
        if len(self.members) >= self._bounds.members:
            raise Skippable(f"The file holds more than {self._bounds.members:,} files. {_SPLIT}")
        path = self._unique(make_readable(part.name))
        if part.content is None or part.error:
            self.members.append(Packed(path, "", "", 0, part.error or DAMAGED))
            return
        try:
            self.members.append(self._written(path, part.media_type, part.content()))
        except BROKEN:
            self.members.append(Packed(path, "", "", 0, DAMAGED))

    def _written(self, path: str, media_type: str, pieces: Iterable[bytes]) -> Packed:
        target = Path(self._bounds.folder) / str(len(self.members))
        size = 0
        with _disk(), target.open("wb") as file:
            for piece in _readable_only(pieces):
                size += len(piece)
                self._bytes += len(piece)
                if self._bytes > self._bounds.bytes:
                    limit = self._bounds.bytes // 2**20
                    raise Skippable(f"The file unfolds to more than {limit:,} MB, which is not read. {_SPLIT}")
                if size > self._bounds.member_bytes:
                    reason = f"The file is larger than {self._bounds.member_bytes // 2**20:,} MB; split it."
                    return Packed(path, str(target), media_type, size, reason)
                file.write(piece)
        return Packed(path, str(target), media_type, size)

    def _check(self) -> None:
        """Every part that was found is taken, reported or noted: none is lost on the way."""
        noted = sum(map(len, self.notices.values()))
        if self.found != len(self.members) + noted:
            raise RuntimeError(f"{self.found} parts found, {len(self.members)} taken or reported, {noted} noted")

    def _unique(self, path: str) -> str:
        stem, ending = str(PurePosixPath(path).with_suffix("")), PurePosixPath(path).suffix
        number, chosen = 1, path
        while chosen in self._paths:
            number += 1
            chosen = f"{stem} ({number}){ending}"
        self._paths.add(chosen)
        return chosen


class _Unreadable(ValueError):
    """The container failed while one of its parts was read: no trouble of the disk."""


def _readable_only(pieces: Iterable[bytes]) -> Iterator[bytes]:
    try:
        yield from pieces
    except BROKEN as error:
        raise _Unreadable from error


@contextmanager
def _disk() -> Iterator[None]:
    """That a part cannot be written is the machine's trouble, never the container's."""
    try:
        yield
    except OSError as error:
        raise Retryable("What is packed into the file could not be written to the worker's disk.") from error


def make_readable(path: str) -> str:
    """A path that can be shown and stored: no controls, no way out, of bounded length."""
    clean = unicodedata.normalize("NFC", detect.make_storable(path)).replace("\\", "/")
    parts = [re.sub("[\0-\x1f\x7f\u202a-\u202e\u2066-\u2069]", "", part).strip() for part in clean.split("/")]
    joined = "/".join(part for part in parts if part not in ("", ".", ".."))
    return joined[-_LONGEST:] or "unnamed"


def read_pieces(file: IO[bytes]) -> Iterator[bytes]:
    """The rest of an open file, piece by piece."""
    while piece := file.read(_PIECE):
        yield piece


def list_members(name: str, members: Iterable[Packed]) -> str:
    """The files that a container holds, as the text of a container that has none of its own."""
    lines = [f"- {member.path}" for member in members if not member.reason]
    return "\n".join([f"# Files in {detect.one_line(name)}", "", *lines, ""])


def _counted(kind: str, names: list[str]) -> str:
    listing = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")
    return f"Not read: {kind} ({len(names):,}): {listing}."


_JUNK = re.compile(r"(?:^|/)(?:__MACOSX/|\.DS_Store$|Thumbs\.db$|desktop\.ini$|\._[^/]*$)")
_UNSAFE = re.compile("[\0-\x1f\x7f\u202a-\u202e\u2066-\u2069]|^[A-Za-z]:|^/|(?:^|/)\\.\\.(?:/|$)")
_UTF8, _LOCKED = 0x800, 1
"""Flags of an entry."""
_AES = 99
"""How an entry is packed that WinZip's AES protects."""
_OTHER_DOS = ("cp932", "gb18030", "cp949", "cp950", "cp866", "cp1251")
"""Encodings of names that programs of the countries write without saying so."""
_PASSWORDS = ("utf-8", "cp437", "cp850", "cp1252")
"""Encodings of passwords: the format names none."""
_TRIED = 20
"""Members that an encoding of the password is tried with."""


def unpack_zip(path: Path, account: Ledger, password: str = "") -> None:
    """Account for every file of the archive. Skippable if it is damaged, locked, empty or too large."""
    try:
        with zipfile.ZipFile(path) as archive:
            locked = [entry for entry in archive.infolist() if entry.flag_bits & _LOCKED]
            if password and locked:
                archive.setpassword(_encode_password(archive, locked[:_TRIED], password))
            account.take(_zip_parts(archive))
    except BROKEN as error:
        raise Skippable(
            "The ZIP archive is damaged or packed in a way that cannot be read. "
            "Pack it again with an ordinary program and upload that."
        ) from error
    reasons = {member.reason for member in account.members}
    if locked and reasons and "" not in reasons:
        raise (
            Skippable(detect.NOT_OPENED)
            if detect.NOT_OPENED in reasons
            else detect.locked_file("The ZIP archive", password)
        )
    if not account.members:
        raise Skippable(f"The ZIP archive holds no files. Kinds that are taken: {detect.TAKEN}.")


def member_content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Callable[[], Iterable[bytes]]:
    """A function that reads the entry, piece by piece."""

    def read() -> Iterator[bytes]:
        with archive.open(entry) as file:
            yield from read_pieces(file)

    return read


def _zip_parts(archive: zipfile.ZipFile) -> Iterator[Part]:
    """Its files, without folders and without what operating systems add to archives for themselves."""
    documents = packages.packages_in_folders(entry.filename for entry in archive.infolist())
    yield from (Part(folder, error=reason) for folder, reason in documents.items())
    for entry in archive.infolist():
        name = _spelled(entry).replace("\\", "/")
        if entry.is_dir() or _JUNK.search(name) or any(entry.filename.startswith(f"{root}/") for root in documents):
            continue
        if _UNSAFE.search(getattr(entry, "orig_filename", name).replace("\\", "/")) or _UNSAFE.search(name):
            why = "Its path leads out of the archive or holds characters no path has: it was not read."
            yield Part(name, error=why)
        elif stat.S_ISLNK(entry.external_attr >> 16):
            yield Part(name, error="It is a link, not a file: it was not followed. Pack the file itself.")
        elif why := _lock_of(archive, entry):
            yield Part(name, error=why)
        else:
            yield Part(name, content=member_content(archive, entry))


def _lock_of(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, password: bytes | None = None) -> str:
    """Return why the entry is not opened; "" without a lock, or if this password or else the archive's opens it."""
    if not entry.flag_bits & _LOCKED:
        return ""
    if entry.compress_type == _AES:
        return detect.NOT_OPENED
    try:
        archive.open(entry, pwd=password).close()
    except NotImplementedError:  # another kind of protection or compression
        return detect.NOT_OPENED
    except RuntimeError:  # no password, or another one
        return LOCKED
    except BROKEN:  # as its reader says
        return ""
    return ""


def _encode_password(archive: zipfile.ZipFile, locked: Iterable[zipfile.ZipInfo], password: str) -> bytes:
    """Return the password in the encoding that opens most members, in UTF-8 if none does."""
    encoded = dict.fromkeys(password.encode(name, "replace") for name in _PASSWORDS)
    return max(encoded, key=lambda word: sum(not _lock_of(archive, entry, word) for entry in locked))


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
        name = guessing.guess_encoding(data) if foreign else None
    return data.decode(name, "replace") if name in _OTHER_DOS else member.filename
