"""OpenDocument spreadsheets (ODS): the text of each cell as it was shown, comments, text boxes and charts."""

from __future__ import annotations

import html
import io
import re
import zipfile
from collections.abc import Iterator
from typing import Any, Final

from connectors.parsers.formats.grids import cell, table
from connectors.parsers.formats.sheet_tables import Row, Sheet, reference
from connectors.parsers.text import xml

_NAMES: Final = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _DRAW, _TABLE = f"{{{_NAMES}text:1.0}}", f"{{{_NAMES}drawing:1.0}}", f"{{{_NAMES}table:1.0}}"
_OFFICE, _CHART = f"{{{_NAMES}office:1.0}}", f"{{{_NAMES}chart:1.0}}"
_LINK: Final = "{http://www.w3.org/1999/xlink}href"
_VALUES: Final = ("string-value", "date-value", "time-value", "boolean-value", "value")
_NAME: Final = re.compile(r'table:name="([^"]*)"')
_CELLS: Final = re.compile(r"<table:table-cell([^>]*)>(?:<text:p>([^<]*)</text:p></table:table-cell>)?")
_REPEATED: Final = re.compile(r'-repeated="(\d{1,7})"')
_UNUSUAL: Final = ("<!", "<draw:", "<table:shapes", "<office:annotation", "-spanned=")
_CELL, _TIMES = f"{_TABLE}table-cell", f"{_TABLE}number-columns-repeated"
_WIDE, _HIGH = f"{_TABLE}number-columns-spanned", f"{_TABLE}number-rows-spanned"
_ROWS, _COLUMNS = 1_048_576, 16_384
"""The most that a spreadsheet program has."""


def sheets(archive: zipfile.ZipFile) -> list[Sheet]:
    """The sheets of a workbook, hidden ones too. Raises one of `xml.BROKEN` if it is damaged."""
    content = archive.read("content.xml")
    return _by_pattern(content.decode("utf-8", "replace")) or _by_parser(archive, content)


def _by_pattern(content: str) -> list[Sheet]:
    """Sheets of nothing but single cells, in half the time of a parser; [] if there is anything else in one."""
    sheets = []
    if any(sign in content for sign in _UNUSUAL):
        return []
    for part in content.split("<table:table ")[1:]:
        head, _, body = part.partition(">")
        if not (name := _NAME.search(head)):
            return []
        sheet, number = Sheet(html.unescape(name[1])), 1
        for line in body.split("<table:table-row")[1:]:
            form, _, text = line.partition(">")
            row = None if form.endswith("/") else _cells(text.partition("</table:table-row>")[0])
            if row is None and not form.endswith("/"):
                return []
            match = _REPEATED.search(form)
            number = _put(sheet, row or {}, number, int(match[1]) if match else 1)
        sheets.append(sheet)
    return sheets


def _cells(text: str) -> Row | None:
    """The cells of a row; None if there is more to one than a line of text."""
    row: Row = {}
    column, cells = 1, _CELLS.findall(text)
    if len(cells) != text.count("<table:") or sum(bool(words) for _, words in cells) != text.count("<text:"):
        return None
    for form, words in cells:
        times = int(match[1]) if "repeated" in form and (match := _REPEATED.search(form)) else 1
        if words:
            shown = cell(html.unescape(words) if "&" in words else words)
            for at in range(column, min(column + times, _COLUMNS + 1)):
                row[at] = shown
        elif "-value" in form:
            return None
        column += times
    return row


def _by_parser(archive: zipfile.ZipFile, content: bytes) -> list[Sheet]:
    sheets: list[Sheet] = []
    number = 1
    tags = f"{_TABLE}table", f"{_TABLE}table-row", f"{_TABLE}shapes"
    for event, element in xml.elements(io.BytesIO(content), *tags, starts=True):
        if element.tag == f"{_TABLE}table":
            if event == "start" and element.getparent().tag == f"{_OFFICE}spreadsheet":
                sheets.append(Sheet(element.get(f"{_TABLE}name", "")))
                number = 1
        elif event == "end" and sheets:
            sheets[-1].beside += _drawn(archive, element)
            if element.tag == f"{_TABLE}table-row":
                number = _read_row(element, sheets[-1], number)
            xml.forget(element)
    return sheets


def _put(sheet: Sheet, row: Row, number: int, times: int) -> int:
    """Add a row as many times as it is repeated; returns the number of the next one."""
    for at in range(number, min(number + times, _ROWS + 1)) if row else ():
        sheet.rows[at] = dict(row) if times > 1 else row
    return number + times


def _read_row(element: Any, sheet: Sheet, number: int) -> int:
    """Read the cells of a row; returns the number of the next one."""
    row: Row = {}
    column = 1
    for node in element:
        times = int(node.get(_TIMES, 1))
        if node.tag == _CELL and (text := _text(node)):
            row[column] = text
            for repeated in range(column + 1, min(column + times, _COLUMNS + 1)):
                row[repeated] = text
            if (right := node.get(_WIDE)) or node.get(_HIGH):
                last = number + int(node.get(_HIGH, 1)) - 1, column + int(right or 1) - 1
                sheet.merged.append((number, column, *last))
        for comment in node.iterchildren(f"{_OFFICE}annotation") if len(node) > 1 else ():
            words = cell(" ".join(map(_words, comment.iter(f"{_TEXT}p"))))
            sheet.beside += [f"Comment on {reference(number, column)}: {words}"] if words else []
        column += times
    return _put(sheet, row, number, int(element.get(f"{_TABLE}number-rows-repeated", 1)))


def _text(node: Any) -> str:
    if not len(node):
        return (
            cell(next((value for name in _VALUES if (value := node.get(f"{_OFFICE}{name}"))), ""))
            if node.attrib
            else ""
        )
    if len(node) == 1 and not len(node[0]) and node[0].tag == f"{_TEXT}p":
        return cell(node[0].text or "")
    return cell(" ".join(map(_words, node.iterchildren(f"{_TEXT}p"))))


def _words(node: Any) -> str:
    words = node.text or ""
    for part in node:
        is_space = part.tag in (f"{_TEXT}s", f"{_TEXT}tab", f"{_TEXT}line-break")
        words += (" " if is_space else _words(part)) + (part.tail or "")
    return words


def _drawn(archive: zipfile.ZipFile, element: Any) -> Iterator[str]:
    """The words of text boxes and charts that lie on a sheet or hang on a cell."""
    for shape in element.iterchildren(f"{_DRAW}*") if element.tag == f"{_TABLE}shapes" else element.iter(f"{_DRAW}*"):
        if shape.getparent().tag in (f"{_TABLE}shapes", f"{_TABLE}table-cell"):
            yield from filter(
                None, ["\n".join(filter(None, (_words(part).strip() for part in shape.iter(f"{_TEXT}p"))))]
            )
            for drawn in shape.iter(f"{_DRAW}object"):
                yield from _chart(archive, drawn.get(_LINK, ""))


def _chart(archive: zipfile.ZipFile, link: str) -> Iterator[str]:
    name = f"{link.removeprefix('./').rstrip('/')}/content.xml"
    try:
        root = xml.root(archive, name)
    except xml.BROKEN:
        return
    if next(root.iter(f"{_CHART}chart"), None) is None:
        return
    title = " ".join(" ".join(_words(part) for node in root.iter(f"{_CHART}title") for part in node).split())
    rows = [[_text_of(node) for node in row] for row in root.iter(f"{_TABLE}table-row")]
    yield f"Chart: {title}".removesuffix(": ")
    if len(rows) > 1:
        rows[0][0] = rows[0][0] or "Category"
        yield table(rows[0], rows[1:])


def _text_of(node: Any) -> str:
    return cell(" ".join(_words(part) for part in node.iter(f"{_TEXT}p")))
