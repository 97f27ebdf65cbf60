"""OpenDocument texts and presentations: headings, lists, tables, notes and comments, a presentation slide by slide."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from connectors.parsers.detect import file_types, plain
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.messages import Reply
from connectors.parsers.text import properties, xml
from retrieval.errors import Skippable

_NAMES = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _DRAW, _TABLE = f"{{{_NAMES}text:1.0}}", f"{{{_NAMES}drawing:1.0}}", f"{{{_NAMES}table:1.0}}"
_OFFICE, _META = f"{{{_NAMES}office:1.0}}", f"{{{_NAMES}meta:1.0}}"
_CLASS = f"{{{_NAMES}presentation:1.0}}class"
_NOTES = f"{{{_NAMES}presentation:1.0}}notes"
_DUBLIN = "{http://purl.org/dc/elements/1.1/}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_PICTURE = f"{{{_NAMES}svg-compatible:1.0}}desc"
_SPACES = {f"{_TEXT}s": " ", f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n"}
_BESIDE = frozenset({f"{_TEXT}note", f"{_OFFICE}annotation", f"{_DRAW}frame", f"{_TEXT}tracked-changes"})
"""Told after the paragraph or after the text, or not at all: what was deleted."""
_DEEPEST = 12


def read(kind: Kind, path: Path) -> Reply:
    """The document as Markdown; each slide of a presentation is a page. Skippable if it is damaged or holds no text."""
    try:
        with zipfile.ZipFile(path) as archive:
            content = xml.root(archive, "content.xml")
            about = xml.root(archive, "meta.xml") if "meta.xml" in archive.namelist() else None
        parts = _slides(content) if kind is file_types.ODP else [_whole(content)]
    except xml.BROKEN as error:
        raise Skippable(
            f"The {kind.label} file is damaged or incomplete and cannot be read. "
            "Save it again from the program that made it and upload that."
        ) from error
    if not any(parts):
        raise Skippable("The file holds no text. Upload a file with text in it.")
    starts, text = [], ""
    for part in parts:
        starts.append(len(text))
        text += f"{part}\n\n" if part else ""
    title = _about(about, f"{_DUBLIN}title") or plain.first_heading(text)
    known = {"mimeType": kind.media_type, "fileSize": path.stat().st_size, **_said(about)}
    if kind is not file_types.ODP:
        return Reply(text=text.rstrip() + "\n", title=title, properties=known)
    return Reply(text=text, title=title, pages=tuple(starts), properties=known | {"pageCount": len(parts)})


def _said(about: Element | None) -> dict[str, str | int]:
    """What the document says of itself."""
    said = {
        "author": _about(about, f"{_META}initial-creator") or _about(about, f"{_DUBLIN}creator"),
        "createdAt": properties.instant(_about(about, f"{_META}creation-date")),
        "modifiedAt": properties.instant(_about(about, f"{_DUBLIN}date")),
        "language": _about(about, f"{_DUBLIN}language").partition("-")[0],
    }
    return {name: value for name, value in said.items() if value}


def _about(root: Element | None, name: str) -> str:
    found = None if root is None else next(root.iter(name), None)
    return plain.one_line("".join(found.itertext())) if found is not None else ""


def _whole(content: Element) -> str:
    body = next(content.iter(f"{_OFFICE}text"), None)
    if body is None:
        return ""
    blocks = list(_blocks(body, 0))
    for note in body.iter(f"{_TEXT}note"):
        words = " ".join(block for part in note.iter(f"{_TEXT}note-body") for block in _blocks(part, 0))
        blocks += [f"Footnote: {words}"] if words else []
    for comment in body.iter(f"{_OFFICE}annotation"):
        who, words = _about(comment, f"{_DUBLIN}creator"), " ".join(_blocks(comment, 0))
        blocks += [f"Comment by {who}: {words}" if who else f"Comment: {words}"] if words else []
    return plain.storable("\n\n".join(blocks))


def _slides(content: Element) -> list[str]:
    return [_slide(page) for page in content.iter(f"{_DRAW}page")]


def _slide(page: Element) -> str:
    blocks: list[str] = []
    for part in page:
        if part.tag == _NOTES:
            blocks += [block for frame in part if frame.get(_CLASS) == "notes" for block in _blocks(frame, 0)]
        elif part.get(_CLASS) == "title":
            words = plain.one_line(" ".join(_blocks(part, 0)))
            blocks += [f"## {words}"] if words else []
        else:
            blocks += _blocks(part, 0)
    return plain.storable("\n\n".join(blocks))


def _blocks(node: Element, depth: int, *, in_cell: bool = False) -> Iterator[str]:
    """Paragraphs, lists and tables below a node, in their order. `in_cell`: a table there is told cell after cell."""
    for part in node:
        if part.tag in (f"{_TEXT}p", f"{_TEXT}h"):
            yield from filter(None, [_paragraph(part)])
            yield from _framed(part, depth)
        elif part.tag == f"{_TEXT}list":
            yield from filter(None, ["\n".join(_items(part, 0))])
        elif part.tag == f"{_TABLE}table":
            rows = [[" ".join(_blocks(cell, 0, in_cell=True)) for cell in row] for row in _rows(part)]
            yield from filter(
                None, [" ".join(cell for row in rows for cell in row if cell)] if in_cell else [_table(rows)]
            )
        elif part.tag == _PICTURE:
            yield from filter(None, [_words(part)])
        elif depth < _DEEPEST and not _is_apart(part):
            yield from _blocks(part, depth + 1, in_cell=in_cell)


def _is_apart(part: Element) -> bool:
    return (part.tag in _BESIDE and part.tag != f"{_DRAW}frame") or part.tag.endswith("-source")


def _paragraph(part: Element) -> str:
    words = _words(part).strip()
    if part.tag != f"{_TEXT}h" or not words:
        return words
    level = part.get(f"{_TEXT}outline-level", "1")
    return f"{'#' * min(int(level) if level.isdecimal() else 1, 6)} {plain.one_line(words)}"


def _framed(paragraph: Element, depth: int) -> Iterator[str]:
    """Text boxes and descriptions of pictures that hang on a paragraph."""
    for part in paragraph:
        if part.tag != f"{_DRAW}frame":
            yield from _framed(part, depth)
        elif depth < _DEEPEST:
            yield from _blocks(part, depth + 1)


def _items(node: Element, level: int) -> Iterator[str]:
    for item in node:
        for part in item:
            if part.tag in (f"{_TEXT}p", f"{_TEXT}h"):
                words = plain.one_line(_words(part))
                if words:
                    yield f"{'  ' * level}- {words}"
            elif part.tag == f"{_TEXT}list" and level < _DEEPEST:
                yield from _items(part, level + 1)


def _table(rows: list[list[str]]) -> str:
    if not any(map(any, rows)):
        return ""
    width = max(map(len, rows))
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    lines = [f"| {' | '.join(row + [''] * (width - len(row)))} |" for row in cells]
    return "\n".join([lines[0], f"|{' --- |' * width}", *lines[1:]])


def _rows(node: Element) -> Iterator[Element]:
    """Of this table, not of those in its cells."""
    for part in node:
        if part.tag == f"{_TABLE}table-row":
            yield part
        elif part.tag in (f"{_TABLE}table-header-rows", f"{_TABLE}table-rows", f"{_TABLE}table-row-group"):
            yield from _rows(part)


def _words(node: Element) -> str:
    found = [node.text or ""]
    for part in node:
        if part.tag not in _BESIDE:
            words = _SPACES.get(part.tag) or _words(part)
            address = part.get(_LINK, "") if part.tag == f"{_TEXT}a" else ""
            found.append(f"[{words}]({address})" if words and address.startswith("http") else words)
        found.append(part.tail or "")
    return "".join(found)
