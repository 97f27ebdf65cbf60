"""Convert presentations (PPTX) slide by slide, with shapes in reading order."""

from __future__ import annotations

import re
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

_SLIDE_NS = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_MAIN_PART = "ppt/presentation.xml"
_TITLE_PLACEHOLDERS = ("title", "ctrTitle")
_FURNITURE_PLACEHOLDERS = frozenset({"sldNum", "dt", "hdr", "sldImg"})
# Placeholders with bulleted paragraphs by default.
_BULLETED_PLACEHOLDERS = frozenset({"body", "obj", ""})
_NUMBER_FORMS = {
    "arabic": "decimal",
    "alphaLc": "lowerLetter",
    "alphaUc": "upperLetter",
    "romanLc": "lowerRoman",
    "romanUc": "upperRoman",
}
_NUMBERED_PATTERN = re.compile(r"(arabic|alphaLc|alphaUc|romanLc|romanUc)(Period|ParenBoth|ParenR|Plain)")
_SLIDE_PATTERN = re.compile(r"ppt/slides/slide(\d+)\.xml")


def read_document(kind: Kind, path: Path, _task: Task) -> Document:
    """Return the slides as Markdown pages. Skippable if damaged."""
    try:
        with xml.open_package(path) as archive:
            package = Package(archive)
            if _MAIN_PART not in package.names:
                raise KeyError(_MAIN_PART)
            shared = _SharedParts(package)
            slides = [_slide_text(shared, name, number) for number, name in enumerate(_slide_parts(package), 1)]
            about = xml.read_properties(archive, "docProps/core.xml")
    except xml.PARSE_ERRORS as error:
        raise document.damaged_file(kind) from error
    text, pages = "", []
    for slide in slides:
        pages.append(len(text))
        text += f"{slide}\n\n" if slide else ""
    return Document(text, pages=tuple(pages), page_count=len(slides), **about)


def _slide_parts(package: Package) -> list[str]:
    """Return slide parts in presentation order; all parts if undefined."""
    targets = package.relations(_MAIN_PART)
    main = package.require(_MAIN_PART)
    slides = [targets.get(slide.get(f"{R}id", ""), ("", ""))[1] for slide in main.iter(f"{_SLIDE_NS}sldId")]
    existing = [name for name in slides if name in package.names]
    return existing or sorted(filter(_SLIDE_PATTERN.fullmatch, package.names), key=lambda name: (len(name), name))


@dataclass
class _SharedParts:
    """Parts shared by slides: layout and master shapes, and footers, written once."""

    package: Package
    models: dict[str, dict[tuple[str, str], Element]] = field(default_factory=dict)
    footers: set[str] = field(default_factory=set)

    def model(self, name: str) -> dict[tuple[str, str], Element]:
        if name not in self.models:
            root = self.package.root(name)
            shapes = () if root is None else root.iter(f"{_SLIDE_NS}sp")
            self.models[name] = {_placeholder_of(shape): shape for shape in shapes}
        return self.models[name]


def _slide_text(shared: _SharedParts, name: str, number: int) -> str:
    package = shared.package
    root = package.root(name)
    if root is None:
        return ""
    relations = package.relations(name)
    slide = _SlideReader(shared, relations)
    blocks = slide.blocks(root)
    for kind, target in relations.values():
        part = package.root(target) if kind in ("notesSlide", "comments", "comment") else None
        if part is not None:
            blocks += (
                [f"Notes on slide {number}: {_notes_text(part)}"] if kind == "notesSlide" and _notes_text(part) else []
            )
            blocks += _comment_blocks(part) if kind != "notesSlide" else []
    return strip_invisible("\n\n".join(blocks))


def _notes_text(root: Element) -> str:
    shapes = [
        shape
        for shape in root.iter(f"{_SLIDE_NS}sp")
        if _placeholder_of(shape)[0] not in _FURNITURE_PLACEHOLDERS | {"ftr"}
    ]
    return "\n".join(text for shape in shapes for text in paragraph_texts(shape.iter(f"{A}p")))


def _comment_blocks(root: Element) -> list[str]:
    texts = [" ".join((old.text or "").split()) for old in root.iter(f"{_SLIDE_NS}text")] + paragraph_texts(
        root.iter(f"{A}p")
    )
    return [f"Comment: {text}" for text in texts if text]


class _SlideReader:
    """Reads the shapes of one slide."""

    def __init__(self, shared: _SharedParts, relations: Relations) -> None:
        self._shared, self._relations = shared, relations
        self._models: list[dict[tuple[str, str], Element]] = []
        for kind in ("slideLayout", "slideMaster"):
            if name := next(
                (target for kind_of_relation, target in relations.values() if kind_of_relation == kind), ""
            ):
                self._models.append(shared.model(name))
                relations = shared.package.relations(name)

    def blocks(self, root: Element) -> list[str]:
        tree = root.find(f"{_SLIDE_NS}cSld/{_SLIDE_NS}spTree")
        items = [] if tree is None else list(self._shape_items(tree))
        titles = [text for text, _, is_title in items if is_title]
        others_below = [(text, box) for text, box, is_title in items if not is_title]
        return titles + blocks.order_boxes(others_below)

    def _shape_items(self, tree: Element) -> Iterator[tuple[str, Bounds, bool]]:
        """Yield text, position and title flag of each shape."""
        for shape in tree:
            if shape.tag == f"{MC}AlternateContent":
                yield from self._shape_items(shape[0] if len(shape) else shape)
            elif shape.tag == f"{_SLIDE_NS}grpSp":
                within = list(self._shape_items(shape))
                texts = blocks.order_boxes([(text, box) for text, box, _ in within])
                box = _frame_bounds(shape.find(f"{_SLIDE_NS}grpSpPr/{A}xfrm")) or blocks.box_around(
                    [box for _, box, _ in within]
                )
                yield from [("\n\n".join(texts), box, False)] if texts else []
            elif shape.tag in (f"{_SLIDE_NS}sp", f"{_SLIDE_NS}cxnSp"):
                placeholder = _placeholder_of(shape)
                if text := self._shape_text(shape, placeholder):
                    yield text, self._shape_position(shape, placeholder), placeholder[0] in _TITLE_PLACEHOLDERS
                elif texts := ooxml.picture_texts(shape):
                    yield texts[0], self._shape_position(shape, placeholder), False
            elif shape.tag == f"{_SLIDE_NS}pic":
                box = _frame_bounds(shape.find(f"{_SLIDE_NS}spPr/{A}xfrm")) or blocks.NOWHERE
                yield from ((text, box, False) for text in ooxml.picture_texts(shape))
            elif shape.tag == f"{_SLIDE_NS}graphicFrame":
                box = _frame_bounds(shape.find(f"{_SLIDE_NS}xfrm")) or blocks.NOWHERE
                tables = [text for table in shape.iter(f"{A}tbl") if (text := grids.grid_markdown(_table_rows(table)))]
                yield from (
                    (text, box, False) for text in tables or self._shared.package.drawn(shape, self._relations) if text
                )

    def _model_shapes(self, placeholder: tuple[str, str]) -> Iterator[Element]:
        """Yield layout and master shapes with position and bullets for a placeholder."""
        for shapes in self._models if placeholder != ("-", "") else ():
            by_kind = (
                shape
                for (kind, _), shape in shapes.items()
                if kind == placeholder[0]
                or (kind in _BULLETED_PLACEHOLDERS and placeholder[0] in _BULLETED_PLACEHOLDERS)
            )
            if (shape := shapes.get(placeholder)) is not None or (shape := next(by_kind, None)) is not None:
                yield shape

    def _shape_position(self, shape: Element, placeholder: tuple[str, str]) -> Bounds:
        boxes = (
            _frame_bounds(candidate.find(f"{_SLIDE_NS}spPr/{A}xfrm"))
            for candidate in (shape, *self._model_shapes(placeholder))
        )
        return next(filter(None, boxes), blocks.NOWHERE)

    def _shape_text(self, shape: Element, placeholder: tuple[str, str]) -> str:
        body = shape.find(f"{_SLIDE_NS}txBody")
        if body is None or placeholder[0] in _FURNITURE_PLACEHOLDERS:
            return ""
        if placeholder[0] in _TITLE_PLACEHOLDERS:
            title = " ".join(paragraph_texts(body.iter(f"{A}p")))
            return f"## {detect.one_line(title)}" if title else ""
        text = "\n".join(self._body_lines(body, placeholder))
        if placeholder[0] == "ftr":
            text, full_text = "" if text in self._shared.footers else text, text
            self._shared.footers.add(full_text)
        return text

    def _body_lines(self, body: Element, placeholder: tuple[str, str]) -> Iterator[str]:
        counts: dict[int, int] = {}
        previous = ""
        for paragraph in body.iter(f"{A}p"):
            text = " ".join(_paragraph_words(paragraph).split())
            about = paragraph.find(f"{A}pPr")
            level = 0 if about is None else whole_number(about.get("lvl"))
            label = self._paragraph_label(about, body, placeholder, level, counts) if text else ""
            if not text:
                continue
            if previous and (not label or previous == "text"):
                yield ""
            previous = "item" if label else "text"
            yield f"{'  ' * level}{label} {text}" if label else text

    def _paragraph_label(
        self, about: Element | None, body: Element, placeholder: tuple[str, str], level: int, counts: dict[int, int]
    ) -> str:
        """Return the bullet or number of a paragraph, from the paragraph, its shape, or the model shape."""
        styles = [] if about is None else [about]
        models = [
            body,
            *(
                model
                for shape in self._model_shapes(placeholder)
                if (model := shape.find(f"{_SLIDE_NS}txBody")) is not None
            ),
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
                return _number_label(numbered.get("type", ""), counts[level])
            if style.find(f"{A}buChar") is not None or style.find(f"{A}buBlip") is not None:
                counts.clear()
                return "-"
        else:
            counts.clear()
            return "-" if placeholder[0] in _BULLETED_PLACEHOLDERS else ""
        counts.clear()
        return ""


def _paragraph_words(paragraph: Element) -> str:
    parts = [paragraph_text(paragraph)]
    parts += [ooxml.formula_line(formula) for formula in paragraph.iter(f"{ooxml.M}oMath")]
    return " ".join(parts)


def _number_label(kind: str, number: int) -> str:
    match = _NUMBERED_PATTERN.fullmatch(kind)
    if match is None:
        return f"{number}."
    sign = write_number(number, _NUMBER_FORMS[match[1]])
    return {"Period": f"{sign}.", "ParenBoth": f"({sign})", "ParenR": f"{sign})", "Plain": sign}[match[2]]


def _placeholder_of(shape: Element) -> tuple[str, str]:
    """Return type and number of a placeholder; ("-", "") for other shapes."""
    placeholder = shape.find(f"{_SLIDE_NS}nvSpPr/{_SLIDE_NS}nvPr/{_SLIDE_NS}ph")
    return ("-", "") if placeholder is None else (placeholder.get("type", ""), placeholder.get("idx", ""))


def _frame_bounds(frame: Element | None) -> Bounds | None:
    offset, size = (None, None) if frame is None else (frame.find(f"{A}off"), frame.find(f"{A}ext"))
    if offset is None or size is None:
        return None
    x, y, width, height = (
        whole_number(node.get(name)) for node, name in ((offset, "x"), (offset, "y"), (size, "cx"), (size, "cy"))
    )
    return x, y, x + width, y + height


def _table_rows(table: Element) -> list[list[grids.Cell]]:
    rows = []
    for row in table.findall(f"{A}tr"):
        cells = [cell for cell in row.findall(f"{A}tc") if not {cell.get("hMerge"), cell.get("vMerge")} & {"1", "true"}]
        texts = ["\n".join(paragraph_texts(cell.iter(f"{A}p"))) for cell in cells]
        rows.append(
            [
                (text, whole_number(cell.get("rowSpan"), 1), whole_number(cell.get("gridSpan"), 1))
                for text, cell in zip(texts, cells, strict=True)
            ]
        )
    return rows
