"""The file that a namespace travels in: a plain tar, checked in whole before anything of it is believed.

manifest.json           {"version": 2, "members": {name: SHA-256 of every other member}, …}
namespace.json          its name and configs, without secrets
<table>.jsonl           rows as JSON objects, one a line
embeddings.bin          of each: the length of its key, the key, the length of its vector, the vector (halfvec, binary)
files/<key>             stored files, by their key below the namespace
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

VERSION = 2
READABLE = (1, VERSION)
"""Version 1 was written by 0.1.0 (`conversions`)."""
MANIFEST = "manifest.json"
NAMESPACE = "namespace.json"
EMBEDDINGS = "embeddings.bin"
FILES = "files/"
LINE_BYTES = 64 << 20
"""The longest row that is read."""
MANIFEST_BYTES = 256 << 20
_PART = 1 << 20
_ROWS = re.compile(r"[a-z_]{1,40}\.jsonl")
_FILE = re.compile(r"files/(?!.*(^|/)\.\.?(/|$))[A-Za-z0-9_.\-]+(/[A-Za-z0-9_.\-]+)+")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LENGTHS = struct.Struct(">HI")


Record = dict[str, Any]
"""A row of a table as a JSON object of the file."""


class ArchiveError(Exception):
    """The file is not an export, or was damaged, or is of another version; in a sentence for who imports it."""


class Writer:
    """Writes an archive. Members may be larger than memory; the manifest comes last."""

    def __init__(self, file: Path) -> None:
        self._tar = tarfile.open(file, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - closed with the writer
        self._hashes: dict[str, str] = {}

    def add(self, name: str, chunks: Iterable[bytes]) -> int:
        """A member of these bytes; their number."""
        with tempfile.TemporaryFile() as aside:
            hashed, size = hashlib.sha256(), 0
            for chunk in chunks:
                hashed.update(chunk)
                size += aside.write(chunk)
            aside.seek(0)
            info = tarfile.TarInfo(name)
            info.size, info.mode = size, 0o600
            self._tar.addfile(info, aside)
        self._hashes[name] = hashed.hexdigest()
        return size

    def add_records(self, table: str, records: Iterable[Record]) -> None:
        """Add the records of a table, one a line."""
        self.add(f"{table}.jsonl", (json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records))

    def close(self, said: dict[str, Any]) -> None:
        """Write the manifest with the totals of the archive."""
        body = json.dumps({"version": VERSION, **said, "members": self._hashes}, indent=1).encode()
        info = tarfile.TarInfo(MANIFEST)
        info.size, info.mode = len(body), 0o600
        self._tar.addfile(info, io.BytesIO(body))
        self._tar.close()

    def give_up(self) -> None:
        """Close what is not whole."""
        self._tar.close()


class Archive:
    """An archive whose every member was compared with the manifest."""

    def __init__(self, tar: tarfile.TarFile, members: dict[str, tarfile.TarInfo], manifest: dict[str, Any]) -> None:
        self._tar = tar
        self._members = members
        self.manifest = manifest
        self.version = int(manifest["version"])

    def json(self, name: str) -> Any:
        """A member that is one JSON value."""
        if name not in self._members or self._members[name].size > LINE_BYTES:
            raise ArchiveError(f"The file is no export of a namespace: it has no {name}.")
        with self.open(name) as member:
            return _json(member.read(), name)

    def records(self, table: str) -> Iterator[Record]:
        """Yield the records of a table, none if the archive has none."""
        name = f"{table}.jsonl"
        if name not in self._members:
            return
        with self.open(name) as member:
            while line := member.readline(LINE_BYTES + 1):
                record = _json(line, name) if len(line) <= LINE_BYTES else None
                if not isinstance(record, dict):
                    raise ArchiveError(f"The export is damaged: {name} holds something that is no row.")
                yield record

    def embeddings(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys with their vectors, as PostgreSQL sends a halfvec."""
        if EMBEDDINGS not in self._members:
            return
        with self.open(EMBEDDINGS) as member:
            while head := member.read(_LENGTHS.size):
                if len(head) < _LENGTHS.size:
                    raise ArchiveError(f"The export is damaged: {EMBEDDINGS} ends within a vector.")
                keys, values = _LENGTHS.unpack(head)
                body = member.read(keys + values) if keys + values < LINE_BYTES else b""
                if len(body) < keys + values or not is_halfvec(body[keys:]):
                    raise ArchiveError(f"The export is damaged: {EMBEDDINGS} holds something that is no vector.")
                yield body[:keys], body[keys:]

    def files(self) -> Iterator[str]:
        """Keys of the stored files, below the namespace."""
        return (name.removeprefix(FILES) for name in self._members if name.startswith(FILES))

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """The bytes of a member."""
        member = self._tar.extractfile(self._members[name])
        if member is None:
            raise ArchiveError(f"The export is damaged: {name} is no file.")
        with member:
            yield member


def pack_embedding(key: bytes, values: bytes) -> bytes:
    """One embedding, as `embeddings.bin` holds it."""
    return _LENGTHS.pack(len(key), len(values)) + key + values


def is_halfvec(values: bytes) -> bool:
    """Tell whether these are the bytes of a halfvec: its size, two empty bytes, and half floats."""
    return len(values) >= 6 and struct.unpack(">hh", values[:4]) == ((len(values) - 4) // 2, 0) and len(values) % 2 == 0


@contextmanager
def open_archive(file: Path) -> Iterator[Archive]:
    """An archive that was read and compared in whole; ArchiveError for anything else. Nothing is unpacked."""
    try:
        with tarfile.open(file, "r:") as tar:
            members = _members(tar)
            manifest = _manifest(tar, members)
            for name, info in members.items():
                if _hash(tar, info) != manifest["members"][name]:
                    raise ArchiveError(f"The export is damaged: {name} is not what the manifest says (SHA-256).")
            yield Archive(tar, members, manifest)
    except tarfile.TarError as error:
        raise ArchiveError(
            f"{file} is no export of a namespace, or was cut off: it cannot be read as a tar."
        ) from error
    except OSError as error:
        raise ArchiveError(f"{file} cannot be read: {error.strerror}.") from error


def _members(tar: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    members: dict[str, tarfile.TarInfo] = {}
    for info in tar:
        if not info.isreg() or info.issparse():
            raise ArchiveError(f"The file is refused: its member {info.name[:200]!r} is no plain file.")
        expected = info.name in {MANIFEST, NAMESPACE, EMBEDDINGS} or _ROWS.fullmatch(info.name)
        if not expected and not _FILE.fullmatch(info.name):
            raise ArchiveError(f"The file is refused: no export has a member {info.name[:200]!r}.")
        if info.name in members:
            raise ArchiveError(f"The file is refused: it has two members {info.name[:200]!r}.")
        members[info.name] = info
    return members


def _manifest(tar: tarfile.TarFile, members: dict[str, tarfile.TarInfo]) -> dict[str, Any]:
    info = members.pop(MANIFEST, None)
    body = tar.extractfile(info) if info is not None and info.size <= MANIFEST_BYTES else None
    if body is None:
        raise ArchiveError("The file is no export of a namespace, or was cut off: it has no manifest.json.")
    with body:
        content = _json(body.read(), MANIFEST)
    if (
        not isinstance(content, dict)
        or content.get("version") not in READABLE
        or isinstance(content.get("version"), bool)
    ):
        version = content.get("version") if isinstance(content, dict) else None
        raise ArchiveError(
            f"The export is of version {str(version)[:40]}, and this service reads versions 1 to {VERSION}: import it"
            " with the version of the service that it came from, or a newer one."
        )
    hashes = content.get("members")
    if not isinstance(hashes, dict) or not all(isinstance(h, str) and _SHA256.fullmatch(h) for h in hashes.values()):
        raise ArchiveError("The export is damaged: its manifest names no hashes.")
    if strange := sorted(hashes.keys() ^ members.keys()):
        raise ArchiveError(f"The export is damaged: manifest and members differ in {strange[0][:200]!r}.")
    return content


def _hash(tar: tarfile.TarFile, info: tarfile.TarInfo) -> str:
    hashed = hashlib.sha256()
    body = tar.extractfile(info)
    if body is None:
        raise ArchiveError(f"The export is damaged: {info.name} is no file.")
    with body:
        while part := body.read(_PART):
            hashed.update(part)
    return hashed.hexdigest()


def _json(body: bytes, name: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"The export is damaged: {name} is no JSON.") from error
