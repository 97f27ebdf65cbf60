"""JSON as text: as it was written, or indented where it is one long line, so that each member has a line of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from connectors.parsers.detect import file_types, plain
from connectors.parsers.messages import Reply
from retrieval.errors import Skippable

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_LINE_CHARACTERS: Final = 1_000
"""A text with a longer line is indented."""


def read(path: Path, media_type: str) -> Reply:
    """The file's text. What is not JSON to the letter is kept as it is. Skippable for a file without a word."""
    data = path.read_bytes()
    text = plain.text_of(data, media_type)
    if not any(map(str.isalnum, text)):
        raise Skippable("The file holds no text. Upload a file with text in it.")
    if len(max(text.split("\n"), key=len)) > _LINE_CHARACTERS and _is_json(text):
        text = _indented(text)
    known: dict[str, str | int] = {"mimeType": file_types.JSON.media_type, "fileSize": len(data)}
    return Reply(text=text, properties=known)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _indented(text: str) -> str:
    """The same tokens, each member and element on a line of its own."""
    parts: list[str] = []
    depth, empty = 0, False
    for match in _TOKEN.finditer(text):
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
