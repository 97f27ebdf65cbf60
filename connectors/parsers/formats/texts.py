"""Verbatim texts, for exact offsets; JSON in lines."""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path
from typing import Final

from connectors.parsers import detect
from connectors.parsers.detect import Kind
from connectors.parsers.messages import Reply
from retrieval.errors import Skippable

# Inline pictures in Markdown: many times as long as the text, without words.
_EMBEDDED = re.compile(r"data:[\w.+-]{1,40}/[\w.+-]{1,80};base64,[A-Za-z0-9+/=%]*")


def read_verbatim(data: bytes, kind: Kind, media_type: str = "", name: str = "") -> Reply:
    """Return the text with normalised encoding and line endings, without NUL characters and inline pictures. Skippable
    if blank.
    """
    text = _log_text(data, media_type) if kind is detect.LOG else detect.text_of(data, media_type)
    if kind is detect.MARKDOWN:
        text = _EMBEDDED.sub("", text)
    if not text.strip():
        raise Skippable("The file holds no text, only white space. Upload a file with text in it.")
    title = detect.first_heading(text) if kind is detect.MARKDOWN else ""
    properties: dict[str, str | int] = {"mimeType": kind.media_type, "fileSize": len(data)}
    if kind is detect.PLAIN and name.lower().endswith(".doc"):
        properties["notice"] = "The file is named like a Word document and is a plain text."
    return Reply(text=text, title=title, properties=properties)


_TERMINAL_CODES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>@-Z\\-_]"
)
_OVERSTRUCK: Final = re.compile(r"[^\n\x08]\x08")
_LINE_TIME: Final = re.compile(
    r"\W{0,2}(?:\d{4}[-/]\d\d[-/]\d\d[T ]|[A-Z][a-z]{2} [ \d]\d )?\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?"
)
_MIN_REPETITIONS: Final = 3


def _log_text(data: bytes, media_type: str) -> str:
    """Return the lines that a terminal shows at the end, with repeated lines once."""
    if b"\n" in data and b"\0" not in data:
        # A carriage return begins its line again, as in reports of progress.
        data = b"\n".join(line.rstrip(b"\r").rpartition(b"\r")[2] for line in data.split(b"\n"))
    text = _OVERSTRUCK.sub("", _TERMINAL_CODES.sub("", detect.text_of(data, media_type)))
    lines: list[str] = []
    for words, group in groupby(text.split("\n"), key=lambda line: _LINE_TIME.sub("", line, count=1)):
        repeated = list(group)
        if len(repeated) < _MIN_REPETITIONS or not words.strip():
            lines += repeated
            continue
        last = _LINE_TIME.match(repeated[-1])
        until = f", the last at {last[0].strip()}" if last else ""
        lines += [repeated[0], f"({len(repeated) - 1} more of this line{until})"]
    return "\n".join(lines)


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
