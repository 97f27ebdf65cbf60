"""Files embedded in documents of older formats: DOC and XLS, PPT ([MS-PPT] 2.10.34), RTF ([MS-OLEDS] 2.2.5)."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from connectors.parsers.detect import file_types
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.formats.containers import ole_objects
from connectors.parsers.formats.containers.ledger import BROKEN, DAMAGED, Part

KINDS = (file_types.DOC, file_types.XLS, file_types.PPT, file_types.RTF)
_SLIDES = "PowerPoint Document"
_OBJECT, _PACKED = 0x1011, 1
_MOST_BYTES = 1 << 29
_RTF_OBJECT = re.compile(rb"\\objdata\b\s*((?:[0-9A-Fa-f]{2}\s*|\s)+)")
_EMBEDDED = 2


def parts(kind: Kind, path: Path) -> Iterator[Part]:
    """The embedded files, each as a part."""
    if kind is file_types.RTF:
        yield from _of_rtf(path.read_bytes())
        return
    import olefile

    if not olefile.isOleFile(str(path)):
        return  # a spreadsheet in XML or HTML, or one from before compound files: it embeds nothing
    with olefile.OleFileIO(str(path)) as file:
        if kind is not file_types.PPT:
            yield from ole_objects.stored(file)
        elif file.exists(_SLIDES):
            with file.openstream(_SLIDES) as stream:
                yield from _of_slides(stream.read())


def _of_slides(data: bytes) -> Iterator[Part]:
    at, number = 0, 0
    while at + 8 <= len(data):
        flags, kind, size = struct.unpack_from("<HHI", data, at)
        content = data[at + 8 : at + 8 + size]
        at += 8 + size
        if kind != _OBJECT:
            continue
        number += 1
        name = f"object {number}"
        try:
            if flags >> 4 == _PACKED:
                content = zlib.decompressobj().decompress(content[4:], _MOST_BYTES)
            yield from ole_objects.parts(name, content)
        except BROKEN:
            yield Part(name, error=DAMAGED)


def _of_rtf(data: bytes) -> Iterator[Part]:
    for number, found in enumerate(_RTF_OBJECT.finditer(data), 1):
        name = f"object {number}"
        try:
            yield from _object(bytes.fromhex("".join(found[1].decode("ascii").split())), name)
        except BROKEN:
            yield Part(name, error=DAMAGED)


def _object(data: bytes, name: str) -> Iterator[Part]:
    _version, form = struct.unpack_from("<II", data)
    words, at = [], 8
    for _ in range(3):
        (size,) = struct.unpack_from("<I", data, at)
        words.append(data[at + 4 : at + 4 + size].rstrip(b"\0"))
        at += 4 + size
    if form != _EMBEDDED:
        return  # a link to a file elsewhere
    (size,) = struct.unpack_from("<I", data, at)
    held = data[at + 4 : at + 4 + size]
    if words[0] == b"Package":
        yield ole_objects.packaged(held, name)
    else:
        yield from ole_objects.parts(name, held)
