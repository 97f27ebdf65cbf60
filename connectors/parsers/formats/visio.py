"""Convert Visio drawings (VSDX) to Markdown: texts, connections, shape data and comments of each page."""

from __future__ import annotations

import re
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

_VISIO_NS = "{http://schemas.microsoft.com/office/visio/2012/main}"
_PAGES_PART, _MASTERS_PART = "visio/pages/pages.xml", "visio/masters/masters.xml"
_PAGE_PATTERN = re.compile(r"visio/pages/page(\d+)\.xml")
_UNITS_PER_INCH = 1_000
_MAX_DEPTH = 20
_AUTOMATIC_NAME = re.compile(r"Sheet\.\d+|Dynamic connector.*")


def read_document(kind: Kind, path: Path, _task: Task) -> Document:
    """Return the pages as Markdown, foreground first. Skippable if damaged."""
    try:
        with xml.open_package(path) as archive:
            package = Package(archive)
            package.require("visio/document.xml")
            masters = _read_masters(package)
            texts = [_PageReader(package.require(part), masters).text(title) for title, part in _list_pages(package)]
            comments = _read_comments(package)
            about = xml.read_properties(archive, "docProps/core.xml")
    except xml.PARSE_ERRORS as error:
        raise document.damaged_file(kind) from error
    text, starts = "", []
    for page in texts:
        starts.append(len(text))
        text += f"{page}\n\n" if page else ""
    text = "\n\n".join([*filter(None, [text.strip("\n")]), *comments])
    return Document(f"{text}\n", pages=tuple(starts), page_count=len(texts), **about)


def _list_pages(package: Package) -> list[tuple[str, str]]:
    """Return names and parts of the pages; unlisted pages without a name."""
    root, relations = package.root(_PAGES_PART), package.relations(_PAGES_PART)
    entries = (
        [] if root is None else sorted(root.iter(f"{_VISIO_NS}Page"), key=lambda page: page.get("Background") == "1")
    )
    pages = [(_entry_name(entry), _target_part(entry, relations)) for entry in entries]
    pages = [(title, part) for title, part in pages if part in package.names]
    linked = {part for _, part in pages}
    unlisted = {name: int(match[1]) for name in package.names - linked if (match := _PAGE_PATTERN.fullmatch(name))}
    return pages + [("", name) for name in sorted(unlisted, key=lambda name: unlisted[name])]


def _target_part(entry: Element, relations: dict[str, tuple[str, str]]) -> str:
    relation = entry.find(f"{_VISIO_NS}Rel")
    return "" if relation is None else relations.get(relation.get(f"{R}id", ""), ("", ""))[1]


@dataclass(frozen=True, slots=True)
class _Master:
    """Model of copied shapes. `shapes`: by id."""

    name: str
    first: Element | None
    shapes: dict[str, Element]


def _read_masters(package: Package) -> dict[str, _Master]:
    root, relations = package.root(_MASTERS_PART), package.relations(_MASTERS_PART)
    masters = {}
    for entry in () if root is None else root.iter(f"{_VISIO_NS}Master"):
        content = package.root(_target_part(entry, relations))
        shapes = [] if content is None else list(content.iter(f"{_VISIO_NS}Shape"))
        name = _entry_name(entry)
        masters[entry.get("ID", "")] = _Master(name, next(iter(shapes), None), {s.get("ID", ""): s for s in shapes})
    return masters


def _read_comments(package: Package) -> list[str]:
    root = package.root("visio/comments.xml")
    entries = () if root is None else root.iter(f"{_VISIO_NS}CommentEntry")
    texts = (" ".join("".join(entry.itertext()).split()) for entry in entries)
    return [f"Comment: {strip_invisible(text)}" for text in texts if text]


class _PageReader:
    """Reads the shapes of one page."""

    def __init__(self, root: Element, masters: dict[str, _Master]) -> None:
        self._root, self._masters = root, masters
        self._boxed: list[tuple[str, Bounds]] = []
        self._labels: dict[str, str] = {}
        self._ends: dict[str, dict[str, str]] = {}
        for connect in root.iter(f"{_VISIO_NS}Connect"):
            ends = self._ends.setdefault(connect.get("FromSheet", ""), {})
            ends[connect.get("FromCell", "")] = connect.get("ToSheet", "")

    def text(self, title: str) -> str:
        top = self._root.find(f"{_VISIO_NS}Shapes")
        self._read_shapes(() if top is None else top, None, (0.0, 0.0), 0)
        joined = self._connection_lines()
        texts = [*order_boxes(self._boxed), *(["\n".join(joined)] if joined else [])]
        heading = [f"## {detect.one_line(title)}"] if title and texts else []
        return strip_invisible("\n\n".join([*heading, *texts]))

    def _read_shapes(
        self, shapes: Element | tuple[()], master: _Master | None, origin: tuple[float, float], depth: int
    ) -> None:
        """Collect texts and places of shapes. `origin`: lower left corner of their group, in inches."""
        for shape in shapes:
            if shape.get("Del") == "1" or depth > _MAX_DEPTH:
                continue
            own_master = self._masters.get(shape.get("Master", ""), master)
            model = _model_shape(shape, own_master)
            corner, box = _shape_place(shape, model, origin)
            words, number = _shape_words(shape, model), shape.get("ID", "")
            self._labels[number] = words or _shape_name(shape, own_master)
            text = "\n".join(filter(None, [words, *_shape_data(shape, model)]))
            if text and not self._is_joined(number):
                self._boxed.append((text, box))
            inner = shape.find(f"{_VISIO_NS}Shapes")
            self._read_shapes(() if inner is None else inner, own_master, corner, depth + 1)

    def _is_joined(self, number: str) -> bool:
        return {"BeginX", "EndX"} <= self._ends.get(number, {}).keys()

    def _connection_lines(self) -> list[str]:
        lines = []
        for number, ends in self._ends.items():
            label = self._labels.get(number, "")
            first, last = (self._labels.get(ends.get(end, ""), "") for end in ("BeginX", "EndX"))
            if first and last:
                is_named = label and not _AUTOMATIC_NAME.fullmatch(label)
                lines.append(detect.one_line(f"- {first} → {last}" + (f": {label}" if is_named else "")))
            elif label and self._is_joined(number):
                lines.append(f"- {detect.one_line(label)}")
        return lines


def _model_shape(shape: Element, master: _Master | None) -> Element | None:
    """Return the master's shape with the default values of this shape."""
    if master is None:
        return None
    return master.first if shape.get("Master") else master.shapes.get(shape.get("MasterShape", ""))


def _shape_words(shape: Element, model: Element | None) -> str:
    text = shape.find(f"{_VISIO_NS}Text")
    if text is None and model is not None:
        text = model.find(f"{_VISIO_NS}Text")
    lines = "".join(() if text is None else text.itertext()).replace("\u2028", "\n").split("\n")
    return "\n".join(filter(None, (" ".join(line.split()) for line in lines)))


def _entry_name(entry: Element) -> str:
    return entry.get("Name", "") or entry.get("NameU", "")


def _shape_name(shape: Element, master: _Master | None) -> str:
    """Return the user-defined name, else the master's; "" for automatic names."""
    name = _entry_name(shape)
    if not name or _AUTOMATIC_NAME.fullmatch(name):
        name = master.name if master else ""
    return "" if _AUTOMATIC_NAME.fullmatch(name) else re.sub(r"\.\d+$", "", name)


def _shape_data(shape: Element, model: Element | None) -> Iterator[str]:
    """Return lines of the shape data, with labels from the shape or master."""
    usual = _data_rows(model)
    for key, cells in _data_rows(shape).items():
        both = {**usual.get(key, {}), **cells}
        if both.get("Value") and both.get("Invisible") != "1":
            label = both.get("Label") or key
            yield f"{detect.one_line(label)}: {detect.one_line(both['Value'])}"


def _data_rows(shape: Element | None) -> dict[str, dict[str, str]]:
    sections = () if shape is None else shape.findall(f"{_VISIO_NS}Section")
    return {
        row.get("N", row.get("IX", "")): {
            cell.get("N", ""): cell.get("V", "") for cell in row.findall(f"{_VISIO_NS}Cell")
        }
        for section in sections
        if section.get("N") == "Property"
        for row in section.findall(f"{_VISIO_NS}Row")
    }


def _shape_place(
    shape: Element, model: Element | None, origin: tuple[float, float]
) -> tuple[tuple[float, float], Bounds]:
    """Return lower left corner in inches and bounds, downwards, of a shape inside its group."""
    cells = {cell.get("N", ""): cell.get("V", "") for node in (model, shape) if node is not None for cell in node}
    if "PinX" not in cells or "PinY" not in cells:
        return origin, NOWHERE
    width, height = _cell_number(cells, "Width"), _cell_number(cells, "Height")
    left = origin[0] + _cell_number(cells, "PinX") - _cell_number(cells, "LocPinX", width / 2)
    low = origin[1] + _cell_number(cells, "PinY") - _cell_number(cells, "LocPinY", height / 2)
    edges = (left, -low - height, left + width, -low)
    first, top, right, bottom = (int(edge * _UNITS_PER_INCH) for edge in edges)
    return (left, low), (first, top, right, bottom)


def _cell_number(cells: dict[str, str], name: str, usual: float = 0.0) -> float:
    try:
        number = float(cells.get(name, ""))
    except ValueError:
        return usual
    return number if abs(number) < 1e6 else usual
