"""XML of any kind as text: what its elements hold, a line each, and blocks for those that hold others."""

from __future__ import annotations

import re
from pathlib import Path

from lxml import etree

from connectors.parsers.detect import plain
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.document import Document
from connectors.parsers.messages import Task
from connectors.parsers.text import properties
from connectors.parsers.text.cleanup import visible

_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_LABELLED = 200
"""Characters up to which a text stands behind the name of its element; a longer one is prose."""


def read(kind: Kind, path: Path, task: Task) -> Document:
    """The words of the elements, without those of entities, which may lie outside of the file. Skippable if damaged."""
    source = plain.text_of(path.read_bytes(), task.media_type, markup=True)
    writer = _Writer()
    parser = etree.XMLParser(target=writer, recover=True, resolve_entities=False, no_network=True, huge_tree=True)
    try:
        parser.feed(_DECLARATION.sub("", source).encode())
        lines = parser.close()
    except etree.XMLSyntaxError as error:
        raise properties.damaged(kind) from error
    return Document(visible("\n".join(lines).strip() + "\n"))


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
