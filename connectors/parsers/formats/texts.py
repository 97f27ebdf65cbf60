"""Texts that are stored as they are, so that offsets into them stay exact; JSON in lines; the text of XML."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from lxml import etree

from connectors.parsers import detect, document
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.messages import Reply, Task
from retrieval.errors import Skippable

_EMBEDDED = re.compile(r"data:[\w.+-]{1,40}/[\w.+-]{1,80};base64,[A-Za-z0-9+/=%]*")
"""Pictures within a Markdown: no words, and many times as long as the text."""


def read_verbatim(data: bytes, kind: Kind, media_type: str = "") -> Reply:
    """Unchanged but for the encoding, line endings, zero characters and pictures that are written out in letters.

    Skippable if there is only white space.
    """
    text = detect.text_of(data, media_type)
    if kind is detect.MARKDOWN:
        text = _EMBEDDED.sub("", text)
    if not text.strip():
        raise Skippable("The file holds no text, only white space. Upload a file with text in it.")
    title = detect.first_heading(text) if kind is detect.MARKDOWN else ""
    return Reply(text=text, title=title, properties={"mimeType": kind.media_type, "fileSize": len(data)})


_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_LINE_CHARACTERS: Final = 1_000
"""A text with a longer line is indented."""


def read_json(path: Path, media_type: str) -> Reply:
    """The file's text. What is not JSON to the letter is kept as it is. Skippable for a file without a word."""
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
    """Yield the tokens with each member and element on a line of its own."""
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


_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_LABELLED = 200
"""Characters up to which a text stands behind the name of its element; a longer one is prose."""


def read_xml(kind: Kind, path: Path, task: Task) -> Document:
    """Return the words of the elements, without entities, which may be outside of the file. Skippable if damaged."""
    source = detect.text_of(path.read_bytes(), task.media_type, markup=True)
    writer = _Writer()
    parser = etree.XMLParser(target=writer, recover=True, resolve_entities=False, no_network=True, huge_tree=True)
    try:
        parser.feed(_DECLARATION.sub("", source).encode())
        lines = parser.close()
    except etree.XMLSyntaxError as error:
        raise document.damaged_file(kind) from error
    return Document(strip_invisible("\n".join(lines).strip() + "\n"))


class _Writer:
    """Writes the lines of a document."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._words: list[str] = []
        self._leaf = False

    def start(self, name: str, _attributes: object) -> None:
        if not self._lines:
            self._lines += [f"# {_local(name)}", ""]
        self._write("")
        self._leaf = True

    def end(self, name: str) -> None:
        self._write(_local(name) if self._leaf else "")
        if not self._leaf and self._lines[-1]:
            self._lines.append("")
        self._leaf = False

    def data(self, text: str) -> None:
        self._words.append(text)

    def close(self) -> list[str]:
        return self._lines

    def _write(self, label: str) -> None:
        text = " ".join("".join(self._words).split())
        self._words.clear()
        if text:
            self._lines.append(f"{label}: {text}" if label and len(text) <= _LABELLED else text)


def _local(name: str) -> str:
    """The name of an element without its namespace."""
    return name.rpartition("}")[2].rpartition(":")[2]
