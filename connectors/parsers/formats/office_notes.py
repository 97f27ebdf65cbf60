"""Office content that the parsing library leaves out: comments, text boxes, notes, charts."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from connectors.parsers.detect import file_types
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.formats import pptx_repair
from connectors.parsers.text import xml

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_LARGEST = 8 << 20
"""Bytes of one part that is looked into."""
_BOX = b"txbxContent"
_SLIDE = re.compile(r"slides/slide(\d+)\.xml")
_OF_NOTES = frozenset({"sldNum", "sldImg", "hdr", "ftr", "dt"})
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


def _word(archive: zipfile.ZipFile) -> Iterator[str]:
    for _, root in _parts(archive, r"word/document\.xml", _BOX):
        for box in root.iter(f"{_W}txbxContent"):
            yield _text(box, f"{_W}t", f"{_W}p")
    for name, label in (("footnote", "Footnote"), ("endnote", "Endnote")):
        for _, root in _parts(archive, rf"word/{name}s\.xml"):
            for note in root.iter(f"{_W}{name}"):
                yield _said(label, None, _text(note, f"{_W}t", f"{_W}p"))
    for _, root in _parts(archive, r"word/comments\.xml"):
        for comment in root.iter(f"{_W}comment"):
            yield _said("Comment", comment.get(f"{_W}author"), _text(comment, f"{_W}t", f"{_W}p"))


def _said(what: str, who: str | None, words: str) -> str:
    return f"{what} by {who}: {words}" if words and who else f"{what}: {words}" if words else ""


def _presentation(archive: zipfile.ZipFile) -> Iterator[str]:
    slides = pptx_repair.shown(archive)
    for name, root in _parts(archive, r"ppt/notesSlides/notesSlide\d+\.xml"):
        shapes = [shape for shape in root.iter(f"{_P}sp") if not _is_furniture(shape)]
        words = "\n".join(filter(None, (_text(shape, f"{_A}t", f"{_A}p") for shape in shapes)))
        if words:
            yield f"Notes{_slide_of(archive, name, slides)}: {words}"
    for _, root in _parts(archive, r"ppt/comments/\w+\.xml"):
        for old in root.iter(f"{_P}text"):
            yield _said("Comment", None, " ".join((old.text or "").split()))
        yield _said("Comment", None, _text(root, f"{_A}t", f"{_A}p"))


def _is_furniture(shape: Element) -> bool:
    return any(place.get("type") in _OF_NOTES for place in shape.iter(f"{_P}ph"))


def _slide_of(archive: zipfile.ZipFile, notes: str, slides: list[str]) -> str:
    """By its place in the presentation, or else by the number in its name."""
    folder, _, name = notes.rpartition("/")
    try:
        found = _SLIDE.search(archive.read(f"{folder}/_rels/{name}.rels")[:65536].decode("utf-8", "replace"))
    except KeyError:
        return ""
    if found is None:
        return ""
    part = f"ppt/slides/slide{found[1]}.xml"
    return f" on slide {slides.index(part) + 1 if part in slides else found[1]}"


def _workbook(archive: zipfile.ZipFile) -> Iterator[str]:
    for _, root in _parts(archive, r"xl/comments/?\w*\.xml"):
        for comment in root.iter(f"{_S}comment"):
            words = " ".join("".join(run.text or "" for run in comment.iter(f"{_S}t")).split())
            yield f"Comment on {comment.get('ref')}: {words}" if words else ""


_READERS: dict[Kind, Callable[[zipfile.ZipFile], Iterator[str]]] = {
    file_types.DOCX: _word,
    file_types.PPTX: _presentation,
    file_types.XLSX: _workbook,
}
