"""OLE compound files, the container of older Office formats: which format it is, and whether it is encrypted."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from connectors.parsers.detect import file_types
from connectors.parsers.detect.file_types import Kind
from retrieval.errors import Skippable

if TYPE_CHECKING:
    import olefile

_PACKAGE: Final = "EncryptedPackage"
_STREAMS: Final = {
    "WordDocument": file_types.DOC,
    "PowerPoint Document": file_types.PPT,
    "Workbook": file_types.XLS,
    "Book": file_types.XLS,
    "__properties_version1.0": file_types.MSG,
}
_FLAGS: Final = 11
"""Of the document's head ([MS-DOC] 2.5.2): a byte whose lowest bit says that the text is encrypted."""
_TOKEN: Final = slice(12, 16)
"""Of the slides' head ([MS-PPT] 2.3.2): what tells an encrypted presentation from a plain one."""
_LOCKED_SLIDES: Final = b"\xdf\xc4\xd1\xf3"


def kind(data: bytes, name: str) -> Kind:
    """The kind by the names of the streams; Skippable if it is encrypted or of no kind we know."""
    streams, locked = _seen(data)
    if locked:
        raise Skippable("The file is protected by a password. Remove the password and upload it again.")
    for stream, found in _STREAMS.items():
        if stream in streams:
            return found
    raise file_types.unknown(name)


def _seen(data: bytes) -> tuple[set[str], bool]:
    """The file's own streams, not of what is embedded or attached, and if it is locked; if damaged, what shows."""
    import olefile

    try:
        with olefile.OleFileIO(io.BytesIO(data)) as file:
            streams = {entry[0] for entry in file.listdir() if len(entry) == 1}
            return streams, _PACKAGE in streams or _locked(file, streams)
    except (OSError, ValueError, IndexError):
        ends = {_PACKAGE: b"", **dict.fromkeys(_STREAMS, b"\0\0")}
        streams = {stream for stream, end in ends.items() if stream.encode("utf-16-le") + end in data}
        return streams, _PACKAGE in streams


def _locked(file: olefile.OleFileIO, streams: set[str]) -> bool:
    """Encrypted within its own format. A workbook's lock is for the library to find, which reads record by record."""
    if "WordDocument" in streams:
        return bool(_head(file, "WordDocument")[_FLAGS] & 1)
    return "Current User" in streams and _head(file, "Current User")[_TOKEN] == _LOCKED_SLIDES


def _head(file: olefile.OleFileIO, stream: str) -> bytes:
    with file.openstream(stream) as opened:
        return bytes(opened.read(16).ljust(16, b"\0"))
