"""Texts that are stored as they are, so that offsets into them stay exact."""

from __future__ import annotations

from connectors.parsers.detect import file_types, plain
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.messages import Reply
from retrieval.errors import Skippable


def read(data: bytes, kind: Kind) -> Reply:
    """Unchanged but for the encoding, line endings and zero characters. Skippable if there is only white space."""
    text = plain.text_of(data)
    if not text.strip():
        raise Skippable("The file holds no text, only white space. Upload a file with text in it.")
    title = plain.first_heading(text) if kind is file_types.MARKDOWN else ""
    return Reply(text=text, title=title, properties={"mimeType": kind.media_type, "fileSize": len(data)})
