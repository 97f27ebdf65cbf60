"""OpenDocument presentations, which the library does not read: titles, lists, tables and notes, slide by slide."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser, parse

from connectors.parsers import kinds, plain, properties
from connectors.parsers.messages import Reply
from retrieval.errors import Skippable

_NAMES = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _DRAW, _TABLE = f"{{{_NAMES}text:1.0}}", f"{{{_NAMES}drawing:1.0}}", f"{{{_NAMES}table:1.0}}"
_CLASS = f"{{{_NAMES}presentation:1.0}}class"
_NOTES = f"{{{_NAMES}presentation:1.0}}notes"
_META = f"{{{_NAMES}meta:1.0}}"
_DUBLIN = "{http://purl.org/dc/elements/1.1/}"
_SPACES = {f"{_TEXT}s": " ", f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n"}
_DEEPEST = 12
_PROMPTS = re.compile(
    r"^(?:#+ )?(?:Click to edit (?:the|Master) [a-z ]{4,40}|(?:Second|Third|Fourth|Fifth|Sixth|Seventh)"
    r"(?: Outline)? [Ll]evel|-----)[ \t]*$",
    re.MULTILINE,
)


class _Refused(Exception):
    """The XML declares entities."""


BROKEN = (zipfile.BadZipFile, OSError, KeyError, ParseError, NotImplementedError, RuntimeError, ValueError, _Refused)


def without_prompts(text: str) -> str:
    """The text of a PPT without what its master slides ask their author to do."""
    return re.sub(r"\n{3,}", "\n\n", _PROMPTS.sub("", text)).strip("\n") + "\n"


def read(path: Path) -> Reply:
    """The presentation as Markdown; each slide is a page. Skippable if it is damaged or holds no text."""
    try:
        with zipfile.ZipFile(path) as archive:
            slides = [_slide(page) for page in root(archive, "content.xml").iter(f"{_DRAW}page")]
            about = root(archive, "meta.xml") if "meta.xml" in archive.namelist() else None
    except BROKEN as error:
        raise Skippable(
            "The ODP file is damaged or incomplete and cannot be read. "
            "Save it again from the program that made it and upload that."
        ) from error
    if not any(slides):
        raise Skippable("The file holds no text. Upload a file with text in it.")
    starts, text = [], ""
    for slide in slides:
        starts.append(len(text))
        text += f"{slide}\n\n" if slide else ""
    known: dict[str, str | int] = {
        "mimeType": kinds.ODP.media_type,
        "fileSize": path.stat().st_size,
        "pageCount": len(slides),
    }
    title = _about(about, f"{_DUBLIN}title") or plain.first_heading(text)
    author = _about(about, f"{_META}initial-creator") or _about(about, f"{_DUBLIN}creator")
    said = {
        "author": author,
        "createdAt": properties.instant(_about(about, f"{_META}creation-date")),
        "modifiedAt": properties.instant(_about(about, f"{_DUBLIN}date")),
    }
    known.update({name: value for name, value in said.items() if value})
    return Reply(text=text, title=title, pages=tuple(starts), properties=known)


class _NoEntities(TreeBuilder):
    """A tree of XML that may not declare anything."""

    def doctype(self, _name: str, _public: str | None, _system: str | None) -> None:
        raise _Refused


def root(archive: zipfile.ZipFile, name: str) -> Element:
    with archive.open(name) as stream:
        root = parse(stream, XMLParser(target=_NoEntities())).getroot()  # noqa: S314
    if root is None:
        raise KeyError(name)
    return root


def _about(root: Element | None, name: str) -> str:
    found = None if root is None else next(root.iter(name), None)
    return plain.one_line("".join(found.itertext())) if found is not None else ""


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


def _blocks(node: Element, depth: int) -> Iterator[str]:
    """Paragraphs, lists and tables below a node, in their order."""
    for part in node:
        if part.tag in (f"{_TEXT}p", f"{_TEXT}h"):
            words = _words(part)
            if words:
                yield words
        elif part.tag == f"{_TEXT}list":
            yield from filter(None, ["\n".join(_items(part, 0))])
        elif part.tag == f"{_TABLE}table":
            yield from filter(None, [_table(part)])
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


def _table(node: Element) -> str:
    rows = [
        [" ".join(_blocks(cell, 0)).replace("|", "\\|").replace("\n", " ") for cell in row]
        for row in node.iter(f"{_TABLE}table-row")
    ]
    if not rows or not any(map(any, rows)):
        return ""
    width = max(map(len, rows))
    lines = [f"| {' | '.join(row + [''] * (width - len(row)))} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * width}", *lines[1:]])


def _words(node: Element) -> str:
    found = [node.text or ""]
    for part in node:
        found += [_SPACES.get(part.tag) or _words(part), part.tail or ""]
    return "".join(found).strip() if node.tag in (f"{_TEXT}p", f"{_TEXT}h") else "".join(found)
