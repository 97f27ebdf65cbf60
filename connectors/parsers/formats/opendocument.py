"""OpenDocument texts and presentations as displayed: numbered lists, merged cells, charts, notes, comments."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from xml.etree.ElementTree import Element

from connectors.parsers import detect, document, inline_forms, xml
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.formats import grids
from connectors.parsers.formats.blocks import (
    Block,
    Bounds,
    Boxed,
    join_blocks,
    letter_numeral,
    list_item,
    order_boxes,
    roman_numeral,
    whole_number,
)
from connectors.parsers.inline_forms import Form, write_forms
from connectors.parsers.messages import Task

_NAMES = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _DRAW, _TABLE = f"{{{_NAMES}text:1.0}}", f"{{{_NAMES}drawing:1.0}}", f"{{{_NAMES}table:1.0}}"
_OFFICE, _STYLE, _SVG = f"{{{_NAMES}office:1.0}}", f"{{{_NAMES}style:1.0}}", f"{{{_NAMES}svg-compatible:1.0}}"
_SHOW, _CHART = f"{{{_NAMES}presentation:1.0}}", f"{{{_NAMES}chart:1.0}}"
_CREATOR = "{http://purl.org/dc/elements/1.1/}creator"
_LINK = "{http://www.w3.org/1999/xlink}href"
_SPACES = {f"{_TEXT}s": " ", f"{_TEXT}tab": " ", f"{_TEXT}line-break": "\n"}
_BESIDE = frozenset({f"{_TEXT}note", f"{_OFFICE}annotation", f"{_DRAW}frame", f"{_TEXT}tracked-changes"})
"""Told after the paragraph or after the text, or not at all: what was deleted."""
_PARAGRAPHS = frozenset({f"{_TEXT}p", f"{_TEXT}h"})
_ROWS = frozenset(f"{_TABLE}{name}" for name in ("table-header-rows", "table-rows", "table-row-group"))
_UNITS = {"cm": 1.0, "mm": 0.1, "in": 2.54, "pt": 0.0353, "pc": 0.423, "px": 0.0265}
_PER_CM = 360_000
_DEEPEST = 12
_MOST = 1_000
"""Repetitions of a blank row or cell that are looked at."""
_FORMS: dict[str, Callable[[int], str]] = {
    "a": letter_numeral,
    "A": lambda number: letter_numeral(number).upper(),
    "i": roman_numeral,
    "I": lambda number: roman_numeral(number).upper(),
}


def read_document(kind: Kind, path: Path, _task: Task) -> Document:
    """Convert a document to Markdown; each slide is a page. Skippable if damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            reader = _Reader(archive, styled=kind is detect.ODT)
            parts = [reader.text()] if kind is detect.ODT else reader.slides()
            about = xml.read_about(archive, "meta.xml")
    except xml.BROKEN as error:
        raise document.damaged_file(kind) from error
    about["language"] = about.get("language", "").partition("-")[0]
    if kind is detect.ODT:
        return Document(f"{parts[0]}\n", **about)
    text, pages = "", []
    for part in parts:
        pages.append(len(text))
        text += f"{part}\n\n" if part else ""
    return Document(text, pages=tuple(pages), page_count=len(parts), **about)


class _Reader:
    """Reads the content of one document; the numbers of lists are counted as it goes.

    `styled`: with its common styles, which texts number by; those of slides are large and stand in the slides, too.
    """

    def __init__(self, archive: zipfile.ZipFile, *, styled: bool) -> None:
        self._archive = archive
        self._content = xml.read_root(archive, "content.xml")
        self._styles = xml.read_root(archive, "styles.xml") if styled and "styles.xml" in archive.namelist() else None
        roots = [root for root in (self._styles, self._content) if root is not None]
        self._titles = {"Title"} | {
            style.get(f"{_STYLE}name", "")
            for root in roots
            for style in root.iter(f"{_STYLE}style")
            if style.get(f"{_STYLE}parent-style-name") == "Title"
        }
        self._lists = {
            style.get(f"{_STYLE}name", ""): {whole_number(level.get(f"{_TEXT}level"), 1): level for level in style}
            for root in roots
            for tag in (f"{_TEXT}list-style", f"{_TEXT}outline-style")
            for style in root.iter(tag)
        }
        self._counts: dict[str, list[int]] = {}
        self._forms = style_forms(roots)

    def text(self) -> str:
        body = next(self._content.iter(f"{_OFFICE}text"), None)
        if body is None:
            return ""
        blocks = join_blocks(self._blocks(body))
        for note in body.iter(f"{_TEXT}note"):
            words = " ".join(block for part in note.iter(f"{_TEXT}note-body") for block in self._lines(part))
            kind = note.get(f"{_TEXT}note-class", "footnote").capitalize()
            blocks += [inline_forms.note(kind, _citation(note), words)] if words else []
        blocks += self._comments(body)
        styles = () if self._styles is None else self._styles.iter(f"{_STYLE}master-page")
        beside = (part for page in styles for part in page if part.tag in (f"{_STYLE}header", f"{_STYLE}footer"))
        lines = (line for part in beside for line in self._lines(part) if any(map(str.isalpha, line)))
        return strip_invisible("\n\n".join([*blocks, *dict.fromkeys(lines)]))

    def slides(self) -> list[str]:
        return [self._slide(page, number) for number, page in enumerate(self._content.iter(f"{_DRAW}page"), 1)]

    def _slide(self, page: Element, number: int) -> str:
        titles, items, notes = list[str](), list[Boxed](), list[str]()
        for part in page:
            if part.tag == f"{_SHOW}notes":
                notes += [
                    line for frame in part if frame.get(f"{_SHOW}class") == "notes" for line in self._lines(frame)
                ]
            elif part.get(f"{_SHOW}class") == "title":
                words = detect.one_line(" ".join(self._lines(part)))
                titles += [f"## {words}"] if words else []
            elif text := "\n\n".join(join_blocks(self._blocks([part]))):
                items.append((text, _box(part)))
        blocks = titles + order_boxes(items)
        blocks += [f"Notes on slide {number}: " + "\n".join(notes)] if notes else []
        return strip_invisible("\n\n".join(blocks + self._comments(page)))

    def _comments(self, node: Element) -> list[str]:
        comments = []
        for comment in node.iter(f"{_OFFICE}annotation"):
            author = comment.findtext(_CREATOR, "")
            words = " ".join(self._lines(comment))
            comments += [f"Comment by {author}: {words}" if author else f"Comment: {words}"] if words else []
        return comments

    def _lines(self, node: Iterable[Element]) -> list[str]:
        return [text for text, _ in self._blocks(node)]

    def _blocks(self, node: Iterable[Element], depth: int = 0, *, in_cell: bool = False) -> Iterator[Block]:
        """Yield paragraphs, lists and tables below a node in order. Nested tables are read cell by cell."""
        for part in node:
            if part.tag in _PARAGRAPHS:
                yield from self._paragraph(part, depth)
            elif part.tag == f"{_TEXT}list":
                yield from self._items(part, "", 1)
            elif part.tag == f"{_TABLE}table":
                rows = self._rows(part)
                flat = " ".join(text for row in rows for text, _, _ in row if text)
                text = flat if in_cell or len(rows) == len(rows[0] if rows else ()) == 1 else grids.grid_markdown(rows)
                yield from [(text, False)] if text else []
            elif part.tag == f"{_DRAW}object":
                yield from self._chart(part)
            elif part.tag == f"{_SVG}desc":
                yield from [(words, False)] if (words := _words(part, {})) else []
            elif depth < _DEEPEST and not _is_apart(part):
                yield from self._blocks(part, depth + 1, in_cell=in_cell)

    def _paragraph(self, part: Element, depth: int) -> Iterator[Block]:
        words = self._text(part).strip()
        level = whole_number(part.get(f"{_TEXT}outline-level"), 1) if part.tag == f"{_TEXT}h" else 0
        if part.get(f"{_TEXT}style-name") in self._titles:
            level = 1
        if words and level:
            label = self._label("Outline", level) if part.tag == f"{_TEXT}h" else ""
            yield f"{'#' * min(level, 6)} {detect.one_line(f'{label} {words}')}", False
        elif words:
            yield words, False
        yield from self._framed(part, depth)

    def _text(self, paragraph: Element) -> str:
        form = self._forms.get(paragraph.get(f"{_TEXT}style-name", ""), inline_forms.PLAIN)
        return write_forms(form.mark(_words(paragraph, self._forms)))

    def _framed(self, paragraph: Element, depth: int) -> Iterator[Block]:
        """Text boxes, charts and descriptions of pictures that hang on a paragraph."""
        for part in paragraph:
            if part.tag != f"{_DRAW}frame":
                yield from self._framed(part, depth)
            elif depth < _DEEPEST:
                yield from self._blocks(part, depth + 1)

    def _items(self, node: Element, name: str, level: int) -> Iterator[Block]:
        name = node.get(f"{_TEXT}style-name", name)
        if level == 1 and node.get(f"{_TEXT}continue-numbering") != "true" and not node.get(f"{_TEXT}continue-list"):
            self._counts.pop(name, None)
        for entry in node:
            label = ""
            for at, part in enumerate(entry):
                if part.tag in _PARAGRAPHS and (words := detect.one_line(self._text(part))):
                    if not at and entry.tag == f"{_TEXT}list-item":
                        label = self._label(name, level, entry.get(f"{_TEXT}start-value", "")) or "-"
                    heading = whole_number(part.get(f"{_TEXT}outline-level"), 1) if part.tag == f"{_TEXT}h" else 0
                    item_label = label if not at else ""
                    if heading:
                        yield f"{'#' * min(heading, 6)} {f'{item_label} {words}'.removeprefix('- ').strip()}", False
                    else:
                        yield list_item(item_label, level - 1, words)
                elif part.tag == f"{_TEXT}list" and level < _DEEPEST:
                    yield from self._items(part, name, level + 1)

    def _label(self, name: str, level: int, start: str = "") -> str:
        """Return the next number of a list item, "-" for a bullet, or ""."""
        levels = self._lists.get(name, {})
        about = levels.get(level)
        if about is None:
            return ""
        counts = self._counts.setdefault(name, [])
        del counts[level:]
        while len(counts) < level:
            above = levels.get(len(counts) + 1)
            counts.append(
                whole_number(None if above is None else above.get(f"{_TEXT}start-value"), 1)
                - (len(counts) + 1 == level)
            )
        counts[level - 1] = whole_number(start, counts[level - 1] + 1)
        form = about.get(f"{_STYLE}num-format")
        if form is None:
            return "-"
        if not form:
            return ""
        first = level - whole_number(about.get(f"{_TEXT}display-levels"), 1)
        shown_levels = range(max(first, 0), level)
        forms = [(levels[at + 1].get(f"{_STYLE}num-format") or "1") if at + 1 in levels else "1" for at in shown_levels]
        numbers = ".".join(_FORMS.get(form, str)(counts[at]) for at, form in zip(shown_levels, forms, strict=True))
        return f"{about.get(f'{_STYLE}num-prefix', '')}{numbers}{about.get(f'{_STYLE}num-suffix', '')}".strip()

    def _rows(self, table: Element) -> list[list[grids.Cell]]:
        """Yield the rows of a table without nested tables."""
        rows: list[list[grids.Cell]] = []
        for part in table:
            if part.tag == f"{_TABLE}table-row":
                rows.append([cell for node in part for cell in self._cells(node)])
            elif part.tag in _ROWS:
                rows += self._rows(part)
        return rows

    def _cells(self, node: Element) -> list[grids.Cell]:
        if node.tag != f"{_TABLE}table-cell":
            return []
        texts = [text for text, _ in self._blocks(node, in_cell=True)]
        text = " ".join(texts) if len(texts) != 1 else texts[0].removeprefix("- ")  # a list of one is none
        cell = (text, _number(node, "number-rows-spanned"), _number(node, "number-columns-spanned"))
        return [cell] * _number(node, "number-columns-repeated")

    def _chart(self, node: Element) -> Iterator[Block]:
        """Return title and values of a chart, stored as a document in a subfolder."""
        name = f"{node.get(_LINK, '').removeprefix('./').rstrip('/')}/content.xml"
        try:
            root = xml.read_root(self._archive, name)
        except xml.BROKEN:
            return  # a formula or a file of its own kind
        if (chart := next(root.iter(f"{_CHART}chart"), None)) is not None:
            title = chart.find(f"{_CHART}title")
            words = "" if title is None else " ".join(self._lines(title))
            tables = [grids.grid_markdown(self._rows(table)) for table in chart.iter(f"{_TABLE}table")]
            yield "\n\n".join([f"Chart: {words}".removesuffix(": "), *filter(None, tables)]), False


def _is_apart(part: Element) -> bool:
    return (part.tag in _BESIDE and part.tag != f"{_DRAW}frame") or part.tag.endswith("-source")


def style_forms(roots: Iterable[Element]) -> dict[str, Form]:
    """Return the forms of text styles by name, without plain ones."""
    styles = {style.get(f"{_STYLE}name", ""): style for root in roots for style in root.iter(f"{_STYLE}style")}
    forms: dict[str, Form] = {}
    for name, style in styles.items():
        lineage = [style]
        while (above := styles.get(lineage[-1].get(f"{_STYLE}parent-style-name", ""))) is not None:
            if len(lineage) > _DEEPEST:
                break
            lineage.append(above)
        form = inline_forms.PLAIN
        for ancestor in reversed(lineage):
            form = _changed(form, ancestor.find(f"{_STYLE}text-properties"))
        if form != inline_forms.PLAIN:
            forms[name] = form
    return forms


def _changed(form: Form, properties: Element | None) -> Form:
    if properties is None:
        return form
    position = properties.get(f"{_STYLE}text-position", "").split(" ")[0]
    script = form.script
    if position:
        script = -1 if position == "sub" or position.startswith("-") else int(position.strip("0%") != "")
    line = properties.get(f"{_STYLE}text-line-through-style") or properties.get(f"{_STYLE}text-line-through-type")
    return Form(script, line != "none" if line else form.struck)


def _citation(note: Element) -> str:
    return " ".join(note.findtext(f"{_TEXT}note-citation", "").split())


def _words(node: Element, forms: Mapping[str, Form]) -> str:
    pieces = [node.text or ""]
    for part in node:
        if part.tag == f"{_TEXT}note":
            pieces.append(inline_forms.footnote_mark(_citation(part)) if _citation(part) else "")
        elif part.tag not in _BESIDE:
            words = _SPACES.get(part.tag) or _words(part, forms)
            if form := forms.get(part.get(f"{_TEXT}style-name", "")):
                words = form.mark(words)
            address = part.get(_LINK, "") if part.tag == f"{_TEXT}a" else ""
            pieces.append(f"[{words}]({address})" if words and address.startswith("http") else words)
        pieces.append(part.tail or "")
    return "".join(pieces)


def _number(node: Element, name: str) -> int:
    return min(whole_number(node.get(f"{_TABLE}{name}"), 1), _MOST)


def _box(node: Element) -> Bounds:
    left, top, width, height = (_length(node.get(f"{_SVG}{name}", "")) for name in ("x", "y", "width", "height"))
    return left, top, left + width, top + height


def _length(text: str) -> int:
    try:
        return int(float(text[:-2]) * _UNITS.get(text[-2:], 0) * _PER_CM)
    except ValueError:
        return 0
