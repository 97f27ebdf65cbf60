"""Convert Jupyter notebooks to Markdown: texts, code, and outputs of text or tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from connectors.parsers import detect, document
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.formats import html_text
from connectors.parsers.messages import Task

_TERMINAL_CODES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_EMBEDDED_IMAGE: Final = re.compile(
    r"!\[([^\]\n]{0,500}+)\]\((?:attachment|data):[^)\[\n]*\)|data:[\w.+-]+/[\w.+-]+;base64,[\w+/=%]*"
)
_TABLE_START: Final = re.compile(r"<table\b", re.IGNORECASE)
_TEXT_TYPES: Final = ("text/markdown", "text/html", "text/plain", "text/latex", "application/json")


def read_document(kind: Kind, path: Path, task: Task) -> Document:
    """Return the cells in order. Skippable if damaged."""
    try:
        notebook = json.loads(detect.text_of(path.read_bytes(), task.media_type))
        reader = _Reader(_notebook_language(notebook))
        text = "\n\n".join(part for cell in _notebook_cells(notebook) for part in reader.parts(cell))
        title = str(notebook.get("metadata", {}).get("title") or "")
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise document.damaged_file(kind) from error
    notices = (f"Not read: pictures and programs among the outputs ({reader.skipped:,}).",) if reader.skipped else ()
    return Document(strip_invisible(f"{text}\n"), title=title, warnings=notices)


def _notebook_language(notebook: dict[str, Any]) -> str:
    about = notebook.get("metadata", {})
    return str(about.get("language_info", {}).get("name") or about.get("kernelspec", {}).get("language") or "")


def _notebook_cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return cells of format 4, or of the worksheets of format 3."""
    for sheet in (notebook, *notebook.get("worksheets", ())):
        yield from sheet.get("cells", ())


class _Reader:
    """Writes the cells of one notebook. `skipped`: count of outputs without text."""

    def __init__(self, language: str) -> None:
        self._notebook_language = language
        self.skipped = 0

    def parts(self, cell: dict[str, Any]) -> Iterator[str]:
        source = _join_lines(cell.get("source", cell.get("input", ""))).strip("\n")
        kind = cell.get("cell_type")
        if kind == "heading":
            source = f"{'#' * min(int(cell.get('level', 1)), 6)} {source}"
        if kind != "code":
            words = _EMBEDDED_IMAGE.sub(lambda match: match[1] or "", source)
            self.skipped += len(_EMBEDDED_IMAGE.findall(source))
            yield from [words] if words.strip() else []
            return
        if source.strip():
            yield _fence_code(source, self._notebook_language)
        for output in cell.get("outputs", ()):
            yield from filter(None, [self._output_text(output)])

    def _output_text(self, output: dict[str, Any]) -> str:
        kind = output.get("output_type")
        if kind == "stream":
            return _fence_code(_join_lines(output.get("text", "")))
        if kind in ("error", "pyerr"):
            return _fence_code(f"{output.get('ename', '')}: {output.get('evalue', '')}")
        data = output.get("data", {"text/plain": output.get("text", ""), "text/html": output.get("html", "")})
        texts = {name: _join_lines(data[name]) for name in _TEXT_TYPES if data.get(name)}
        self.skipped += any(not name.startswith("text/") and name not in _TEXT_TYPES for name in data)
        page = texts.get("text/html", "")
        if page and (_TABLE_START.search(page) or "text/plain" not in texts):
            return html_text.page_body(page)
        if "text/markdown" in texts:
            return _EMBEDDED_IMAGE.sub("", texts["text/markdown"])
        return _fence_code(
            next((texts[name] for name in ("text/plain", "text/latex", "application/json") if name in texts), "")
        )


def _join_lines(text: Any) -> str:
    if isinstance(text, dict):
        return json.dumps(text, ensure_ascii=False, indent=1)
    return "".join(map(str, text)) if isinstance(text, list) else str(text)


def _fence_code(text: str, language: str = "") -> str:
    """Put code or output between fences absent from the text."""
    text = _TERMINAL_CODES.sub("", text).strip("\n")
    # A progress bar returns to the start of its line; the last state stays on the screen.
    text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text}\n{fence}" if text.strip() else ""
