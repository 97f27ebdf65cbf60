"""Convert OpenDocument texts and presentations: numbered lists, merged cells, charts, notes, comments."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from xml.etree.ElementTree import Element

from connectors.parsers import detect, document, inline_forms, xml
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.formats import grids, mathml, opendocument_styles
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

_ODF_PREFIX = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT_NS, _DRAW_NS, _TABLE_NS = (
    f"{{{_ODF_PREFIX}text:1.0}}",
    f"{{{_ODF_PREFIX}drawing:1.0}}",
    f"{{{_ODF_PREFIX}table:1.0}}",
)
_OFFICE_NS, _STYLE_NS, _SVG_NS = (
    f"{{{_ODF_PREFIX}office:1.0}}",
    f"{{{_ODF_PREFIX}style:1.0}}",
    f"{{{_ODF_PREFIX}svg-compatible:1.0}}",
)
_SHOW_NS, _CHART_NS = f"{{{_ODF_PREFIX}presentation:1.0}}", f"{{{_ODF_PREFIX}chart:1.0}}"
_CREATOR_TAG = "{http://purl.org/dc/elements/1.1/}creator"
_LINK_ATTRIBUTE = "{http://www.w3.org/1999/xlink}href"
_SPACE_TEXTS = {f"{_TEXT_NS}s": " ", f"{_TEXT_NS}tab": " ", f"{_TEXT_NS}line-break": "\n"}
# Written after the paragraph or text; deletions are dropped.
_SEPARATE_TAGS = frozenset(
    {f"{_TEXT_NS}note", f"{_OFFICE_NS}annotation", f"{_DRAW_NS}frame", f"{_TEXT_NS}tracked-changes"}
)
_PARAGRAPH_TAGS = frozenset({f"{_TEXT_NS}p", f"{_TEXT_NS}h"})
_ROW_TAGS = frozenset(f"{_TABLE_NS}{name}" for name in ("table-header-rows", "table-rows", "table-row-group"))
_CENTIMETERS_PER_UNIT = {"cm": 1.0, "mm": 0.1, "in": 2.54, "pt": 0.0353, "pc": 0.423, "px": 0.0265}
_EMU_PER_CM = 360_000
_MAX_DEPTH = 12
# Repetitions of a blank row or cell, at most.
_MAX_REPETITIONS = 1_000
_NUMBER_FORMS: dict[str, Callable[[int], str]] = {
    "a": letter_numeral,
    "A": lambda number: letter_numeral(number).upper(),
    "i": roman_numeral,
    "I": lambda number: roman_numeral(number).upper(),
}


def read_document(kind: Kind, path: Path, _task: Task) -> Document:
    """Return the document as Markdown, one page per slide. Skippable if damaged."""
    try:
        with xml.open_package(path) as archive:
            if "content.xml" not in archive.namelist() and "styles.xml" in archive.namelist():
                return Document("")  # a template of styles only
            reader = _Reader(archive, styled=kind is detect.ODT)
            parts = [reader.text()] if kind is detect.ODT else reader.slides()
            about = xml.read_properties(archive, "meta.xml")
    except xml.PARSE_ERRORS as error:
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
    """Reads the content of one document and counts list numbers. `styled`: read common styles."""

    def __init__(self, archive: zipfile.ZipFile, *, styled: bool) -> None:
        self._archive = archive
        self._content = xml.read_root(archive, "content.xml")
        mathml.write_frames(archive, self._content)
        # Texts number their lists by common styles; those of slides are large and repeated in the slides.
        self._styles = xml.read_root(archive, "styles.xml") if styled and "styles.xml" in archive.namelist() else None
        roots = [root for root in (self._styles, self._content) if root is not None]
        self._titles = {"Title"} | {
            style.get(f"{_STYLE_NS}name", "")
            for root in roots
            for style in root.iter(f"{_STYLE_NS}style")
            if style.get(f"{_STYLE_NS}parent-style-name") == "Title"
        }
        self._lists = {
            style.get(f"{_STYLE_NS}name", ""): {
                whole_number(level.get(f"{_TEXT_NS}level"), 1): level for level in style
            }
            for root in roots
            for tag in (f"{_TEXT_NS}list-style", f"{_TEXT_NS}outline-style")
            for style in root.iter(tag)
        }
        self._counts: dict[str, list[int]] = {}
        self._forms = opendocument_styles.style_forms(roots)
        opendocument_styles.drop_hidden(self._content, roots)

    def text(self) -> str:
        body = next(self._content.iter(f"{_OFFICE_NS}text"), None)
        if body is None:
            return ""
        blocks = join_blocks(self._child_blocks(body))
        for note in body.iter(f"{_TEXT_NS}note"):
            words = " ".join(block for part in note.iter(f"{_TEXT_NS}note-body") for block in self._line_texts(part))
            kind = note.get(f"{_TEXT_NS}note-class", "footnote").capitalize()
            blocks += [inline_forms.note(kind, _note_citation(note), words)] if words else []
        blocks += self._comment_blocks(body)
        styles = () if self._styles is None else self._styles.iter(f"{_STYLE_NS}master-page")
        margins = (part for page in styles for part in page if part.tag in (f"{_STYLE_NS}header", f"{_STYLE_NS}footer"))
        lines = (line for part in margins for line in self._line_texts(part) if any(map(str.isalpha, line)))
        return strip_invisible("\n\n".join([*blocks, *dict.fromkeys(lines)]))

    def slides(self) -> list[str]:
        return [self._slide_text(page, number) for number, page in enumerate(self._content.iter(f"{_DRAW_NS}page"), 1)]

    def _slide_text(self, page: Element, number: int) -> str:
        titles, items, notes = list[str](), list[Boxed](), list[str]()
        for part in page:
            if part.tag == f"{_SHOW_NS}notes":
                notes += [
                    line
                    for frame in part
                    if frame.get(f"{_SHOW_NS}class") == "notes"
                    for line in self._line_texts(frame)
                ]
            elif part.get(f"{_SHOW_NS}class") == "title":
                words = detect.one_line(" ".join(self._line_texts(part)))
                titles += [f"## {words}"] if words else []
            elif text := "\n\n".join(join_blocks(self._child_blocks([part]))):
                items.append((text, _frame_bounds(part)))
        blocks = titles + order_boxes(items)
        blocks += [f"Notes on slide {number}: " + "\n".join(notes)] if notes else []
        return strip_invisible("\n\n".join(blocks + self._comment_blocks(page)))

    def _comment_blocks(self, node: Element) -> list[str]:
        comments = []
        for comment in node.iter(f"{_OFFICE_NS}annotation"):
            author = comment.findtext(_CREATOR_TAG, "")
            words = " ".join(self._line_texts(comment))
            comments += [f"Comment by {author}: {words}" if author else f"Comment: {words}"] if words else []
        return comments

    def _line_texts(self, node: Iterable[Element]) -> list[str]:
        return [text for text, _ in self._child_blocks(node)]

    def _child_blocks(self, node: Iterable[Element], depth: int = 0, *, in_cell: bool = False) -> Iterator[Block]:
        """Yield paragraphs, lists and tables below a node, in order; nested tables cell after cell."""
        for part in node:
            if part.tag in _PARAGRAPH_TAGS:
                yield from self._paragraph_blocks(part, depth)
            elif part.tag == f"{_TEXT_NS}list":
                yield from self._list_items(part, "", 1)
            elif part.tag == f"{_TABLE_NS}table":
                text = self._table_markdown(part, in_cell=in_cell)
                yield from [(text, False)] if text else []
            elif part.tag == f"{_DRAW_NS}object":
                yield from self._chart_markdown(part)
            elif part.tag in (f"{_SVG_NS}title", f"{_SVG_NS}desc"):
                yield from [(words, False)] if (words := inline_forms.picture(_collect_words(part, {}))) else []
            elif depth < _MAX_DEPTH and not _is_separate(part):
                yield from self._child_blocks(part, depth + 1, in_cell=in_cell)

    def _paragraph_blocks(self, part: Element, depth: int) -> Iterator[Block]:
        words = self._paragraph_text(part).strip()
        level = whole_number(part.get(f"{_TEXT_NS}outline-level"), 1) if part.tag == f"{_TEXT_NS}h" else 0
        if part.get(f"{_TEXT_NS}style-name") in self._titles:
            level = 1
        if words and level:
            label = self._item_label("Outline", level) if part.tag == f"{_TEXT_NS}h" else ""
            yield f"{'#' * min(level, 6)} {detect.one_line(f'{label} {words}')}", False
        elif words:
            yield words, False
        yield from self._framed_blocks(part, depth)

    def _paragraph_text(self, paragraph: Element) -> str:
        form = self._forms.get(paragraph.get(f"{_TEXT_NS}style-name", ""), inline_forms.PLAIN)
        return write_forms(form.mark(_collect_words(paragraph, self._forms)))

    def _framed_blocks(self, paragraph: Element, depth: int) -> Iterator[Block]:
        """Yield text boxes, charts and picture descriptions of a paragraph."""
        for part in paragraph:
            if part.tag != f"{_DRAW_NS}frame":
                yield from self._framed_blocks(part, depth)
            elif depth < _MAX_DEPTH:
                yield from self._child_blocks(part, depth + 1)

    def _list_items(self, node: Element, name: str, level: int) -> Iterator[Block]:
        name = node.get(f"{_TEXT_NS}style-name", name)
        if (
            level == 1
            and node.get(f"{_TEXT_NS}continue-numbering") != "true"
            and not node.get(f"{_TEXT_NS}continue-list")
        ):
            self._counts.pop(name, None)
        for entry in node:
            label = ""
            for at, part in enumerate(entry):
                if part.tag in _PARAGRAPH_TAGS and (words := detect.one_line(self._paragraph_text(part))):
                    if not at and entry.tag == f"{_TEXT_NS}list-item":
                        label = self._item_label(name, level, entry.get(f"{_TEXT_NS}start-value", "")) or "-"
                    heading = whole_number(part.get(f"{_TEXT_NS}outline-level"), 1) if part.tag == f"{_TEXT_NS}h" else 0
                    item_label = label if not at else ""
                    if heading:
                        yield f"{'#' * min(heading, 6)} {f'{item_label} {words}'.removeprefix('- ').strip()}", False
                    else:
                        yield list_item(item_label, level - 1, words)
                elif part.tag == f"{_TEXT_NS}list" and level < _MAX_DEPTH:
                    yield from self._list_items(part, name, level + 1)

    def _item_label(self, name: str, level: int, start: str = "") -> str:
        """Return the number of the next list item; "-" for a bullet, "" without a style."""
        levels = self._lists.get(name, {})
        about = levels.get(level)
        if about is None:
            return ""
        counts = self._counts.setdefault(name, [])
        del counts[level:]
        while len(counts) < level:
            above = levels.get(len(counts) + 1)
            counts.append(
                whole_number(None if above is None else above.get(f"{_TEXT_NS}start-value"), 1)
                - (len(counts) + 1 == level)
            )
        counts[level - 1] = whole_number(start, counts[level - 1] + 1)
        form = about.get(f"{_STYLE_NS}num-format")
        if form is None:
            return "-"
        if not form:
            return ""
        first = level - whole_number(about.get(f"{_TEXT_NS}display-levels"), 1)
        shown_levels = range(max(first, 0), level)
        forms = [
            (levels[at + 1].get(f"{_STYLE_NS}num-format") or "1") if at + 1 in levels else "1" for at in shown_levels
        ]
        numbers = ".".join(
            _NUMBER_FORMS.get(form, str)(counts[at]) for at, form in zip(shown_levels, forms, strict=True)
        )
        return f"{about.get(f'{_STYLE_NS}num-prefix', '')}{numbers}{about.get(f'{_STYLE_NS}num-suffix', '')}".strip()

    def _table_markdown(self, table: Element, *, in_cell: bool) -> str:
        """Return a table; a box or a row within a cell as one line."""
        nested: dict[int, list[str]] = {}
        rows = [self._row_cells(row, nested.setdefault(at, [])) for at, row in enumerate(_row_nodes(table))]
        if next(table.iter(f"{_TABLE_NS}covered-table-cell"), None) is None:
            # Cells stand at their positions, also where a program writes cells below a tall one.
            rows = [[(text, 1, width) for text, _, width in row] for row in rows]
        filled = [row for row in rows if any(text for text, _, _ in row)]
        if len(rows) == len(rows[0] if rows else ()) == 1 or (in_cell and len(filled) < 2):
            line = " ".join(" ".join(text.split()) for row in filled for text, _, _ in row if text)
            return "\n\n".join(filter(None, [line, *(block for blocks in nested.values() for block in blocks)]))
        header_rows = sum(1 for part in table.findall(f"{_TABLE_NS}table-header-rows") for _ in _row_nodes(part))
        filled_nested = {at: blocks for at, blocks in nested.items() if blocks}
        return grids.grid_markdown(rows, filled_nested, header_rows=header_rows)

    def _row_cells(self, row: Element, nested: list[str]) -> list[grids.Cell]:
        """Return the cells of a row; add inner tables to `nested`, each after the name of the cell."""
        cells = list[grids.Cell]()
        for node in row:
            if node.tag != f"{_TABLE_NS}table-cell":
                continue
            texts = [text for text, _ in self._child_blocks(node, in_cell=True)]
            tables = [text for text in texts if text.startswith("|") and text.count("\n") > 1]
            cells += self._make_cells(node, [text for text in texts if text not in tables])
            for table in tables:
                name = " ".join((cells[-1][0] or next((text for text, _, _ in cells if text), "")).split())
                nested += [f"{name}:" if name else "", table]
        return cells

    def _make_cells(self, node: Element, texts: list[str]) -> list[grids.Cell]:
        text = "\n".join(texts) if len(texts) != 1 else texts[0].removeprefix("- ")  # a list of one is none
        cell = (text, _number_attribute(node, "number-rows-spanned"), _number_attribute(node, "number-columns-spanned"))
        return [cell] * _number_attribute(node, "number-columns-repeated")

    def _chart_markdown(self, node: Element) -> Iterator[Block]:
        """Return title and values of a chart, an embedded document in a folder."""
        name = f"{node.get(_LINK_ATTRIBUTE, '').removeprefix('./').rstrip('/')}/content.xml"
        try:
            root = xml.read_root(self._archive, name)
        except xml.PARSE_ERRORS:
            return  # a file of its own kind
        if (chart := next(root.iter(f"{_CHART_NS}chart"), None)) is not None:
            title = chart.find(f"{_CHART_NS}title")
            words = "" if title is None else " ".join(self._line_texts(title))
            tables = [self._table_markdown(table, in_cell=False) for table in chart.iter(f"{_TABLE_NS}table")]
            yield "\n\n".join([f"Chart: {words}".removesuffix(": "), *filter(None, tables)]), False


def _row_nodes(table: Element) -> Iterator[Element]:
    """Yield the rows of a table without those of nested tables."""
    for part in table:
        if part.tag == f"{_TABLE_NS}table-row":
            yield part
        elif part.tag in _ROW_TAGS:
            yield from _row_nodes(part)


def _is_separate(part: Element) -> bool:
    return (part.tag in _SEPARATE_TAGS and part.tag != f"{_DRAW_NS}frame") or part.tag.endswith("-source")


def _note_citation(note: Element) -> str:
    return " ".join(note.findtext(f"{_TEXT_NS}note-citation", "").split())


def _collect_words(node: Element, forms: Mapping[str, Form]) -> str:
    pieces = [node.text or ""]
    for part in node:
        if part.tag == f"{_TEXT_NS}note":
            pieces.append(inline_forms.footnote_mark(_note_citation(part)) if _note_citation(part) else "")
        elif part.tag not in _SEPARATE_TAGS:
            words = _SPACE_TEXTS.get(part.tag) or _collect_words(part, forms)
            if form := forms.get(part.get(f"{_TEXT_NS}style-name", "")):
                words = form.mark(words)
            address = part.get(_LINK_ATTRIBUTE, "") if part.tag == f"{_TEXT_NS}a" else ""
            pieces.append(f"[{words}]({address})" if words and address.startswith("http") else words)
        pieces.append(part.tail or "")
    return "".join(pieces)


def _number_attribute(node: Element, name: str) -> int:
    return min(whole_number(node.get(f"{_TABLE_NS}{name}"), 1), _MAX_REPETITIONS)


def _frame_bounds(node: Element) -> Bounds:
    left, top, width, height = (
        _parse_length(node.get(f"{_SVG_NS}{name}", "")) for name in ("x", "y", "width", "height")
    )
    return left, top, left + width, top + height


def _parse_length(text: str) -> int:
    try:
        return int(float(text[:-2]) * _CENTIMETERS_PER_UNIT.get(text[-2:], 0) * _EMU_PER_CM)
    except ValueError:
        return 0
