"""Verbatim texts, for exact offsets; JSON in lines."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from connectors.parsers import detect
from connectors.parsers.detect import Kind
from connectors.parsers.messages import Reply
from retrieval.errors import Skippable

# Inline pictures in Markdown: many times as long as the text, without words.
_EMBEDDED = re.compile(r"data:[\w.+-]{1,40}/[\w.+-]{1,80};base64,[A-Za-z0-9+/=%]*")


def read_verbatim(data: bytes, kind: Kind, media_type: str = "") -> Reply:
    """Return the text with normalised encoding and line endings, without NUL characters and inline pictures. Skippable
    if blank.
    """
    text = detect.text_of(data, media_type)
    if kind is detect.MARKDOWN:
        text = _EMBEDDED.sub("", text)
    if not text.strip():
        raise Skippable("The file holds no text, only white space. Upload a file with text in it.")
    title = detect.first_heading(text) if kind is detect.MARKDOWN else ""
    return Reply(text=text, title=title, properties={"mimeType": kind.media_type, "fileSize": len(data)})


_TOKEN_PATTERN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
# Texts with longer lines are indented.
_LINE_CHARACTERS: Final = 1_000


def read_json(path: Path, media_type: str) -> Reply:
    """Return the text of a JSON file, unchanged if invalid. Skippable without a word."""
    data = path.read_bytes()
    text = detect.text_of(data, media_type)
    if not any(map(str.isalnum, text)):
        raise Skippable("The file holds no text. Upload a file with text in it.")
    if len(max(text.split("\n"), key=len)) > _LINE_CHARACTERS and _is_json(text):
        text = _indented(text)
    properties: dict[str, str | int] = {"mimeType": detect.JSON.media_type, "fileSize": len(data)}
    return Reply(text=text, properties=properties)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _indented(text: str) -> str:
    """Yield tokens with each member and element on a separate line."""
    parts: list[str] = []
    depth, empty = 0, False
    for match in _TOKEN_PATTERN.finditer(text):
        token = match[0]
        closing = token in ("}", "]")
        depth -= closing
        if (empty and not closing) or (closing and not empty):
            parts.append("\n" + "  " * depth)
        empty = token in ("{", "[")
        depth += empty
        parts.append(token)
        if token == ",":  # noqa: S105 - punctuation
            parts.append("\n" + "  " * depth)
        elif token == ":":  # noqa: S105 - punctuation
            parts.append(" ")
    return "".join(parts)
