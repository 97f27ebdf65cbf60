"""Visio drawings (VSDX) as Markdown: texts of shapes by page, connections, shape data, comments."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

from connectors.parsers import detect, document, xml
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.formats.blocks import NOWHERE, Bounds, order_boxes
from connectors.parsers.formats.ooxml import Package, R
from connectors.parsers.messages import Task

_V = "{http://schemas.microsoft.com/office/visio/2012/main}"
_PAGES, _MASTERS = "visio/pages/pages.xml", "visio/masters/masters.xml"
_PAGE = re.compile(r"visio/pages/page(\d+)\.xml")
_PER_INCH = 1_000
_MAX_DEPTH = 20
_NAMED_BY_VISIO = re.compile(r"Sheet\.\d+|Dynamic connector.*")


def read_document(kind: Kind, path: Path, _task: Task) -> Document:
    """Convert pages to Markdown, foreground pages first. Skippable if damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            package = Package(archive)
            package.require("visio/document.xml")
            masters = _read_masters(package)
            texts = [_Page(package.require(part), masters).text(title) for title, part in _list_pages(package)]
            comments = _comments(package)
            about = xml.read_about(archive, "docProps/core.xml")
    except xml.BROKEN as error:
        raise document.damaged_file(kind) from error
    text, starts = "", []
    for page in texts:
        starts.append(len(text))
        text += f"{page}\n\n" if page else ""
    text = "\n\n".join([*filter(None, [text.strip("\n")]), *comments])
    return Document(f"{text}\n", pages=tuple(starts), page_count=len(texts), **about)


def _list_pages(package: Package) -> list[tuple[str, str]]:
    """Return names and parts of the pages; unlisted pages have no name."""
    root, relations = package.root(_PAGES), package.relations(_PAGES)
    entries = [] if root is None else sorted(root.iter(f"{_V}Page"), key=lambda page: page.get("Background") == "1")
    pages = [(_named(entry), _target(entry, relations)) for entry in entries]
    pages = [(title, part) for title, part in pages if part in package.names]
    linked = {part for _, part in pages}
    unlisted = {name: int(match[1]) for name in package.names - linked if (match := _PAGE.fullmatch(name))}
    return pages + [("", name) for name in sorted(unlisted, key=lambda name: unlisted[name])]


def _target(entry: Element, relations: dict[str, tuple[str, str]]) -> str:
    relation = entry.find(f"{_V}Rel")
    return "" if relation is None else relations.get(relation.get(f"{R}id", ""), ("", ""))[1]


@dataclass(frozen=True, slots=True)
class _Master:
    """Master of copied shapes. `shapes`: by id."""

    name: str
    first: Element | None
    shapes: dict[str, Element]


def _read_masters(package: Package) -> dict[str, _Master]:
    root, relations = package.root(_MASTERS), package.relations(_MASTERS)
    masters = {}
    for entry in () if root is None else root.iter(f"{_V}Master"):
        content = package.root(_target(entry, relations))
        shapes = [] if content is None else list(content.iter(f"{_V}Shape"))
        name = _named(entry)
        masters[entry.get("ID", "")] = _Master(name, next(iter(shapes), None), {s.get("ID", ""): s for s in shapes})
    return masters


def _comments(package: Package) -> list[str]:
    root = package.root("visio/comments.xml")
    entries = () if root is None else root.iter(f"{_V}CommentEntry")
    texts = (" ".join("".join(entry.itertext()).split()) for entry in entries)
    return [f"Comment: {strip_invisible(text)}" for text in texts if text]


class _Page:
    """Reader of the shapes of one page."""

    def __init__(self, root: Element, masters: dict[str, _Master]) -> None:
        self._root, self._masters = root, masters
        self._boxed: list[tuple[str, Bounds]] = []
        self._labels: dict[str, str] = {}
        self._ends: dict[str, dict[str, str]] = {}
        for connect in root.iter(f"{_V}Connect"):
            ends = self._ends.setdefault(connect.get("FromSheet", ""), {})
            ends[connect.get("FromCell", "")] = connect.get("ToSheet", "")

    def text(self, title: str) -> str:
        top = self._root.find(f"{_V}Shapes")
        self._read(() if top is None else top, None, (0.0, 0.0), 0)
        joined = self._connections()
        texts = [*order_boxes(self._boxed), *(["\n".join(joined)] if joined else [])]
        heading = [f"## {detect.one_line(title)}"] if title and texts else []
        return strip_invisible("\n\n".join([*heading, *texts]))

    def _read(
        self, shapes: Element | tuple[()], master: _Master | None, origin: tuple[float, float], depth: int
    ) -> None:
        """Collect texts and positions of shapes. `origin`: lower left corner of their group, in inches."""
        for shape in shapes:
            if shape.get("Del") == "1" or depth > _MAX_DEPTH:
                continue
            own_master = self._masters.get(shape.get("Master", ""), master)
            model = _model(shape, own_master)
            corner, box = _place(shape, model, origin)
            words, number = _words(shape, model), shape.get("ID", "")
            self._labels[number] = words or _name(shape, own_master)
            text = "\n".join(filter(None, [words, *_data(shape, model)]))
            if text and not self._is_joined(number):
                self._boxed.append((text, box))
            inner = shape.find(f"{_V}Shapes")
            self._read(() if inner is None else inner, own_master, corner, depth + 1)

    def _is_joined(self, number: str) -> bool:
        return {"BeginX", "EndX"} <= self._ends.get(number, {}).keys()

    def _connections(self) -> list[str]:
        lines = []
        for number, ends in self._ends.items():
            label = self._labels.get(number, "")
            first, last = (self._labels.get(ends.get(end, ""), "") for end in ("BeginX", "EndX"))
            if first and last:
                is_named = label and not _NAMED_BY_VISIO.fullmatch(label)
                lines.append(detect.one_line(f"- {first} → {last}" + (f": {label}" if is_named else "")))
            elif label and self._is_joined(number):
                lines.append(f"- {detect.one_line(label)}")
        return lines


def _model(shape: Element, master: _Master | None) -> Element | None:
    """The shape of the master that gives this one what it does not say itself."""
    if master is None:
        return None
    return master.first if shape.get("Master") else master.shapes.get(shape.get("MasterShape", ""))


def _words(shape: Element, model: Element | None) -> str:
    text = shape.find(f"{_V}Text")
    if text is None and model is not None:
        text = model.find(f"{_V}Text")
    lines = "".join(() if text is None else text.itertext()).replace("\u2028", "\n").split("\n")
    return "\n".join(filter(None, (" ".join(line.split()) for line in lines)))


def _named(entry: Element) -> str:
    return entry.get("Name", "") or entry.get("NameU", "")


def _name(shape: Element, master: _Master | None) -> str:
    """The name that a user gave the shape, else its master's; "" for one that Visio numbers."""
    name = _named(shape)
    if not name or _NAMED_BY_VISIO.fullmatch(name):
        name = master.name if master else ""
    return "" if _NAMED_BY_VISIO.fullmatch(name) else re.sub(r"\.\d+$", "", name)


def _data(shape: Element, model: Element | None) -> Iterator[str]:
    """Lines of the shape data, whose labels may stand in the master."""
    usual = _rows(model)
    for key, cells in _rows(shape).items():
        both = {**usual.get(key, {}), **cells}
        if both.get("Value") and both.get("Invisible") != "1":
            label = both.get("Label") or key
            yield f"{detect.one_line(label)}: {detect.one_line(both['Value'])}"


def _rows(shape: Element | None) -> dict[str, dict[str, str]]:
    sections = () if shape is None else shape.findall(f"{_V}Section")
    return {
        row.get("N", row.get("IX", "")): {cell.get("N", ""): cell.get("V", "") for cell in row.findall(f"{_V}Cell")}
        for section in sections
        if section.get("N") == "Property"
        for row in section.findall(f"{_V}Row")
    }


def _place(shape: Element, model: Element | None, origin: tuple[float, float]) -> tuple[tuple[float, float], Bounds]:
    """The lower left corner in inches and the bounds, downwards, of a shape within its group."""
    cells = {cell.get("N", ""): cell.get("V", "") for node in (model, shape) if node is not None for cell in node}
    if "PinX" not in cells or "PinY" not in cells:
        return origin, NOWHERE
    width, height = _number(cells, "Width"), _number(cells, "Height")
    left = origin[0] + _number(cells, "PinX") - _number(cells, "LocPinX", width / 2)
    low = origin[1] + _number(cells, "PinY") - _number(cells, "LocPinY", height / 2)
    edges = (left, -low - height, left + width, -low)
    first, top, right, bottom = (int(edge * _PER_INCH) for edge in edges)
    return (left, low), (first, top, right, bottom)


def _number(cells: dict[str, str], name: str, usual: float = 0.0) -> float:
    try:
        number = float(cells.get(name, ""))
    except ValueError:
        return usual
    return number if abs(number) < 1e6 else usual
