"""Office content that the parsing library leaves out: comments, text boxes, notes, charts."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from connectors.parsers.detect import file_types
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.text import xml

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_LARGEST = 8 << 20
"""Bytes of one part that is looked into."""
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"


def beside(kind: Kind, path: Path, text: str) -> str:
    """To be put after the text: paragraphs that it does not hold already. Parts that are broken are passed over."""
    read = _READERS.get(kind)
    if read is None:
        return ""
    known = _words(text)
    try:
        with zipfile.ZipFile(path) as archive:
            found = [block for block in (*read(archive), *_drawn(archive)) if block.strip()]
    except xml.BROKEN:
        return ""
    fresh = [block for block in dict.fromkeys(found) if _words(block.partition(": ")[2] or block) not in known]
    return "".join(f"\n\n{block}" for block in fresh)


def _words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text))


def _parts(archive: zipfile.ZipFile, pattern: str, holding: bytes = b"") -> Iterator[tuple[str, Element]]:
    wanted = re.compile(pattern)
    for member in archive.infolist():
        if not wanted.fullmatch(member.filename) or member.file_size > _LARGEST:
            continue
        if holding and holding not in archive.read(member):
            continue
        yield member.filename, xml.root(archive, member.filename)


def _text(element: Element, letters: str, paragraph: str) -> str:
    """Runs joined, paragraphs apart."""
    blocks = ["".join(run.text or "" for run in one.iter(letters)) for one in element.iter(paragraph)]
    return "\n".join(" ".join(block.split()) for block in blocks if block.strip())


def _drawn(archive: zipfile.ZipFile) -> Iterator[str]:
    """Charts with their titles, rows and columns; the words of diagrams; text boxes on a sheet."""
    for _, root in _parts(archive, r"(?:word|ppt|xl)/charts/chart\d*\.xml"):
        words = [_text(root, f"{_A}t", f"{_A}p")]
        words += [
            " ".join((point.text or "").split())
            for cache in root.iter(f"{_C}strCache")
            for point in cache.iter(f"{_C}v")
        ]
        yield _said("Chart", None, "\n".join(dict.fromkeys(filter(None, words))))
    for _, root in _parts(archive, r"(?:(?:word|ppt|xl)/diagrams/data|xl/drawings/drawing)\d*\.xml"):
        yield _text(root, f"{_A}t", f"{_A}p")


def _said(what: str, who: str | None, words: str) -> str:
    return f"{what} by {who}: {words}" if words and who else f"{what}: {words}" if words else ""


def _workbook(archive: zipfile.ZipFile) -> Iterator[str]:
    for _, root in _parts(archive, r"xl/comments/?\w*\.xml"):
        for comment in root.iter(f"{_S}comment"):
            words = " ".join("".join(run.text or "" for run in comment.iter(f"{_S}t")).split())
            yield f"Comment on {comment.get('ref')}: {words}" if words else ""


_READERS: dict[Kind, Callable[[zipfile.ZipFile], Iterator[str]]] = {
    file_types.XLSX: _workbook,
}
