"""Read workbooks of Excel 2007 and later (XLSX, XLSM): displayed cells, comments, text boxes, charts and diagrams."""

from __future__ import annotations

import contextlib
import html
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Final
from xml.etree.ElementTree import Element

from connectors.parsers import inline_forms, xml
from connectors.parsers.formats import number_formats, ooxml
from connectors.parsers.formats.blocks import table_cell
from connectors.parsers.formats.number_formats import Format
from connectors.parsers.formats.ooxml import A, Package, R, paragraph_texts
from connectors.parsers.formats.ooxml_charts import MAX_CHART_POINTS, LookUp
from connectors.parsers.formats.sheet_tables import CellRange, Sheet, cell_reference, link_cell
from connectors.parsers.inline_forms import Form, write_forms

# Column letters, style number, type and value, all as in the file.
Cell = tuple[str, str, str, str]
_SHEET_NS: Final = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_SIDE_RELATIONS: Final = frozenset({"table", "drawing", "comments", "threadedComment"})
# Excel's escape of characters invalid in XML.
_ESCAPED_CHARACTER: Final = re.compile("_x([0-9A-Fa-f]{4})_")
_REFERENCE_PATTERN: Final = re.compile(
    r"'?(?P<sheet>.+?)'?!\$?([A-Z]{1,3})\$?(\d{1,7})(?::\$?([A-Z]{1,3})\$?(\d{1,7}))?"
)
_ROW_START: Final = re.compile(rb'<row r="\d+"')
_ROW_PATTERN: Final = re.compile(rb'<row r="(\d+)"(?:[^>]*[^/>])?>(.*?)</row>', re.DOTALL)
_CELL_PATTERN: Final = re.compile(
    r'<c r="([A-Z]+)\d+"(?: s="(\d+)")?(?: t="(\w+)")?(?:/>|>(?:<f\b[^>]*(?:/>|>[^<]*</f>))?'
    r'(?:(?:<v>|<is><t(?: xml:space="preserve")?>)([^<]*)(?:</v>|</t></is>)|<v ?/>)?</c>)'
)
_MERGED_PATTERN: Final = re.compile(rb'<(?:\w+:)?mergeCell ref="([A-Z0-9:]+)"')
_LINK_PATTERN: Final = re.compile(rb"<(?:\w+:)?hyperlink\b([^>]*)>")
_ATTRIBUTE_PATTERN: Final = re.compile(r'(?:\w+:)?(\w+)="([^"]*)"')
# Placeholder text for programs without threaded comments; the thread is in another part.
_THREADED_COMMENT: Final = "[Threaded comment]"
# Formula without a result; empty text results have `t="str"`.
_UNCALCULATED_PATTERN: Final = re.compile(rb"<c\b([^<>]*)><f\b[^<>]*(?:/>|>[^<]*</f>)(?:<v ?/>|<v></v>)?</c>")


def read_sheets(archive: zipfile.ZipFile) -> list[Sheet]:
    """Return the sheets of a workbook, hidden sheets too. Raises one of `xml.PARSE_ERRORS` if damaged."""
    package = Package(archive)
    workbook = dict(package.relations("").values()).get("officeDocument", "xl/workbook.xml")
    root, relations = package.require(workbook), package.relations(workbook)
    parts = dict(relations.values())
    is_1904 = any(node.get("date1904") in ("1", "true") for node in root.iter(f"{_SHEET_NS}workbookPr"))
    strings = _shared_strings(archive, parts["sharedStrings"]) if parts.get("sharedStrings") in package.names else []
    styles = package.root(parts.get("styles", ""))
    formats, struck = _style_formats(styles, 1904 if is_1904 else 1900), _struck_styles(styles)
    show_cell = partial(_format_cell, strings, formats)
    show_cell = partial(_mark_struck, struck, show_cell) if struck else show_cell
    sheets: dict[str, Sheet] = {}
    for node in root.iter(f"{_SHEET_NS}sheet"):
        part = relations.get(node.get(f"{R}id", ""), ("", ""))[1]
        if part in package.names:
            sheets[part] = Sheet(node.get("name", ""))
            data = archive.read(part)
            _read_cells(data, sheets[part], show_cell)
            _add_links(data, sheets[part], package.relations(part))
    names = {node.get("name", ""): node.text or "" for node in root.iter(f"{_SHEET_NS}definedName")}
    look_up = look_up_in(sheets.values(), names)
    for part, sheet in sheets.items():
        read_side_parts(package, part, sheet, look_up)
    return list(sheets.values())


def _style_formats(styles: Element | None, epoch: int) -> dict[str, Format]:
    """Return number formats by cell style number."""
    codes = {str(number): code for number, code in number_formats.BUILT_IN.items()}
    names: list[str] = []
    if styles is not None:
        codes |= {node.get("numFmtId", ""): node.get("formatCode", "") for node in styles.iter(f"{_SHEET_NS}numFmt")}
        names = [node.get("numFmtId", "0") for node in styles.findall(f"{_SHEET_NS}cellXfs/{_SHEET_NS}xf")]
    formats = [number_formats.of_code(codes.get(name, "General"), epoch) for name in names or ["0"]]
    return {"": formats[0]} | {str(number): number_format for number, number_format in enumerate(formats)}


def _struck_styles(styles: Element | None) -> frozenset[str]:
    """Return the style numbers of struck-through cells."""
    if styles is None:
        return frozenset()
    fonts = [_font_form(font).struck for font in styles.findall(f"{_SHEET_NS}fonts/{_SHEET_NS}font")]
    names = [node.get("fontId", "") for node in styles.findall(f"{_SHEET_NS}cellXfs/{_SHEET_NS}xf")]
    struck = {str(number) for number, is_struck in enumerate(fonts) if is_struck}
    return frozenset(str(number) for number, name in enumerate(names) if name in struck)


def _font_form(properties: Any) -> Form:
    """Return the form of text with a run's or font's properties."""
    by_name = {part.tag.rpartition("}")[2]: part.get("val", "1") for part in properties}
    script = {"superscript": 1, "subscript": -1}.get(by_name.get("vertAlign", ""), 0)
    return Form(script, by_name.get("strike", "0") not in ("0", "false"))


def _shared_strings(archive: zipfile.ZipFile, part: str) -> list[str]:
    strings = []
    with archive.open(part) as stream:
        for _, item in xml.iterate_elements(stream, "{*}si"):
            strings.append(_string_text(item))
            xml.free_element(item)
    return strings


def _string_text(item: Any) -> str:
    """Return a plain or rich text, without phonetic hints."""
    if len(item) == 1 and item[0].tag.endswith("}t"):
        return _unescape_cell(item[0].text or "")
    texts = (node for node in item.iter("{*}t") if not node.getparent().tag.endswith("}rPh"))
    return _unescape_cell(write_forms("".join(_run_form(node.getparent()).mark(node.text or "") for node in texts)))


def _run_form(run: Any) -> Form:
    properties = run.find("{*}rPr")
    return inline_forms.PLAIN if properties is None else _font_form(properties)


def _unescape_cell(text: str) -> str:
    return table_cell(_ESCAPED_CHARACTER.sub(lambda match: chr(int(match[1], 16)), text) if "_x" in text else text)


def _read_cells(data: bytes, sheet: Sheet, show_cell: Callable[[str, str, str], str]) -> None:
    try:
        _read_rows(_rows_by_pattern(data), sheet, show_cell)
    except _UnusualXml:
        sheet.rows.clear()
        _read_rows(_rows_by_parser(data), sheet, show_cell)
    if b"<f" in data:
        sheet.uncalculated = sum(b't="str"' not in match[1] for match in _UNCALCULATED_PATTERN.finditer(data))
    for match in _MERGED_PATTERN.finditer(data):
        sheet.merged += _parse_ranges(match[1].decode())


def _add_links(data: bytes, sheet: Sheet, relations: Mapping[str, tuple[str, str]]) -> None:
    for match in _LINK_PATTERN.finditer(data):
        attributes = dict(_ATTRIBUTE_PATTERN.findall(match[1].decode("utf-8", "replace")))
        address = relations.get(attributes.get("id", ""), ("", ""))[1]
        for row, column, _, _ in _parse_ranges(attributes.get("ref", "")):
            if words := sheet.rows.get(row, {}).get(column):
                sheet.rows[row][column] = link_cell(words, address)


def _read_rows(rows: Iterator[tuple[int, list[Cell]]], sheet: Sheet, show_cell: Callable[[str, str, str], str]) -> None:
    columns = _ColumnNumbers()
    for number, cells in rows:
        row = {
            columns[letters]: text for letters, style, kind, value in cells if (text := show_cell(style, kind, value))
        }
        if row:
            sheet.rows.setdefault(number, {}).update(row)


class _UnusualXml(Exception):
    """The XML of a sheet does not match the patterns."""


class _ColumnNumbers(dict[str, int]):
    """Column numbers by letters."""

    def __missing__(self, letters: str) -> int:
        self[letters] = number = _column_number(letters)
        return number


def _rows_by_pattern(data: bytes) -> Iterator[tuple[int, list[Cell]]]:
    """Yield the cells of each row in XML as written by Excel. _UnusualXml for other XML."""
    # Takes a third of the time of an XML parser.
    if b"<!" in data or b":row" in data or data.count(b"<row") != len(_ROW_START.findall(data)):
        raise _UnusualXml
    for match in _ROW_PATTERN.finditer(data):
        text = match[2].decode()
        cells = _CELL_PATTERN.findall(text)
        if len(cells) != text.count("<c"):
            raise _UnusualXml
        if "&" in text:
            cells = [(*cell[:3], html.unescape(cell[3])) for cell in cells]
        yield int(match[1]), cells


def _rows_by_parser(data: bytes) -> Iterator[tuple[int, list[Cell]]]:
    number = 0
    for _, row in xml.iterate_elements(io.BytesIO(data), "{*}row"):
        number, column, cells = int(row.get("r") or number + 1), 0, []
        for node in row.iterchildren("{*}c"):
            letters = node.get("r", "").rstrip("0123456789") or cell_reference(0, column + 1)[:-1]
            column = _column_number(letters)
            kind = node.get("t", "")
            texts = (
                _string_text(part) if part.tag.endswith("}is") else part.text or ""
                for part in node.iterchildren("{*}v", "{*}is")
            )
            cells.append((letters, node.get("s", ""), kind, next(texts, "")))
        yield number, cells
        xml.free_element(row)


def _mark_struck(
    struck: frozenset[str], show_cell: Callable[[str, str, str], str], style: str, kind: str, text: str
) -> str:
    cell = show_cell(style, kind, text)
    return write_forms(inline_forms.STRUCK.mark(cell)) if style in struck else cell


def _format_cell(strings: list[str], formats: dict[str, Format], style: str, kind: str, text: str) -> str:
    """Return the displayed text of a cell; for formulas, the saved value. An irregular value stays as it is."""
    with contextlib.suppress(ValueError, IndexError):
        return _show_value(strings, formats.get(style, formats[""]), kind, text)
    return text


def _show_value(strings: list[str], show: Format, kind: str, text: str) -> str:
    if not text or kind == "e":
        return text
    if kind == "s":
        return show.text(strings[int(text)])
    if kind in ("", "n"):
        is_whole = show.number is number_formats.format_general and text.isdecimal()
        return text if is_whole else show.number(float(text))
    if kind == "b":
        return "TRUE" if text == "1" else "FALSE"
    if kind == "d":
        return show.number(number_formats.serial_of_date(datetime.fromisoformat(text)))
    return show.text(_unescape_cell(text))


def _column_number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number


def _parse_ranges(reference: str) -> list[CellRange]:
    """Return the range of a reference such as `A1:C3`; [] if invalid."""
    match = _REFERENCE_PATTERN.fullmatch(reference if "!" in reference else f"x!{reference}")
    if match is None:
        return []
    first, top, right, bottom = match[2], match[3], match[4] or match[2], match[5] or match[3]
    return [(int(top), _column_number(first), int(bottom), _column_number(right))]


def look_up_in(sheets: Iterable[Sheet], names: Mapping[str, str] = MappingProxyType({})) -> LookUp:
    """Return a function for the cell texts of a reference to these sheets, or of a name for one."""
    return partial(_look_up, {sheet.name: sheet for sheet in sheets}, names)


def _look_up(by_name: dict[str, Sheet], names: Mapping[str, str], reference: str) -> list[str]:
    match = _REFERENCE_PATTERN.fullmatch(names.get(reference, reference))
    sheet = by_name.get(match["sheet"].replace("''", "'")) if match else None
    if match is None or sheet is None or not (ranges := _parse_ranges(match[0])):
        return []
    top, first, bottom, right = ranges[0]
    size = min((bottom - top + 1) * (right - first + 1), MAX_CHART_POINTS)
    places = ((at, column) for at in range(top, bottom + 1) for column in range(first, right + 1))
    return [sheet.rows.get(at, {}).get(column, "") for at, column in islice(places, size)]


def read_side_parts(package: Package, part: str, sheet: Sheet, look_up: LookUp) -> None:
    """Read tables, and content outside of the cells."""
    for kind, target in package.relations(part).values():
        if kind not in _SIDE_RELATIONS or (root := package.root(target)) is None:
            continue
        if kind == "table":
            sheet.tables += _parse_ranges(root.get("ref", ""))
        elif kind == "drawing":
            paragraphs = (part for part in ooxml.shown_elements(root) if part.tag == f"{A}p")
            sheet.outside_texts += ["\n".join(texts)] if (texts := paragraph_texts(paragraphs)) else []
            sheet.outside_texts += [
                *package.drawn(root, package.relations(target), look_up),
                *ooxml.picture_texts(root),
            ]
        else:
            sheet.outside_texts += _read_comments(root)


def _read_comments(root: Element) -> Iterator[str]:
    for comment in root.iter():
        if comment.tag.rpartition("}")[2] in ("comment", "threadedComment"):
            runs = (run.text or "" for run in comment.iter() if run.tag.rpartition("}")[2] in ("t", "text"))
            words = " ".join("".join(runs).split())
            if words and not words.startswith(_THREADED_COMMENT):
                yield f"Comment on {comment.get('ref')}: {words}"
