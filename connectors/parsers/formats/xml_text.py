"""XML of any kind as text: what its elements hold, a line each, and blocks for those that hold others."""

from __future__ import annotations

import re
from pathlib import Path
from xml.parsers import expat

from connectors.parsers.detect import plain
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.document import Document
from connectors.parsers.messages import Task
from connectors.parsers.text import properties
from connectors.parsers.text.cleanup import visible

_LABELLED = 200
"""Characters up to which a text stands behind the name of its element; a longer one is prose."""


def read(kind: Kind, path: Path, task: Task) -> Document:
    """The words of the elements, without those of entities, which may lie outside of the file. Skippable if damaged."""
    source = plain.text_of(path.read_bytes(), task.media_type, markup=True)
    writer = _Writer()
    try:
        writer.parser.Parse(re.sub(r"^\s*<\?xml[^>]*\?>", "", source), True)  # noqa: FBT003 - expat's signature
    except expat.ExpatError as error:
        raise properties.damaged(kind) from error
    return Document(visible("\n".join(writer.lines).strip() + "\n"))


class _Writer:
    """Writes the lines of a document."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._words: list[str] = []
        self._leaf = False
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._words.append

    def _start(self, name: str, _attributes: dict[str, str]) -> None:
        if not self.lines:
            self.lines += [f"# {name.rpartition(':')[2]}", ""]
        self._write("")
        self._leaf = True

    def _end(self, name: str) -> None:
        self._write(name.rpartition(":")[2] if self._leaf else "")
        if not self._leaf and self.lines[-1]:
            self.lines.append("")
        self._leaf = False

    def _write(self, label: str) -> None:
        text = " ".join("".join(self._words).split())
        self._words.clear()
        if text:
            self.lines.append(f"{label}: {text}" if label and len(text) <= _LABELLED else text)
