"""Texts that are stored as they are, so that offsets into them stay exact."""

from __future__ import annotations

import re

from connectors.parsers.detect import file_types, plain
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.messages import Reply
from retrieval.errors import Skippable

_EMBEDDED = re.compile(r"data:[\w.+-]{1,40}/[\w.+-]{1,80};base64,[A-Za-z0-9+/=%]*")
"""Pictures within a Markdown: no words, and many times as long as the text."""


def read(data: bytes, kind: Kind, media_type: str = "") -> Reply:
    """Unchanged but for the encoding, line endings, zero characters and pictures that are written out in letters.

    Skippable if there is only white space.
    """
    text = plain.text_of(data, media_type)
    if kind is file_types.MARKDOWN:
        text = _EMBEDDED.sub("", text)
    if not text.strip():
        raise Skippable("The file holds no text, only white space. Upload a file with text in it.")
    title = plain.first_heading(text) if kind is file_types.MARKDOWN else ""
    return Reply(text=text, title=title, properties={"mimeType": kind.media_type, "fileSize": len(data)})
