"""Archive of a namespace: a plain tar, verified as a whole before the import.

manifest.json           {"version": 2, "members": {name: SHA-256 of every other member}, …}
namespace.json          its name and configs, without secrets
<table>.jsonl           rows as JSON objects, one a line
embeddings.bin          for each embedding: length of the key, length of the vector, key, vector (halfvec, binary)
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

ARCHIVE_VERSION = 2
# Releases 0.1 wrote version 1 (`conversions`).
READABLE_VERSIONS = (1, ARCHIVE_VERSION)
MANIFEST_NAME = "manifest.json"
NAMESPACE_NAME = "namespace.json"
EMBEDDINGS_NAME = "embeddings.bin"
FILES_PREFIX = "files/"
MAX_ROW_BYTES = 64 << 20
MAX_MANIFEST_BYTES = 256 << 20
_READ_BYTES = 1 << 20
_ROWS_NAME_PATTERN = re.compile(r"[a-z_]{1,40}\.jsonl")
_FILE_NAME_PATTERN = re.compile(r"files/(?!.*(^|/)\.\.?(/|$))[A-Za-z0-9_.\-]+(/[A-Za-z0-9_.\-]+)+")
_SHA256_PATTERN = re.compile(r"[0-9a-f]{64}")
_LENGTHS_HEADER = struct.Struct(">HI")


# Row of a table as a JSON object.
Record = dict[str, Any]


class ArchiveError(Exception):
    """Not an export, damaged, or another version; the message addresses the importing person."""


class ArchiveWriter:
    """Writer of an archive with members larger than memory; the manifest comes last."""

    def __init__(self, file: Path) -> None:
        self._tar = tarfile.open(file, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - closed with the writer
        self._hashes: dict[str, str] = {}

    def add_member(self, name: str, chunks: Iterable[bytes]) -> int:
        """Add a member and return its size in bytes."""
        with tempfile.TemporaryFile() as buffer:
            digest, size = hashlib.sha256(), 0
            for chunk in chunks:
                digest.update(chunk)
                size += buffer.write(chunk)
            buffer.seek(0)
            info = tarfile.TarInfo(name)
            info.size, info.mode = size, 0o600
            self._tar.addfile(info, buffer)
        self._hashes[name] = digest.hexdigest()
        return size

    def add_records(self, table: str, records: Iterable[Record]) -> None:
        """Add the records of a table as JSON lines."""
        self.add_member(
            f"{table}.jsonl", (json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records)
        )

    def close(self, totals: dict[str, Any]) -> None:
        """Write the manifest with the totals and close the archive."""
        body = json.dumps({"version": ARCHIVE_VERSION, **totals, "members": self._hashes}, indent=1).encode()
        info = tarfile.TarInfo(MANIFEST_NAME)
        info.size, info.mode = len(body), 0o600
        self._tar.addfile(info, io.BytesIO(body))
        self._tar.close()

    def abort(self) -> None:
        """Close an incomplete archive."""
        self._tar.close()


class Archive:
    """Archive with verified members."""

    def __init__(self, tar: tarfile.TarFile, members: dict[str, tarfile.TarInfo], manifest: dict[str, Any]) -> None:
        self._tar = tar
        self._members = members
        self.manifest = manifest
        self.version = int(manifest["version"])

    def read_json(self, name: str) -> Any:
        """Return a member with one JSON value."""
        if name not in self._members or self._members[name].size > MAX_ROW_BYTES:
            raise ArchiveError(f"The file is no export of a namespace: it has no {name}.")
        with self.open(name) as member:
            return _parse_json(member.read(), name)

    def iterate_records(self, table: str) -> Iterator[Record]:
        """Yield the records of a table, none for a missing table."""
        name = f"{table}.jsonl"
        if name not in self._members:
            return
        with self.open(name) as member:
            while line := member.readline(MAX_ROW_BYTES + 1):
                record = _parse_json(line, name) if len(line) <= MAX_ROW_BYTES else None
                if not isinstance(record, dict):
                    raise ArchiveError(f"The export is damaged: {name} holds a line that is no row.")
                yield record

    def iterate_embeddings(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys with vectors in PostgreSQL's binary form of a halfvec."""
        if EMBEDDINGS_NAME not in self._members:
            return
        with self.open(EMBEDDINGS_NAME) as member:
            while head := member.read(_LENGTHS_HEADER.size):
                if len(head) < _LENGTHS_HEADER.size:
                    raise ArchiveError(f"The export is damaged: {EMBEDDINGS_NAME} ends within a vector.")
                keys, values = _LENGTHS_HEADER.unpack(head)
                body = member.read(keys + values) if keys + values < MAX_ROW_BYTES else b""
                if len(body) < keys + values or not is_halfvec(body[keys:]):
                    raise ArchiveError(f"The export is damaged: {EMBEDDINGS_NAME} holds an invalid vector.")
                yield body[:keys], body[keys:]

    def list_files(self) -> Iterator[str]:
        """Yield the keys of the stored files, below the namespace."""
        return (name.removeprefix(FILES_PREFIX) for name in self._members if name.startswith(FILES_PREFIX))

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Open a member for reading."""
        member = self._tar.extractfile(self._members[name])
        if member is None:
            raise ArchiveError(f"The export is damaged: {name} is no file.")
        with member:
            yield member


def pack_embedding(key: bytes, values: bytes) -> bytes:
    """Return an embedding in the form of `embeddings.bin`."""
    return _LENGTHS_HEADER.pack(len(key), len(values)) + key + values


def is_halfvec(values: bytes) -> bool:
    """Return True for the binary form of a halfvec: its size, two zero bytes, and half floats."""
    return len(values) >= 6 and struct.unpack(">hh", values[:4]) == ((len(values) - 4) // 2, 0) and len(values) % 2 == 0


@contextmanager
def open_archive(file: Path) -> Iterator[Archive]:
    """Open an archive after comparing every member with the manifest; ArchiveError if one differs."""
    try:
        with tarfile.open(file, "r:") as tar:
            members = _list_members(tar)
            manifest = _read_manifest(tar, members)
            for name, info in members.items():
                if _hash_member(tar, info) != manifest["members"][name]:
                    raise ArchiveError(f"The export is damaged: {name} is not what the manifest says (SHA-256).")
            yield Archive(tar, members, manifest)
    except tarfile.TarError as error:
        raise ArchiveError(
            f"{file} is no export of a namespace, or is incomplete: it cannot be read as a tar."
        ) from error
    except OSError as error:
        raise ArchiveError(f"{file} cannot be read: {error.strerror}.") from error


def _list_members(tar: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    members: dict[str, tarfile.TarInfo] = {}
    for info in tar:
        if not info.isreg() or info.issparse():
            raise ArchiveError(f"The file is refused: its member {info.name[:200]!r} is no plain file.")
        expected = info.name in {MANIFEST_NAME, NAMESPACE_NAME, EMBEDDINGS_NAME} or _ROWS_NAME_PATTERN.fullmatch(
            info.name
        )
        if not expected and not _FILE_NAME_PATTERN.fullmatch(info.name):
            raise ArchiveError(f"The file is refused: no export has a member {info.name[:200]!r}.")
        if info.name in members:
            raise ArchiveError(f"The file is refused: it has two members {info.name[:200]!r}.")
        members[info.name] = info
    return members


def _read_manifest(tar: tarfile.TarFile, members: dict[str, tarfile.TarInfo]) -> dict[str, Any]:
    info = members.pop(MANIFEST_NAME, None)
    body = tar.extractfile(info) if info is not None and info.size <= MAX_MANIFEST_BYTES else None
    if body is None:
        raise ArchiveError("The file is no export of a namespace, or is incomplete: it has no manifest.json.")
    with body:
        content = _parse_json(body.read(), MANIFEST_NAME)
    if (
        not isinstance(content, dict)
        or content.get("version") not in READABLE_VERSIONS
        or isinstance(content.get("version"), bool)
    ):
        version = content.get("version") if isinstance(content, dict) else None
        raise ArchiveError(
            f"The export is of version {str(version)[:40]}, and this service reads versions 1 to {ARCHIVE_VERSION}:"
            " import it with the version of the service that exported it, or a newer one."
        )
    hashes = content.get("members")
    if not isinstance(hashes, dict) or not all(
        isinstance(h, str) and _SHA256_PATTERN.fullmatch(h) for h in hashes.values()
    ):
        raise ArchiveError("The export is damaged: its manifest names no hashes.")
    if differing := sorted(hashes.keys() ^ members.keys()):
        raise ArchiveError(f"The export is damaged: manifest and members differ in {differing[0][:200]!r}.")
    return content


def _hash_member(tar: tarfile.TarFile, info: tarfile.TarInfo) -> str:
    digest = hashlib.sha256()
    body = tar.extractfile(info)
    if body is None:
        raise ArchiveError(f"The export is damaged: {info.name} is no file.")
    with body:
        while part := body.read(_READ_BYTES):
            digest.update(part)
    return digest.hexdigest()


def _parse_json(body: bytes, name: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"The export is damaged: {name} is no JSON.") from error
