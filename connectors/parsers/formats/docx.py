"""Convert Word documents to Markdown: .docx, and .doc through conversion."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from xml.etree.ElementTree import Element

from connectors.parsers import detect, document, inline_forms, xml
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.formats import doc_text, ooxml
from connectors.parsers.formats.blocks import (
    Block,
    Numbering,
    attribute_value,
    join_blocks,
    list_item,
    whole_number,
)
from connectors.parsers.formats.docx_runs import NOTE_MARKS, NoteNumbers, RunForms, is_initial, is_on, symbol_sign
from connectors.parsers.formats.grids import Cell, grid_markdown
from connectors.parsers.formats.ooxml import MC, A, Package, R, paragraph_texts
from connectors.parsers.formats.word_fields import FieldCode, chosen_value
from connectors.parsers.messages import Task
from retrieval.errors import Skippable

_WORD_95 = (
    "Documents of Word 6 and Word 95 are not read. Open it in Word or LibreOffice, save it as DOCX and upload that."
)


def read_doc(kind: Kind, path: Path, task: Task) -> Document:
    """Return the document as Markdown. Skippable if damaged or older than Word 97."""
    if detect.is_word_95(path.read_bytes()):
        raise Skippable(_WORD_95)
    import doc2docx
    from doc2docx.errors import Doc2DocxError

    converted = Path(tempfile.mkdtemp()) / "raw.docx"
    try:
        doc2docx.convert(path, converted)
    except (Doc2DocxError, ValueError, ArithmeticError, LookupError, OSError) as error:
        # The converter refuses whatever departs from the specification, such as files of other programs.
        if plain := doc_text.read_document(path):
            return plain
        raise document.damaged_file(kind) from error
    return read_docx(kind, converted, task)


_W_NS = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_OBJECT_TAGS = frozenset({f"{_W_NS}drawing", f"{_W_NS}pict", f"{_W_NS}object"})
_SIGN_TEXTS = {"tab": " ", "ptab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_WRAPPER_TAGS = frozenset(
    f"{_W_NS}{name}"
    for name in (
        "ins",
        "moveTo",
        "smartTag",
        "customXml",
        "sdt",
        "sdtContent",
        "fldSimple",
        "dir",
        "bdo",
        "r",
        "rubyBase",
    )
)
_TEXT_BOX = f"{_W_NS}txbxContent"
_CODE_PATTERN = re.compile(r"[0-9A-Fa-f]{1,4}")
_HEADING_STYLE = re.compile(r"heading ([1-9])")
_MAX_HEADING_LEVEL = 6
_MAX_NARROW_TWIPS = 230
# Columns skipped at the start of a row, at most.
_MAX_SKIPPED_COLUMNS = 100


def read_docx(kind: Kind, path: Path, _task: Task) -> Document:
    """Return the document as Markdown. Skippable if damaged."""
    try:
        with xml.open_package(path) as archive:
            package = Package(archive)
            main = next(
                (
                    target
                    for kind_of_relation, target in package.relations("").values()
                    if kind_of_relation == "officeDocument"
                ),
                "",
            )
            name = main if main in package.names else "word/document.xml"
            text = "\n\n".join(_Writer(package, name).blocks())
            about = xml.read_properties(archive, "docProps/core.xml")
    except xml.PARSE_ERRORS as error:
        raise document.damaged_file(kind) from error
    return Document(f"{strip_invisible(text)}\n", **about)


@dataclass
class _Paragraph:
    """Words of a paragraph, with attached text boxes, charts and formulas."""

    words: list[str] = field(default_factory=list)
    box_texts: list[str] = field(default_factory=list)
    formulas: list[str] = field(default_factory=list)
    field_code: FieldCode = field(default_factory=FieldCode)


class _Writer:
    """Writes one document and counts its list numbers."""

    def __init__(self, package: Package, name: str) -> None:
        folder = name.rpartition("/")[0]
        self._package, self._name = package, name
        self._relations = package.relations(name)
        styles = package.root(f"{folder}/styles.xml")
        self._styles = (
            {}
            if styles is None
            else {style.get(f"{_W_NS}styleId", ""): style for style in styles.iter(f"{_W_NS}style")}
        )
        self._numbering = Numbering(package.root(f"{folder}/numbering.xml"))
        self._levels: dict[str, tuple[int, str, int]] = {}
        self._forms = RunForms(self._styles)
        self._notes = NoteNumbers(package.root(f"{folder}/settings.xml"))
        self._initial = ""

    def blocks(self) -> Iterator[str]:
        body = self._package.require(self._name)
        yield from join_blocks(self._child_blocks(body))
        folder = self._name.rpartition("/")[0]
        for kinds in ("header|footer", "footnotes|endnotes", "comments"):
            pattern = re.compile(rf"{re.escape(folder)}/({kinds})\d*\.xml")
            parts = (match for name in sorted(self._package.names) if (match := pattern.fullmatch(name)))
            yield from dict.fromkeys(text for part in parts for text in self._side_blocks(part[1], part[0]))

    def _side_blocks(self, kind: str, name: str) -> Iterator[str]:
        """Return headers and footers, notes or comments, without headers of only a page number."""
        part = self._package.root(name)
        if part is None:
            return
        outer, self._relations = self._relations, self._package.relations(name)
        if kind in ("header", "footer"):
            yield from (text for text in join_blocks(self._child_blocks(part)) if any(map(str.isalpha, text)))
        for note in part if kind not in ("header", "footer") else ():
            author = note.get(f"{_W_NS}author")
            label = kind.removesuffix("s").capitalize() + (f" by {author}" if author else "")
            if words := " ".join(join_blocks(self._child_blocks(note))):
                mark = self._notes.labels.get((kind.removesuffix("s"), note.get(f"{_W_NS}id", "")), "")
                yield inline_forms.note(label, mark, words)
        self._relations = outer

    def _child_blocks(self, node: Element) -> Iterator[Block]:
        """Yield the blocks below a node in document order, each with a list item flag."""
        for part in node:
            if part.tag == f"{_W_NS}p":
                yield from self._paragraph_blocks(part)
            elif part.tag == f"{_W_NS}tbl":
                yield from self._table_blocks(part)
            elif part.tag in _WRAPPER_TAGS or part.tag in (f"{_W_NS}body", f"{MC}AlternateContent", f"{MC}Choice"):
                yield from self._child_blocks(part)

    def _paragraph_blocks(self, node: Element) -> Iterator[Block]:
        parts = _Paragraph()
        self._read_content(node, parts)
        words = re.sub(r"[ \t\u00a0]+", " ", inline_forms.write_forms("".join(parts.words))).strip()
        words = self._initial + "\n".join(line.strip() for line in words.split("\n"))
        self._initial = words if is_initial(node, words) else ""
        if self._initial:
            return  # the next paragraph goes on with it
        level, number, depth = self._paragraph_form(node)
        label = self._numbering.label(number, depth) if number and (words or not _is_unseen(node)) else ""
        if words and level:
            yield f"{'#' * level} {detect.one_line(f'{label} {words}' if label != '-' else words)}", False
        elif words:
            yield list_item(label, depth, words)
        yield from ((text, False) for text in (*parts.formulas, *parts.box_texts))

    def _paragraph_form(self, node: Element) -> tuple[int, str, int]:
        """Return heading level or 0, and list and list level of the paragraph."""
        properties_node = node.find(f"{_W_NS}pPr")
        style = "" if properties_node is None else attribute_value(properties_node.find(f"{_W_NS}pStyle"))
        level, number, depth = self._style_form(style)
        if properties_node is None:
            return level, number, depth
        outline, numbering = properties_node.find(f"{_W_NS}outlineLvl"), properties_node.find(f"{_W_NS}numPr")
        if outline is not None:
            level = _heading_level(attribute_value(outline))
        if numbering is not None:
            number = attribute_value(numbering.find(f"{_W_NS}numId")) or number
            depth = whole_number(attribute_value(numbering.find(f"{_W_NS}ilvl")), depth)
        return level, "" if number == "0" else number, depth

    def _style_form(self, name: str, deep: int = 0) -> tuple[int, str, int]:
        if name in self._levels or deep > 20 or name not in self._styles:
            return self._levels.get(name, (0, "", 0))
        style = self._styles[name]
        level, number, depth = self._style_form(attribute_value(style.find(f"{_W_NS}basedOn")), deep + 1)
        called = attribute_value(style.find(f"{_W_NS}name")).lower()
        if heading := _HEADING_STYLE.fullmatch(called):
            level = min(int(heading[1]), _MAX_HEADING_LEVEL)
        elif called == "title":
            level = 1
        if (outline := style.find(f"{_W_NS}pPr/{_W_NS}outlineLvl")) is not None:
            level = _heading_level(attribute_value(outline))
        if (numbering := style.find(f"{_W_NS}pPr/{_W_NS}numPr")) is not None:
            number = attribute_value(numbering.find(f"{_W_NS}numId")) or number
            depth = whole_number(attribute_value(numbering.find(f"{_W_NS}ilvl")), self._numbering.depth(number, name))
        self._levels[name] = level, number, depth
        return self._levels[name]

    def _read_content(self, node: Iterable[Element], into: _Paragraph) -> None:
        """Collect the content of a node inside a paragraph."""
        for part in node:
            if part.tag == f"{_W_NS}r":
                self._read_run(part, into)
            elif part.tag in _WRAPPER_TAGS:
                self._read_content(part, into)
            elif part.tag == f"{_W_NS}ruby":
                self._read_content(part[::-1], into)  # the reading stands before its base
            elif part.tag in NOTE_MARKS:
                into.words.append(self._notes.mark(part))
            elif part.tag == f"{_W_NS}hyperlink":
                self._read_link(part, into)
            elif part.tag == f"{MC}AlternateContent":
                self._read_content(part[0] if len(part) else part, into)
            elif part.tag in _OBJECT_TAGS:
                self._read_object(part, into)
            elif part.tag == _TEXT_BOX:
                into.box_texts += join_blocks(self._child_blocks(part))
            elif part.tag == f"{ooxml.M}oMath":
                into.words.append(ooxml.formula_line(part))
            elif part.tag == f"{ooxml.M}oMathPara":
                into.formulas += [f"$${ooxml.formula_latex(formula)}$$" for formula in part.iter(f"{ooxml.M}oMath")]
            elif part.tag.startswith(_W_NS):
                into.words.append(_sign_text(part) + into.field_code.read(part))

    def _read_run(self, run: Element, into: _Paragraph) -> None:
        properties = run.find(f"{_W_NS}rPr")
        if properties is None:
            self._read_content(run, into)
        elif not is_on(properties.find(f"{_W_NS}vanish")):
            form = self._forms.form(properties)
            into.words.append(form.opening)
            self._read_content(run, into)
            into.words.append(form.closing)

    def _read_link(self, node: Element, into: _Paragraph) -> None:
        within = _Paragraph([], into.box_texts, into.formulas)
        self._read_content(node, within)
        words, address = "".join(within.words), self._relations.get(node.get(f"{R}id", ""), ("", ""))[1]
        into.words.append(f"[{words}]({address})" if words.strip() and address.startswith("http") else words)

    def _read_object(self, node: Element, into: _Paragraph) -> None:
        boxes = list(_outermost_elements(node, _TEXT_BOX))
        for box in boxes:
            into.box_texts += join_blocks(self._child_blocks(box))
        if not boxes:
            into.box_texts += self._package.drawn(node, self._relations)
            into.box_texts += paragraph_texts(node.iter(f"{A}p"))
            into.box_texts += ooxml.picture_texts(node)

    def _table_blocks(self, node: Element) -> Iterator[Block]:
        """Return the table, or the content of a mere frame."""
        if len(cells := [cell for row in _table_rows(node) for cell in _row_cells(row)]) == 1:
            yield from self._child_blocks(cells[0])
            return
        rows, nested = self._table_grid(node)
        marks = (row.find(f"{_W_NS}trPr/{_W_NS}tblHeader") for row in _table_rows(node))
        header_rows = sum(1 for _ in takewhile(is_on, marks))
        if text := grid_markdown(rows, nested, _narrow_columns(node), header_rows):
            yield text, False

    def _table_grid(self, node: Element) -> tuple[list[list[Cell]], dict[int, list[str]]]:
        """Return the cells of each row, and nested tables by row number."""
        rows: list[list[Cell]] = []
        nested: dict[int, list[str]] = {}
        above: dict[int, tuple[int, int]] = {}
        for row in _table_rows(node):
            cells: list[Cell] = []
            column = min(
                whole_number(attribute_value(row.find(f"{_W_NS}trPr/{_W_NS}gridBefore"))), _MAX_SKIPPED_COLUMNS
            )
            cells += [("", 1, 1)] * column
            for cell in _row_cells(row):
                width = whole_number(attribute_value(cell.find(f"{_W_NS}tcPr/{_W_NS}gridSpan")), 1)
                merged = cell.find(f"{_W_NS}tcPr/{_W_NS}vMerge")
                if merged is not None and attribute_value(merged) != "restart" and column in above:
                    at, cell_index = above[column]
                    text, height, wide = rows[at][cell_index]
                    rows[at][cell_index] = text, height + 1, wide
                else:
                    above[column] = len(rows), len(cells)
                    inner = [part for part in cell if part.tag == f"{_W_NS}tbl" and _is_grid(part)]
                    cells.append((self._cell_text(cell, inner), 1, width))
                    name = " ".join((cells[-1][0] or next((text for text, _, _ in cells if text), "")).split())
                    for table in inner:
                        texts = [text for text, _ in self._table_blocks(table)]
                        nested.setdefault(len(rows), []).extend([f"{name}:" if name else "", *texts])
                column += width
            rows.append(cells)
        return rows, nested

    def _cell_text(self, node: Element, apart: Sequence[Element] = ()) -> str:
        """Return the lines of a cell, blank ones too, without the tables in `apart`."""
        texts = []
        for part in node:
            if part in apart:
                continue
            if part.tag == f"{_W_NS}tbl":
                inner = (self._cell_text(cell) for row in _table_rows(part) for cell in _row_cells(row))
                texts.append(" ".join(" ".join(inner).split()))
            elif part.tag == f"{_W_NS}p":
                lines = [text for text, _ in self._paragraph_blocks(part)]
                texts += lines or [""] * (not _is_unseen(part))
            elif part.tag in _WRAPPER_TAGS:
                texts.append(self._cell_text(part))
        text = "\n".join(texts)
        return text if text.strip() else ""


def _sign_text(part: Element) -> str:
    """Return the text or the characters represented by an element."""
    name = part.tag[len(_W_NS) :]
    if name == "t":
        return part.text or ""
    if name == "sym" and _CODE_PATTERN.fullmatch(code := part.get(f"{_W_NS}char", "")):
        return symbol_sign(part.get(f"{_W_NS}font", ""), int(code, 16))
    if name == "rt":
        return inline_forms.reading("".join(text.text or "" for text in part.iter(f"{_W_NS}t")))
    return chosen_value(part.find(f"{_W_NS}ffData")) if name == "fldChar" else _SIGN_TEXTS.get(name, "")


def _is_unseen(paragraph: Element) -> bool:
    """Check for a deleted or hidden paragraph mark; without words, the paragraph has no line and no list number."""
    mark = paragraph.find(f"{_W_NS}pPr/{_W_NS}rPr")
    return mark is not None and (mark.find(f"{_W_NS}del") is not None or is_on(mark.find(f"{_W_NS}vanish")))


def _heading_level(outline: str) -> int:
    """Return the heading level; 0 for outline level 9, the body text."""
    return min(int(outline) + 1, _MAX_HEADING_LEVEL) if outline.isdecimal() and int(outline) < 9 else 0


def _is_grid(table: Element) -> bool:
    """Check for several rows of several cells."""
    return sum(sum(1 for _ in _row_cells(row)) > 1 for row in _table_rows(table)) > 1


def _narrow_columns(table: Element) -> list[int]:
    """Return the grid columns narrower than a letter."""
    columns = table.findall(f"{_W_NS}tblGrid/{_W_NS}gridCol")
    return [at for at, column in enumerate(columns) if 0 < whole_number(column.get(f"{_W_NS}w")) < _MAX_NARROW_TWIPS]


def _table_rows(table: Element) -> Iterator[Element]:
    for part in table:
        if part.tag == f"{_W_NS}tr":
            if part.find(f"{_W_NS}trPr/{_W_NS}del") is None:
                yield part
        elif part.tag in _WRAPPER_TAGS:
            yield from _table_rows(part)


def _row_cells(row: Element) -> Iterator[Element]:
    for part in row:
        if part.tag == f"{_W_NS}tc":
            yield part
        elif part.tag in _WRAPPER_TAGS:
            yield from _row_cells(part)


def _outermost_elements(node: Element, tag: str) -> Iterator[Element]:
    """Return outermost elements of a tag, and only the first of two versions of a drawing."""
    for part in node:
        if part.tag == tag:
            yield part
        elif part.tag == f"{MC}AlternateContent":
            yield from _outermost_elements(part[0] if len(part) else part, tag)
        else:
            yield from _outermost_elements(part, tag)
