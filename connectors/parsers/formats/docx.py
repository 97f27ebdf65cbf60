"""Word documents as Markdown: .docx, and .doc converted to .docx."""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree.ElementTree import Element

from connectors.parsers import detect, document, inline_forms, xml
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.formats import ooxml
from connectors.parsers.formats.blocks import (
    Block,
    Numbering,
    attribute_value,
    join_blocks,
    list_item,
    whole_number,
)
from connectors.parsers.formats.docx_runs import NOTE_MARKS, NoteNumbers, RunForms, is_on, symbol_sign
from connectors.parsers.formats.grids import Cell, grid_markdown
from connectors.parsers.formats.ooxml import MC, A, Package, R, paragraph_texts
from connectors.parsers.messages import Task
from retrieval.errors import Skippable

_WORD_95 = (
    "Documents of Word 6 and Word 95 are not read. Open it in Word or LibreOffice, save it as DOCX and upload that."
)


def read_doc(kind: Kind, path: Path, task: Task) -> Document:
    """Convert a .doc to Markdown. Skippable if damaged or older than Word 97."""
    if detect.is_word_95(path.read_bytes()):
        raise Skippable(_WORD_95)
    import doc2docx
    from doc2docx.errors import Doc2DocxError

    converted = Path(tempfile.mkdtemp()) / "raw.docx"
    try:
        doc2docx.convert(path, converted)
    except (Doc2DocxError, ValueError, ArithmeticError, LookupError, OSError) as error:
        raise document.damaged_file(kind) from error
    return read_docx(kind, converted, task)


_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_OBJECTS = frozenset({f"{_W}drawing", f"{_W}pict", f"{_W}object"})
_SIGNS = {"tab": " ", "ptab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_WRAPPERS = frozenset(
    f"{_W}{name}"
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
        "ruby",
        "rubyBase",
    )
)
_BOX = f"{_W}txbxContent"
_CODE = re.compile(r"[0-9A-Fa-f]{1,4}")
_HEADING = re.compile(r"heading ([1-9])")
_DEEPEST_HEADING = 6
_NARROW_TWIPS = 230
# Maximum of columns skipped at the start of a row.
_WIDEST = 100


def read_docx(kind: Kind, path: Path, _task: Task) -> Document:
    """Convert a .docx to Markdown. Skippable if damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
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
            about = xml.read_about(archive, "docProps/core.xml")
    except xml.BROKEN as error:
        raise document.damaged_file(kind) from error
    return Document(f"{strip_invisible(text)}\n", **about)


@dataclass
class _Paragraph:
    """Words of a paragraph, with its text boxes, charts and formulas."""

    words: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    formulas: list[str] = field(default_factory=list)


class _Writer:
    """Writer of one document; counts list numbers in order."""

    def __init__(self, package: Package, name: str) -> None:
        folder = name.rpartition("/")[0]
        self._package, self._name = package, name
        self._relations = package.relations(name)
        styles = package.root(f"{folder}/styles.xml")
        self._styles = (
            {} if styles is None else {style.get(f"{_W}styleId", ""): style for style in styles.iter(f"{_W}style")}
        )
        self._numbering = Numbering(package.root(f"{folder}/numbering.xml"))
        self._levels: dict[str, tuple[int, str, int]] = {}
        self._forms = RunForms(self._styles)
        self._notes = NoteNumbers(package.root(f"{folder}/settings.xml"))

    def blocks(self) -> Iterator[str]:
        body = self._package.require(self._name)
        yield from join_blocks(self._blocks(body))
        folder = self._name.rpartition("/")[0]
        for kinds in ("header|footer", "footnotes|endnotes", "comments"):
            pattern = re.compile(rf"{re.escape(folder)}/({kinds})\d*\.xml")
            parts = (match for name in sorted(self._package.names) if (match := pattern.fullmatch(name)))
            yield from dict.fromkeys(text for part in parts for text in self._beside(part[1], part[0]))

    def _beside(self, kind: str, name: str) -> Iterator[str]:
        """Yield headers and footers with letters, notes or comments."""
        part = self._package.root(name)
        if part is None:
            return
        outer, self._relations = self._relations, self._package.relations(name)
        if kind in ("header", "footer"):
            yield from (text for text in join_blocks(self._blocks(part)) if any(map(str.isalpha, text)))
        for note in part if kind not in ("header", "footer") else ():
            author = note.get(f"{_W}author")
            label = kind.removesuffix("s").capitalize() + (f" by {author}" if author else "")
            if words := " ".join(join_blocks(self._blocks(note))):
                mark = self._notes.labels.get((kind.removesuffix("s"), note.get(f"{_W}id", "")), "")
                yield inline_forms.note(label, mark, words)
        self._relations = outer

    def _blocks(self, node: Element) -> Iterator[Block]:
        """Yield blocks below a node in order, and True for list items."""
        for part in node:
            if part.tag == f"{_W}p":
                yield from self._paragraph(part)
            elif part.tag == f"{_W}tbl":
                yield from self._table(part)
            elif part.tag in _WRAPPERS or part.tag in (f"{_W}body", f"{MC}AlternateContent", f"{MC}Choice"):
                yield from self._blocks(part)

    def _paragraph(self, node: Element) -> Iterator[Block]:
        parts = _Paragraph()
        self._read(node, parts)
        words = re.sub(r"[ \t\u00a0]+", " ", inline_forms.write_forms("".join(parts.words))).strip()
        words = "\n".join(line.strip() for line in words.split("\n"))
        level, number, depth = self._form(node)
        label = self._numbering.label(number, depth) if number and (words or not _is_unseen(node)) else ""
        if words and level:
            yield f"{'#' * level} {detect.one_line(f'{label} {words}' if label != '-' else words)}", False
        elif words:
            yield list_item(label, depth, words)
        yield from ((text, False) for text in (*parts.formulas, *parts.beside))

    def _form(self, node: Element) -> tuple[int, str, int]:
        """Return the heading level or 0, the list and the list level of a paragraph."""
        properties_node = node.find(f"{_W}pPr")
        style = "" if properties_node is None else attribute_value(properties_node.find(f"{_W}pStyle"))
        level, number, depth = self._of_style(style)
        if properties_node is None:
            return level, number, depth
        outline, numbering = properties_node.find(f"{_W}outlineLvl"), properties_node.find(f"{_W}numPr")
        if outline is not None:
            level = _heading(attribute_value(outline))
        if numbering is not None:
            number = attribute_value(numbering.find(f"{_W}numId")) or number
            depth = whole_number(attribute_value(numbering.find(f"{_W}ilvl")), depth)
        return level, "" if number == "0" else number, depth

    def _of_style(self, name: str, deep: int = 0) -> tuple[int, str, int]:
        if name in self._levels or deep > 20 or name not in self._styles:
            return self._levels.get(name, (0, "", 0))
        style = self._styles[name]
        level, number, depth = self._of_style(attribute_value(style.find(f"{_W}basedOn")), deep + 1)
        called = attribute_value(style.find(f"{_W}name")).lower()
        if heading := _HEADING.fullmatch(called):
            level = min(int(heading[1]), _DEEPEST_HEADING)
        elif called == "title":
            level = 1
        if (outline := style.find(f"{_W}pPr/{_W}outlineLvl")) is not None:
            level = _heading(attribute_value(outline))
        if (numbering := style.find(f"{_W}pPr/{_W}numPr")) is not None:
            number = attribute_value(numbering.find(f"{_W}numId")) or number
            depth = whole_number(attribute_value(numbering.find(f"{_W}ilvl")), self._numbering.depth(number, name))
        self._levels[name] = level, number, depth
        return self._levels[name]

    def _read(self, node: Element, into: _Paragraph) -> None:
        """Collect the content below a node within one paragraph."""
        for part in node:
            if part.tag == f"{_W}t":
                into.words.append(part.text or "")
            elif part.tag == f"{_W}r":
                self._run(part, into)
            elif part.tag in _WRAPPERS:
                self._read(part, into)
            elif part.tag in NOTE_MARKS:
                into.words.append(self._notes.mark(part))
            elif part.tag == f"{_W}hyperlink":
                self._link(part, into)
            elif part.tag == f"{MC}AlternateContent":
                self._read(part[0] if len(part) else part, into)
            elif part.tag in _OBJECTS:
                self._object(part, into)
            elif part.tag == _BOX:
                into.beside += join_blocks(self._blocks(part))
            elif part.tag == f"{ooxml.M}oMath":
                into.words.append(ooxml.formula_line(part))
            elif part.tag == f"{ooxml.M}oMathPara":
                into.formulas += [f"$${ooxml.formula_latex(formula)}$$" for formula in part.iter(f"{ooxml.M}oMath")]
            elif part.tag.startswith(_W):
                into.words.append(_sign(part))

    def _run(self, run: Element, into: _Paragraph) -> None:
        properties = run.find(f"{_W}rPr")
        if properties is None:
            self._read(run, into)
        elif not is_on(properties.find(f"{_W}vanish")):
            form = self._forms.form(properties)
            into.words.append(form.opening)
            self._read(run, into)
            into.words.append(form.closing)

    def _link(self, node: Element, into: _Paragraph) -> None:
        within = _Paragraph([], into.beside, into.formulas)
        self._read(node, within)
        words, address = "".join(within.words), self._relations.get(node.get(f"{R}id", ""), ("", ""))[1]
        into.words.append(f"[{words}]({address})" if words.strip() and address.startswith("http") else words)

    def _object(self, node: Element, into: _Paragraph) -> None:
        boxes = list(_outermost(node, _BOX))
        for box in boxes:
            into.beside += join_blocks(self._blocks(box))
        if not boxes:
            into.beside += self._package.drawn(node, self._relations)
            into.beside += paragraph_texts(node.iter(f"{A}p"))

    def _table(self, node: Element) -> Iterator[Block]:
        """Yield a table, or the content of a single-cell frame."""
        if len(cells := [cell for row in _rows(node) for cell in _cells(row)]) == 1:
            yield from self._blocks(cells[0])
            return
        rows, nested = self._grid(node)
        if text := grid_markdown(rows, nested, _narrow(node)):
            yield text, False

    def _grid(self, node: Element) -> tuple[list[list[Cell]], dict[int, list[str]]]:
        """Return the cells of each row, and nested tables by row number."""
        rows: list[list[Cell]] = []
        nested: dict[int, list[str]] = {}
        above: dict[int, tuple[int, int]] = {}
        for row in _rows(node):
            cells: list[Cell] = []
            column = min(whole_number(attribute_value(row.find(f"{_W}trPr/{_W}gridBefore"))), _WIDEST)
            cells += [("", 1, 1)] * column
            for cell in _cells(row):
                width = whole_number(attribute_value(cell.find(f"{_W}tcPr/{_W}gridSpan")), 1)
                merged = cell.find(f"{_W}tcPr/{_W}vMerge")
                if merged is not None and attribute_value(merged) != "restart" and column in above:
                    at, cell_index = above[column]
                    text, height, wide = rows[at][cell_index]
                    rows[at][cell_index] = text, height + 1, wide
                else:
                    above[column] = len(rows), len(cells)
                    inner = [part for part in cell if part.tag == f"{_W}tbl" and _is_grid(part)]
                    cells.append((self._cell(cell, inner), 1, width))
                    name = cells[-1][0] or next((text for text, _, _ in cells if text), "")
                    for table in inner:
                        texts = [text for text, _ in self._table(table)]
                        nested.setdefault(len(rows), []).extend([f"{name}:" if name else "", *texts])
                column += width
            rows.append(cells)
        return rows, nested

    def _cell(self, node: Element, apart: Sequence[Element] = ()) -> str:
        """Return the text of a cell in one line, including nested tables except those in `apart`."""
        texts = []
        for part in node:
            if part in apart:
                continue
            if part.tag == f"{_W}tbl":
                texts += [self._cell(cell) for row in _rows(part) for cell in _cells(row)]
            elif part.tag == f"{_W}p":
                texts += [text for text, _ in self._paragraph(part)]
            elif part.tag in _WRAPPERS:
                texts.append(self._cell(part))
        return " ".join(filter(None, texts))


def _sign(part: Element) -> str:
    """Return the characters of an element without text."""
    name = part.tag[len(_W) :]
    if name == "sym" and _CODE.fullmatch(code := part.get(f"{_W}char", "")):
        return symbol_sign(part.get(f"{_W}font", ""), int(code, 16))
    return _chosen(part.find(f"{_W}ffData")) if name == "fldChar" else _SIGNS.get(name, "")


def _is_unseen(paragraph: Element) -> bool:
    """Check for a deleted or hidden paragraph, without a line and list number."""
    mark = paragraph.find(f"{_W}pPr/{_W}rPr")
    return mark is not None and (mark.find(f"{_W}del") is not None or is_on(mark.find(f"{_W}vanish")))


def _chosen(form: Element | None) -> str:
    """Return the choice of a drop-down list or checkbox in a form."""
    if form is None:
        return ""
    if (choices := form.find(f"{_W}ddList")) is not None:
        entries = [attribute_value(entry) for entry in choices.findall(f"{_W}listEntry")]
        chosen = whole_number(
            attribute_value(choices.find(f"{_W}result")) or attribute_value(choices.find(f"{_W}default"))
        )
        return entries[chosen] if 0 <= chosen < len(entries) else ""
    if (tick := next((part for part in form if part.tag.lower().endswith("}checkbox")), None)) is not None:
        checked = tick.find(f"{_W}checked")
        return "☒" if is_on(tick.find(f"{_W}default") if checked is None else checked) else "☐"
    return ""


def _heading(outline: str) -> int:
    """Return the heading level; 0 for outline level 9, the body text."""
    return min(int(outline) + 1, _DEEPEST_HEADING) if outline.isdecimal() and int(outline) < 9 else 0


def _is_grid(table: Element) -> bool:
    """Check for several rows of several cells."""
    return sum(sum(1 for _ in _cells(row)) > 1 for row in _rows(table)) > 1


def _narrow(table: Element) -> list[int]:
    """Return the columns too narrow for a letter."""
    columns = table.findall(f"{_W}tblGrid/{_W}gridCol")
    return [at for at, column in enumerate(columns) if 0 < whole_number(column.get(f"{_W}w")) < _NARROW_TWIPS]


def _rows(table: Element) -> Iterator[Element]:
    for part in table:
        if part.tag == f"{_W}tr":
            if part.find(f"{_W}trPr/{_W}del") is None:
                yield part
        elif part.tag in _WRAPPERS:
            yield from _rows(part)


def _cells(row: Element) -> Iterator[Element]:
    for part in row:
        if part.tag == f"{_W}tc":
            yield part
        elif part.tag in _WRAPPERS:
            yield from _cells(part)


def _outermost(node: Element, tag: str) -> Iterator[Element]:
    """Yield the outermost elements of a kind, and the first version of an alternative drawing."""
    for part in node:
        if part.tag == tag:
            yield part
        elif part.tag == f"{MC}AlternateContent":
            yield from _outermost(part[0] if len(part) else part, tag)
        else:
            yield from _outermost(part, tag)
