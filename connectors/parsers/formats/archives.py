"""Entries of archives and attachments of mails; each becomes a file of its own."""

from __future__ import annotations

import re
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from connectors.charsets import guessing
from connectors.parsers.detect import file_types, plain
from connectors.parsers.messages import Packed, Unpack
from retrieval.errors import Retryable, Skippable

_PIECE = 1 << 20
_LONGEST = 400
_JUNK = re.compile(r"(?:^|/)(?:__MACOSX/|\.DS_Store$|Thumbs\.db$|desktop\.ini$|\._[^/]*$)")
_UNSAFE = re.compile("[\0-\x1f\x7f\u202a-\u202e\u2066-\u2069]|^[A-Za-z]:|^/|(?:^|/)\\.\\.(?:/|$)")
_UTF8 = 0x800
_OTHER_DOS = ("cp932", "gb18030", "cp949", "cp950", "cp866", "cp1251")
"""Encodings of names that programs of the countries write without saying so."""
_SPLIT = "Split it into smaller archives and upload those."
_LOCKED = "It is protected by a password. Pack it without one and upload that."
_DAMAGED = "It is damaged in the archive or packed in a way that cannot be read. Upload the file itself."
_BROKEN = (zipfile.BadZipFile, zlib.error, OSError, NotImplementedError, RuntimeError, ValueError, EOFError)


class Folder:
    """Where members are written, within the bounds of one file; what is left out is kept with its reason."""

    def __init__(self, bounds: Unpack) -> None:
        self._bounds = bounds
        self._paths: set[str] = set()
        self._bytes = 0
        self.members: list[Packed] = []

    def add(self, path: str, media_type: str, pieces: Iterable[bytes]) -> None:
        """Write one member. Skippable if the whole file unfolds to too much."""
        path = self._unique(readable(path))
        if len(self.members) >= self._bounds.members:
            raise Skippable(f"The file holds more than {self._bounds.members:,} files. {_SPLIT}")
        place = Path(self._bounds.folder) / str(len(self.members))
        size, reason = 0, ""
        with closing(_Written(place)) as file:
            for piece in pieces:
                size += len(piece)
                self._bytes += len(piece)
                if self._bytes > self._bounds.bytes:
                    most = self._bounds.bytes // 2**20
                    raise Skippable(f"The file unfolds to more than {most:,} MB, which is not read. {_SPLIT}")
                if size > self._bounds.member_bytes:
                    reason = f"The file is larger than {self._bounds.member_bytes // 2**20:,} MB; split it."
                    break
                file.write(piece)
        self.members.append(Packed(path, str(place), media_type, size, reason))

    def leave_out(self, path: str, reason: str, *, again: bool = False) -> None:
        """Keep why. `again`: adding it has begun, so that its path is taken by itself."""
        if len(self.members) >= self._bounds.members:
            raise Skippable(f"The file holds more than {self._bounds.members:,} files. {_SPLIT}")
        path = readable(path) if again else self._unique(readable(path))
        self.members.append(Packed(path, "", "", 0, reason))

    def _unique(self, path: str) -> str:
        stem, ending = str(PurePosixPath(path).with_suffix("")), PurePosixPath(path).suffix
        number, chosen = 1, path
        while chosen in self._paths:
            number += 1
            chosen = f"{stem} ({number}){ending}"
        self._paths.add(chosen)
        return chosen


class _Written:
    """A file that is written; that it cannot be is the machine's trouble, never the archive's."""

    def __init__(self, place: Path) -> None:
        with _no_fault_of_the_file():
            self._file = place.open("wb")

    def write(self, piece: bytes) -> None:
        with _no_fault_of_the_file():
            self._file.write(piece)

    def close(self) -> None:
        with _no_fault_of_the_file():
            self._file.close()


@contextmanager
def _no_fault_of_the_file() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Retryable("What is packed into the file could not be written to the worker's disk.") from error


def readable(path: str) -> str:
    """A path that can be shown and stored: no controls, no way out, of bounded length."""
    clean = unicodedata.normalize("NFC", plain.storable(path)).replace("\\", "/")
    parts = [re.sub("[\0-\x1f\x7f\u202a-\u202e\u2066-\u2069]", "", part).strip() for part in clean.split("/")]
    joined = "/".join(part for part in parts if part not in ("", ".", ".."))
    return joined[-_LONGEST:] or "unnamed"


def unzip(path: Path, folder: Folder) -> None:
    """Every file of a ZIP archive. Skippable if it is damaged, encrypted or too large."""
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                _member(archive, member, folder)
    except _BROKEN as error:
        raise Skippable(
            "The ZIP archive is damaged or packed in a way that cannot be read. "
            "Pack it again with an ordinary program and upload that."
        ) from error
    if folder.members and all(one.reason == _LOCKED for one in folder.members):
        raise Skippable("The ZIP archive is protected by a password. Pack it again without one and upload that.")
    if not folder.members:
        raise Skippable(f"The ZIP archive holds no files. Kinds that are taken: {file_types.TAKEN}.")


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Folder) -> None:
    name = _spelled(member).replace("\\", "/")
    if member.is_dir() or _JUNK.search(name):
        return
    if _UNSAFE.search(getattr(member, "orig_filename", name).replace("\\", "/")) or _UNSAFE.search(name):
        folder.leave_out(name, "Its path leads out of the archive or holds characters no path has: it was not read.")
    elif stat.S_ISLNK(member.external_attr >> 16):
        folder.leave_out(name, "It is a link, not a file: it was not followed. Pack the file itself.")
    elif member.flag_bits & 1:
        folder.leave_out(name, _LOCKED)
    else:
        _unpack(archive, member, name, folder)


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


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, folder: Folder) -> None:
    """A member that cannot be read is left out, its neighbours go on."""
    try:
        with archive.open(member) as file:
            folder.add(name, "", _pieces(file))
    except _BROKEN:
        folder.leave_out(name, _DAMAGED, again=True)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


def listing(name: str, members: Iterable[Packed]) -> str:
    """What an archive holds, as its own text."""
    lines = [f"- {member.path}" for member in members if not member.reason]
    return "\n".join([f"# Files in {plain.one_line(name)}", "", *lines, ""])
