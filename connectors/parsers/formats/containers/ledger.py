"""Ledger of a container's parts: each part becomes a file, a reported failure or a name in the notice."""

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

_PIECE_BYTES = 1 << 20
_MAX_PATH_LENGTH = 400
# Names in a notice; further ones are counted.
_MAX_NOTICE_NAMES = 5
_SPLIT_ADVICE = "Split it into smaller archives and upload those."
DAMAGED_PART = (
    "It is damaged in the file that holds it, or packed in a way that cannot be read. Upload the file itself."
)
LOCKED_PART = "A password protects it within its archive. Pack it without one and upload that."
# Exceptions of reading a damaged part.
DAMAGE_ERRORS = (
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


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a container, with exactly one of `content`, `error` and `notice`."""

    name: str
    media_type: str = ""
    # Returns the bytes in pieces.
    content: Callable[[], Iterable[bytes]] | None = None
    # Cause of a failure, for the user.
    error: str = ""
    # Plural kind of an unread part, such as "pictures within the text".
    notice: str = ""


class Ledger:
    """Writes the parts of a container to the folder of `bounds`, within the limits of `bounds`."""

    def __init__(self, bounds: Unpack) -> None:
        self._bounds = bounds
        self._paths: set[str] = set()
        self._bytes = 0
        self.part_count = 0
        self.members: list[Packed] = []
        self.notices: dict[str, list[str]] = {}

    def add_parts(self, parts: Iterable[Part]) -> None:
        """Write, report or note every part. Skippable beyond the limits."""
        # A container damaged halfway keeps its readable parts and reports the rest.
        part_iterator = iter(parts)
        while True:
            try:
                part = next(part_iterator, None)
            except DAMAGE_ERRORS:
                # The error ends the iteration.
                part = Part("other parts", error=f"Not all parts of the file could be listed. {DAMAGED_PART}")
                part_iterator = iter(())
            if part is None:
                break
            self.part_count += 1
            self._add_part(part)
        self._require_complete()

    def notice(self) -> str:
        """Return sentences with the names of unread parts; "" without any."""
        return " ".join(_format_notice(kind, names) for kind, names in self.notices.items())

    def _add_part(self, part: Part) -> None:
        if part.notice:
            self.notices.setdefault(part.notice, []).append(detect.one_line(make_readable(part.name)))
            return
        if len(self.members) >= self._bounds.members:
            raise Skippable(f"The file holds more than {self._bounds.members:,} files. {_SPLIT_ADVICE}")
        path = self._unique_path(make_readable(part.name))
        if part.content is None or part.error:
            self.members.append(Packed(path, "", "", 0, part.error or DAMAGED_PART))
            return
        try:
            self.members.append(self._write_member(path, part.media_type, part.content()))
        except DAMAGE_ERRORS:
            self.members.append(Packed(path, "", "", 0, DAMAGED_PART))

    def _write_member(self, path: str, media_type: str, pieces: Iterable[bytes]) -> Packed:
        target = Path(self._bounds.folder) / str(len(self.members))
        size = 0
        with _retry_disk_errors(), target.open("wb") as file:
            for piece in _translate_damage(pieces):
                size += len(piece)
                self._bytes += len(piece)
                if self._bytes > self._bounds.bytes:
                    limit = self._bounds.bytes // 2**20
                    raise Skippable(f"The file unfolds to more than {limit:,} MB, which is not read. {_SPLIT_ADVICE}")
                if size > self._bounds.member_bytes:
                    reason = f"The file is larger than {self._bounds.member_bytes // 2**20:,} MB; split it."
                    return Packed(path, str(target), media_type, size, reason)
                file.write(piece)
        return Packed(path, str(target), media_type, size)

    def _require_complete(self) -> None:
        """Raise RuntimeError if a part is neither written, reported nor noted."""
        noted_count = sum(map(len, self.notices.values()))
        if self.part_count != len(self.members) + noted_count:
            raise RuntimeError(
                f"{self.part_count} parts found, {len(self.members)} taken or reported, {noted_count} noted"
            )

    def _unique_path(self, path: str) -> str:
        stem, ending = str(PurePosixPath(path).with_suffix("")), PurePosixPath(path).suffix
        number, unique_path = 1, path
        while unique_path in self._paths:
            number += 1
            unique_path = f"{stem} ({number}){ending}"
        self._paths.add(unique_path)
        return unique_path


class _UnreadablePart(ValueError):
    """The container is damaged; in contrast to an error of the worker's disk."""


def _translate_damage(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces; raise _UnreadablePart for errors of the container."""
    try:
        yield from pieces
    except DAMAGE_ERRORS as error:
        raise _UnreadablePart from error


@contextmanager
def _retry_disk_errors() -> Iterator[None]:
    """Raise Retryable for failures of the disk."""
    try:
        yield
    except OSError as error:
        raise Retryable("What is packed into the file could not be written to the worker's disk.") from error


def make_readable(path: str) -> str:
    """Return a path without control characters and parent folders, of bounded length."""
    clean = unicodedata.normalize("NFC", detect.make_storable(path)).replace("\\", "/")
    parts = [re.sub("[\0-\x1f\x7f\u202a-\u202e\u2066-\u2069]", "", part).strip() for part in clean.split("/")]
    joined = "/".join(part for part in parts if part not in ("", ".", ".."))
    return joined[-_MAX_PATH_LENGTH:] or "unnamed"


def read_pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of an open file in pieces."""
    while piece := file.read(_PIECE_BYTES):
        yield piece


def list_members(name: str, members: Iterable[Packed]) -> str:
    """Return the text of a container without text: a list of its readable members."""
    lines = [f"- {member.path}" for member in members if not member.reason]
    return "\n".join([f"# Files in {detect.one_line(name)}", "", *lines, ""])


def _format_notice(kind: str, names: list[str]) -> str:
    listing = ", ".join(names[:_MAX_NOTICE_NAMES])
    if len(names) > _MAX_NOTICE_NAMES:
        listing += f" and {len(names) - _MAX_NOTICE_NAMES:,} more"
    return f"Not read: {kind} ({len(names):,}): {listing}."


_SYSTEM_FILES = re.compile(r"(?:^|/)(?:__MACOSX/|\.DS_Store$|Thumbs\.db$|desktop\.ini$|\._[^/]*$)")
_UNSAFE_PATH = re.compile("[\0-\x1f\x7f\u202a-\u202e\u2066-\u2069]|^[A-Za-z]:|^/|(?:^|/)\\.\\.(?:/|$)")
# Flags of a ZIP entry: name in UTF-8, and encrypted content.
_UTF8_FLAG, _ENCRYPTED_FLAG = 0x800, 1
# Compression method of entries with WinZip's AES encryption.
_AES_METHOD = 99
# Encodings of names that archives of DOS and Windows do not declare.
_DOS_ENCODINGS = ("cp932", "gb18030", "cp949", "cp950", "cp866", "cp1251")
# Encodings to try for a password: the ZIP format does not declare one.
_PASSWORD_ENCODINGS = ("utf-8", "cp437", "cp850", "cp1252")
# Encrypted members to try with each encoding of the password.
_MAX_TRIED_MEMBERS = 20


def unpack_zip(path: Path, ledger: Ledger, password: str = "") -> None:
    """Add every file of the archive to the ledger. Skippable if damaged, locked, empty or too large."""
    try:
        with zipfile.ZipFile(path) as archive:
            locked = [entry for entry in archive.infolist() if entry.flag_bits & _ENCRYPTED_FLAG]
            if password and locked:
                archive.setpassword(_encode_password(archive, locked[:_MAX_TRIED_MEMBERS], password))
            ledger.add_parts(_zip_parts(archive))
    except DAMAGE_ERRORS as error:
        raise Skippable(
            "The ZIP archive is damaged or packed in a way that cannot be read. "
            "Pack it again with an ordinary program and upload that."
        ) from error
    reasons = {member.reason for member in ledger.members}
    has_readable_member = "" in reasons
    if locked and reasons and not has_readable_member:
        if detect.NOT_OPENED in reasons:
            raise Skippable(detect.NOT_OPENED)
        raise detect.locked_file("The ZIP archive", password)
    if not ledger.members:
        raise Skippable(f"The ZIP archive holds no files. Kinds that are taken: {detect.ACCEPTED_LABELS}.")


def member_content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Callable[[], Iterable[bytes]]:
    """Return a function that reads the entry in pieces, for `Part.content`."""

    def read() -> Iterator[bytes]:
        with archive.open(entry) as file:
            yield from read_pieces(file)

    return read


def _zip_parts(archive: zipfile.ZipFile) -> Iterator[Part]:
    """Yield the archive's files, without folders and files of operating systems."""
    reasons_by_folder = packages.packages_in_folders(entry.filename for entry in archive.infolist())
    yield from (Part(folder, error=reason) for folder, reason in reasons_by_folder.items())
    for entry in archive.infolist():
        name = _decode_name(entry).replace("\\", "/")
        is_in_package = any(entry.filename.startswith(f"{folder}/") for folder in reasons_by_folder)
        if entry.is_dir() or is_in_package or _SYSTEM_FILES.search(name):
            continue
        # `zipfile` cuts the name at a zero byte.
        full_name = getattr(entry, "orig_filename", name).replace("\\", "/")
        if _UNSAFE_PATH.search(full_name) or _UNSAFE_PATH.search(name):
            reason = "Its path leads out of the archive or holds characters no path has: it was not read."
            yield Part(name, error=reason)
        elif stat.S_ISLNK(entry.external_attr >> 16):
            yield Part(name, error="It is a link, not a file: it was not followed. Pack the file itself.")
        elif reason := _lock_reason(archive, entry):
            yield Part(name, error=reason)
        else:
            yield Part(name, content=member_content(archive, entry))


def _lock_reason(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, password: bytes | None = None) -> str:
    """Return why an entry stays locked; "" if it opens with `password`, by default the archive's."""
    if not entry.flag_bits & _ENCRYPTED_FLAG:
        return ""
    if entry.compress_type == _AES_METHOD:
        return detect.NOT_OPENED
    try:
        archive.open(entry, pwd=password).close()
    except NotImplementedError:  # another kind of protection or compression
        return detect.NOT_OPENED
    except RuntimeError:  # no password, or another one
        return LOCKED_PART
    except DAMAGE_ERRORS:  # reported when the entry is read
        return ""
    return ""


def _encode_password(archive: zipfile.ZipFile, locked: Iterable[zipfile.ZipInfo], password: str) -> bytes:
    """Return the password in the encoding that opens most members, by default UTF-8."""

    def count_opened(encoded_password: bytes) -> int:
        return sum(not _lock_reason(archive, entry, encoded_password) for entry in locked)

    # Without repetitions; `max` returns the first of equal ones.
    candidates = dict.fromkeys(password.encode(name, "replace") for name in _PASSWORD_ENCODINGS)
    return max(candidates, key=count_opened)


def _decode_name(member: zipfile.ZipInfo) -> str:
    """Return an entry's name, decoded as UTF-8 or a guessed DOS encoding if undeclared."""
    if member.flag_bits & _UTF8_FLAG or member.filename.isascii():
        return member.filename
    try:
        data = member.filename.encode("cp437")
    except UnicodeEncodeError:
        return member.filename
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        stem = data.rpartition(b".")[0] or data
        # A few letters do not suffice for a guess.
        is_foreign = 2 * sum(byte > 127 for byte in stem) >= len(stem)
        encoding = guessing.guess_encoding(data) if is_foreign else None
    return data.decode(encoding, "replace") if encoding in _DOS_ENCODINGS else member.filename
