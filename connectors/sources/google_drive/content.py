"""The content of a file of Google Drive: as it is stored, or exported if it is of a kind of Google's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from connectors.http import responses
from connectors.sources.google_drive import items
from connectors.sources.google_drive.client import Drive
from connectors.sources.google_drive.errors import TooLarge, Unsupported
from retrieval.errors import Retryable, Skippable
from retrieval.ports import RawContent

_PICTURE_DATA = re.compile(rb"^\[([^\]\n]{1,100})\]:[ \t]*<data:[^>\n]*>[ \t]*\r?\n?", re.MULTILINE)
_PICTURE: Final = rb"!\[([^\]\n]*)\]\[(%s)\]"


def fetch(drive: Drive, file_id: str, to: Path, most: int) -> RawContent:
    """At most `most` bytes of it. Skippable if it is gone, in the trash, too large, or not to be had."""
    file = drive.file(file_id)
    if file.get("trashed"):
        raise Skippable("The file is in the trash of Google Drive.")
    media_type = file["mimeType"]
    if media_type in items.EXPORTS:
        media_type = _exported(drive, file, to, most)
    elif reason := items.left_out(file):
        raise Skippable(f"There is no text in {reason} that could be fetched.")
    else:
        _stored(drive, file, to, most)
    return RawContent(to, file["name"], media_type, to.stat().st_size, properties=items.properties(file))


def _stored(drive: Drive, file: Mapping[str, Any], to: Path, most: int) -> None:
    """Retryable unless what came is what Google Drive says of the file."""
    size = file.get("size", "")
    if size.isdigit() and int(size) > most:
        raise responses.too_large(most)
    if size == "0":  # there would be no part to ask for
        to.write_bytes(b"")
        return
    sink = drive.media(file["id"], to, most)
    came = {"size": str(sink.size), "md5Checksum": sink.md5.hexdigest()}
    if any(file.get(name, value) != value for name, value in came.items()):
        raise Retryable("The file changed in Google Drive while it was fetched, or did not come whole.")


def _exported(drive: Drive, file: Mapping[str, Any], to: Path, most: int) -> str:
    """The first format that can be had."""
    reason: Skippable | None = None
    for media_type in items.EXPORTS[file["mimeType"]]:
        try:
            drive.export(file["id"], media_type, to, most)
        except (TooLarge, Unsupported) as error:
            reason = reason or error
            if not isinstance(error, TooLarge) or not _linked(drive, file, media_type, to, most):
                continue
        if media_type == "text/markdown":
            to.write_bytes(without_pictures(to.read_bytes()))
        return media_type
    raise reason or Skippable("Google Drive cannot export the file.")


def _linked(drive: Drive, file: Mapping[str, Any], media_type: str, to: Path, most: int) -> bool:
    """Whether the document could be had in this format by the link that Google names for it."""
    link = (drive.file(file["id"], "id,exportLinks").get("exportLinks") or {}).get(media_type)
    if not isinstance(link, str):
        return False
    try:
        drive.linked(link, to, most)
    except Unsupported:
        return False
    return True


def without_pictures(text: bytes) -> bytes:
    """Markdown as Google exports it holds each picture as base64 at its end; their descriptions stay."""
    names = b"|".join(re.escape(name) for name in _PICTURE_DATA.findall(text))
    if not names:
        return text
    return re.sub(_PICTURE % names, rb"\1", _PICTURE_DATA.sub(b"", text))
