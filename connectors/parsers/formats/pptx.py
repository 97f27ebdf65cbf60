"""Presentations (PPTX) slide by slide, with shapes in reading order."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree.ElementTree import Element

from connectors.parsers import detect, document, xml
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.formats import blocks, grids, ooxml
from connectors.parsers.formats.blocks import Bounds, whole_number, write_number
from connectors.parsers.formats.ooxml import MC, A, Package, R, Relations, paragraph_text, paragraph_texts
from connectors.parsers.messages import Task

_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_MAIN = "ppt/presentation.xml"
_TITLES = ("title", "ctrTitle")
_FURNITURE = frozenset({"sldNum", "dt", "hdr", "sldImg"})
# Placeholders with bulleted paragraphs by default.
_LISTED = frozenset({"body", "obj", ""})
_NUMBERS = {
    "arabic": "decimal",
    "alphaLc": "lowerLetter",
    "alphaUc": "upperLetter",
    "romanLc": "lowerRoman",
    "romanUc": "upperRoman",
}
_NUMBERED = re.compile(r"(arabic|alphaLc|alphaUc|romanLc|romanUc)(Period|ParenBoth|ParenR|Plain)")
_SLIDE = re.compile(r"ppt/slides/slide(\d+)\.xml")


def read_document(kind: Kind, path: Path, _task: Task) -> Document:
    """Convert slides to Markdown, one page each. Skippable if damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            package = Package(archive)
            if _MAIN not in package.names:
                raise KeyError(_MAIN)
            shared = _Shared(package)
            slides = [_slide(shared, name, number) for number, name in enumerate(_shown(package), 1)]
            about = xml.read_about(archive, "docProps/core.xml")
    except xml.BROKEN as error:
        raise document.damaged_file(kind) from error
    text, pages = "", []
    for slide in slides:
        pages.append(len(text))
        text += f"{slide}\n\n" if slide else ""
    return Document(text, pages=tuple(pages), page_count=len(slides), **about)


def _shown(package: Package) -> list[str]:
    """Return the slide parts in presentation order, or all if undefined."""
    targets = package.relations(_MAIN)
    main = package.require(_MAIN)
    slides = [targets.get(slide.get(f"{R}id", ""), ("", ""))[1] for slide in main.iter(f"{_P}sldId")]
    existing = [name for name in slides if name in package.names]
    return existing or sorted(filter(_SLIDE.fullmatch, package.names), key=lambda name: (len(name), name))


@dataclass
class _Shared:
    """Parts shared by slides: shapes of layouts and masters, and footers, written once."""

    package: Package
    models: dict[str, dict[tuple[str, str], Element]] = field(default_factory=dict)
    footers: set[str] = field(default_factory=set)

    def model(self, name: str) -> dict[tuple[str, str], Element]:
        if name not in self.models:
            root = self.package.root(name)
            shapes = () if root is None else root.iter(f"{_P}sp")
            self.models[name] = {_place(shape): shape for shape in shapes}
        return self.models[name]


def _slide(shared: _Shared, name: str, number: int) -> str:
    package = shared.package
    root = package.root(name)
    if root is None:
        return ""
    relations = package.relations(name)
    slide = _Slide(shared, relations)
    blocks = slide.blocks(root)
    for kind, target in relations.values():
        part = package.root(target) if kind in ("notesSlide", "comments", "comment") else None
        if part is not None:
            blocks += [f"Notes on slide {number}: {_notes(part)}"] if kind == "notesSlide" and _notes(part) else []
            blocks += _comments(part) if kind != "notesSlide" else []
    return strip_invisible("\n\n".join(blocks))


def _notes(root: Element) -> str:
    shapes = [shape for shape in root.iter(f"{_P}sp") if _place(shape)[0] not in _FURNITURE | {"ftr"}]
    return "\n".join(text for shape in shapes for text in paragraph_texts(shape.iter(f"{A}p")))


def _comments(root: Element) -> list[str]:
    texts = [" ".join((old.text or "").split()) for old in root.iter(f"{_P}text")] + paragraph_texts(root.iter(f"{A}p"))
    return [f"Comment: {text}" for text in texts if text]


class _Slide:
    """Reader of the shapes of one slide."""

    def __init__(self, shared: _Shared, relations: Relations) -> None:
        self._shared, self._relations = shared, relations
        self._models: list[dict[tuple[str, str], Element]] = []
        for kind in ("slideLayout", "slideMaster"):
            if name := next(
                (target for kind_of_relation, target in relations.values() if kind_of_relation == kind), ""
            ):
                self._models.append(shared.model(name))
                relations = shared.package.relations(name)

    def blocks(self, root: Element) -> list[str]:
        tree = root.find(f"{_P}cSld/{_P}spTree")
        items = [] if tree is None else list(self._items(tree))
        titles = [text for text, _, is_title in items if is_title]
        others_below = [(text, box) for text, box, is_title in items if not is_title]
        return titles + blocks.order_boxes(others_below)

    def _items(self, tree: Element) -> Iterator[tuple[str, Bounds, bool]]:
        """Yield the text of each shape, its position, and whether it is the slide's title."""
        for shape in tree:
            if shape.tag == f"{MC}AlternateContent":
                yield from self._items(shape[0] if len(shape) else shape)
            elif shape.tag == f"{_P}grpSp":
                within = list(self._items(shape))
                texts = blocks.order_boxes([(text, box) for text, box, _ in within])
                box = _box(shape.find(f"{_P}grpSpPr/{A}xfrm")) or blocks.box_around([box for _, box, _ in within])
                yield from [("\n\n".join(texts), box, False)] if texts else []
            elif shape.tag in (f"{_P}sp", f"{_P}cxnSp"):
                placeholder = _place(shape)
                if text := self._text(shape, placeholder):
                    yield text, self._position(shape, placeholder), placeholder[0] in _TITLES
            elif shape.tag == f"{_P}graphicFrame":
                box = _box(shape.find(f"{_P}xfrm")) or blocks.NOWHERE
                tables = [text for table in shape.iter(f"{A}tbl") if (text := grids.grid_markdown(_rows(table)))]
                yield from (
                    (text, box, False) for text in tables or self._shared.package.drawn(shape, self._relations) if text
                )

    def _model(self, placeholder: tuple[str, str]) -> Iterator[Element]:
        """The shapes of the layout and the master that a placeholder takes its place and bullets from."""
        for shapes in self._models if placeholder != ("-", "") else ():
            by_kind = (
                shape
                for (kind, _), shape in shapes.items()
                if kind == placeholder[0] or (kind in _LISTED and placeholder[0] in _LISTED)
            )
            if (shape := shapes.get(placeholder)) is not None or (shape := next(by_kind, None)) is not None:
                yield shape

    def _position(self, shape: Element, placeholder: tuple[str, str]) -> Bounds:
        boxes = (_box(candidate.find(f"{_P}spPr/{A}xfrm")) for candidate in (shape, *self._model(placeholder)))
        return next(filter(None, boxes), blocks.NOWHERE)

    def _text(self, shape: Element, placeholder: tuple[str, str]) -> str:
        body = shape.find(f"{_P}txBody")
        if body is None or placeholder[0] in _FURNITURE:
            return ""
        if placeholder[0] in _TITLES:
            title = " ".join(paragraph_texts(body.iter(f"{A}p")))
            return f"## {detect.one_line(title)}" if title else ""
        text = "\n".join(self._lines(body, placeholder))
        if placeholder[0] == "ftr":
            text, full_text = "" if text in self._shared.footers else text, text
            self._shared.footers.add(full_text)
        return text

    def _lines(self, body: Element, placeholder: tuple[str, str]) -> Iterator[str]:
        counts: dict[int, int] = {}
        previous = ""
        for paragraph in body.iter(f"{A}p"):
            text = " ".join(_words(paragraph).split())
            about = paragraph.find(f"{A}pPr")
            level = 0 if about is None else whole_number(about.get("lvl"))
            label = self._label(about, body, placeholder, level, counts) if text else ""
            if not text:
                continue
            if previous and (not label or previous == "text"):
                yield ""
            previous = "item" if label else "text"
            yield f"{'  ' * level}{label} {text}" if label else text

    def _label(
        self, about: Element | None, body: Element, placeholder: tuple[str, str], level: int, counts: dict[int, int]
    ) -> str:
        """Return the bullet or number of a paragraph, from itself, its shape, or the model of that."""
        styles = [] if about is None else [about]
        models = [
            body,
            *(model for shape in self._model(placeholder) if (model := shape.find(f"{_P}txBody")) is not None),
        ]
        levels = (model.find(f"{A}lstStyle/{A}lvl{level + 1}pPr") for model in models)
        styles += [style for style in levels if style is not None]
        for style in styles:
            if style.find(f"{A}buNone") is not None:
                break
            if (numbered := style.find(f"{A}buAutoNum")) is not None:
                for deeper in [deep for deep in counts if deep > level]:
                    del counts[deeper]
                counts[level] = counts.get(level, whole_number(numbered.get("startAt"), 1) - 1) + 1
                return _numbered(numbered.get("type", ""), counts[level])
            if style.find(f"{A}buChar") is not None or style.find(f"{A}buBlip") is not None:
                counts.clear()
                return "-"
        else:
            counts.clear()
            return "-" if placeholder[0] in _LISTED else ""
        counts.clear()
        return ""


def _words(paragraph: Element) -> str:
    parts = [paragraph_text(paragraph)]
    parts += [ooxml.formula_line(formula) for formula in paragraph.iter(f"{ooxml.M}oMath")]
    return " ".join(parts)


def _numbered(kind: str, number: int) -> str:
    match = _NUMBERED.fullmatch(kind)
    if match is None:
        return f"{number}."
    sign = write_number(number, _NUMBERS[match[1]])
    return {"Period": f"{sign}.", "ParenBoth": f"({sign})", "ParenR": f"{sign})", "Plain": sign}[match[2]]


def _place(shape: Element) -> tuple[str, str]:
    """Return type and number of a placeholder; ("-", "") for other shapes."""
    placeholder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
    return ("-", "") if placeholder is None else (placeholder.get("type", ""), placeholder.get("idx", ""))


def _box(frame: Element | None) -> Bounds | None:
    offset, size = (None, None) if frame is None else (frame.find(f"{A}off"), frame.find(f"{A}ext"))
    if offset is None or size is None:
        return None
    x, y, width, height = (
        whole_number(node.get(name)) for node, name in ((offset, "x"), (offset, "y"), (size, "cx"), (size, "cy"))
    )
    return x, y, x + width, y + height


def _rows(table: Element) -> list[list[grids.Cell]]:
    rows = []
    for row in table.findall(f"{A}tr"):
        cells = [cell for cell in row.findall(f"{A}tc") if not {cell.get("hMerge"), cell.get("vMerge")} & {"1", "true"}]
        texts = [" ".join(paragraph_texts(cell.iter(f"{A}p"))) for cell in cells]
        rows.append(
            [
                (text, whole_number(cell.get("rowSpan"), 1), whole_number(cell.get("gridSpan"), 1))
                for text, cell in zip(texts, cells, strict=True)
            ]
        )
    return rows
