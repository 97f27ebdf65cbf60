"""Objects that programs embed in documents by OLE ([MS-OLEDS]): the file within an `oleObject.bin` and its like."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from connectors.parsers.formats.containers.ledger import DAMAGED, Part

if TYPE_CHECKING:
    import olefile

COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_NATIVE = "\x01Ole10Native"
_FORMULA = "Equation Native"
_WHOLE = {"WordDocument": "doc", "Workbook": "xls", "Book": "xls", "PowerPoint Document": "ppt"}
_OUTLOOK = "__properties_version1.0"
_BARE = ("Package", "CONTENTS", "Contents", "EmbeddedOdf")
"""Streams that are the file, as it is."""
_OTHER = "It is an object of a program whose files are not read. Upload it as a file of a kind that is taken."
_OLD = (
    "It is embedded in a document of an older Office format, from which it cannot be taken. "
    "Save that document in the current format (DOCX, XLSX, PPTX), or upload the embedded file itself."
)
_ENDINGS = ((b"PK\x03\x04", "zip"), (b"%PDF-", "pdf"), (b"{\\rtf", "rtf"), (COMPOUND, "ole"))
FORMULAS = "formulas"


def parts(name: str, data: bytes) -> Iterator[Part]:
    """The one file that an embedded object holds; `name`: what the document calls the object."""
    if not data.startswith(COMPOUND):
        yield Part(f"{name}{_ending(data)}", content=lambda: [data])
        return
    import olefile

    with olefile.OleFileIO(io.BytesIO(data)) as file:
        streams = {entry[0] for entry in file.listdir() if len(entry) == 1}
        whole = next((ending for stream, ending in _WHOLE.items() if stream in streams), "")
        if whole or _OUTLOOK in streams:
            yield Part(f"{name}.{whole or 'msg'}", content=lambda: [data])
        else:
            yield within(file, "", name)


def stored(file: olefile.OleFileIO) -> Iterator[Part]:
    """The objects in storages of a document of an older Office format."""
    storages = dict.fromkeys(
        "/".join(entry[:depth])
        for entry in file.listdir(streams=True, storages=False)
        for depth in range(1, len(entry))
        if _holds_object(entry, depth)
    )
    for storage in storages:
        yield within(file, f"{storage}/", storage.rpartition("/")[2])


def _holds_object(entry: list[str], depth: int) -> bool:
    """[MS-DOC] 2.1.7 keeps objects in ObjectPool, [MS-XLS] 2.1.5 in storages that begin with MBD."""
    parent = entry[: depth - 1]
    in_pool = parent == ["ObjectPool"]
    return in_pool or (not parent and entry[0].startswith("MBD"))


def within(file: olefile.OleFileIO, storage: str, name: str) -> Part:
    """The object whose streams lie in `storage`, which is "" or ends in a slash."""
    if file.exists(storage + _NATIVE):
        return packaged(_stream(file, storage + _NATIVE)[4:], name)
    if stream := next((stream for stream in _BARE if file.exists(storage + stream)), ""):
        data = _stream(file, storage + stream)
        return Part(f"{name}{_ending(data)}", content=lambda: [data])
    if file.exists(storage + _FORMULA):
        return Part(name, notice=FORMULAS)
    held = any(file.exists(storage + stream) for stream in _WHOLE)
    return Part(name, error=_OLD if held else _OTHER)


def packaged(data: bytes, name: str) -> Part:
    """A file of any kind with its name, as the packager of Windows writes it."""
    try:
        at = 2
        label, at = _string(data, at)
        path, at = _string(data, at)
        at += 4
        (length,) = struct.unpack_from("<I", data, at)
        at += 4 + length
        (size,) = struct.unpack_from("<I", data, at)
        held = data[at + 4 : at + 4 + size]
    except (struct.error, ValueError):
        return Part(name, error=DAMAGED)
    called = label or path.replace("\\", "/").rpartition("/")[2] or name
    if len(held) < size:
        return Part(called, error=DAMAGED)
    return Part(called, content=lambda: [held])


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode("cp1252", "replace"), end + 1


def _stream(file: olefile.OleFileIO, path: str) -> bytes:
    with file.openstream(path) as stream:
        return bytes(stream.read())


def _ending(data: bytes) -> str:
    return next((f".{ending}" for mark, ending in _ENDINGS if data.startswith(mark)), "")
