"""Read binary workbooks (XLSB, [MS-XLSB]): displayed cells, links, comments, text boxes and charts."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from connectors.parsers.formats import excel_xml, number_formats
from connectors.parsers.formats.blocks import table_cell
from connectors.parsers.formats.number_formats import Format
from connectors.parsers.formats.ooxml import Package
from connectors.parsers.formats.sheet_tables import CellRange, Sheet, cell_reference, link_cell
from connectors.parsers.inline_forms import PLAIN, Form, write_forms

_ROW, _MERGED_CELL, _LINK, _SHEET, _WORKBOOK_PROPERTIES, _TABLE = 0, 176, 494, 156, 153, 343
_SHARED_STRING, _FONT, _FORMAT, _STYLE, _CELL_STYLES, _CELL_STYLES_END = 19, 43, 44, 47, 617, 618
_COMMENT, _COMMENT_TEXT = 635, 637
_COMPACT_NUMBERS, _NUMBERS, _STRINGS, _RICH_STRING, _SHARED = {2}, {5, 9}, {6, 8}, 62, 7
_BOOLEANS, _ERRORS = {4, 10}, {3, 11}
_ERROR_TEXTS = {0: "#NULL!", 7: "#DIV/0!", 15: "#VALUE!", 23: "#REF!", 29: "#NAME?", 36: "#NUM!", 42: "#N/A"}
_STRUCK_FLAG, _RICH_FLAG, _NO_STRING = 0x8, 0x1, 0xFFFFFFFF
_SCRIPTS = {1: 1, 2: -1}


@dataclass
class _Styles:
    """Number formats and fonts by cell style, and fonts by number."""

    formats: list[Format] = field(default_factory=list)
    forms: list[Form] = field(default_factory=list)
    fonts: list[Form] = field(default_factory=list)


def read_sheets(archive: zipfile.ZipFile) -> list[Sheet]:
    """Return the sheets of a workbook, hidden sheets too. Raises KeyError, IndexError or struct.error if damaged."""
    package = Package(archive)
    workbook = dict(package.relations("").values()).get("officeDocument", "xl/workbook.bin")
    relations = package.relations(workbook)
    parts = dict(relations.values())
    names: dict[str, str] = {}
    epoch = 1900
    for kind, data in _read_records(archive.read(workbook)):
        if kind == _WORKBOOK_PROPERTIES:
            epoch = 1904 if data[0] & 1 else 1900
        elif kind == _SHEET:
            name, end = _read_string(data, 8)
            names[relations.get(name, ("", ""))[1]] = _read_string(data, end)[0]
    styles = _read_styles(archive.read(parts["styles"]) if parts.get("styles") in package.names else b"", epoch)
    records = _read_records(
        archive.read(parts["sharedStrings"]) if parts.get("sharedStrings") in package.names else b""
    )
    strings = [_rich_text(data, 0, styles.fonts) for kind, data in records if kind == _SHARED_STRING]
    read = {part: Sheet(name) for part, name in names.items() if part in package.names}
    for part, sheet in read.items():
        _read_cells(archive.read(part), sheet, strings, styles, package.relations(part))
    look_up = excel_xml.look_up_in(read.values())
    for part, sheet in read.items():
        for relation, target in package.relations(part).values():
            if relation in ("table", "comments") and target in package.names:
                _read_side_part(archive.read(target), sheet, styles.fonts)
        excel_xml.read_side_parts(package, part, sheet, look_up)
    return list(read.values())


def _read_records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of each record."""
    at = 0
    while at < len(data):
        kind, at = _read_varying(data, at, 2)
        size, at = _read_varying(data, at, 4)
        yield kind, data[at : at + size]
        at += size


def _read_varying(data: bytes, at: int, limit: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and the position after it."""
    number = 0
    for offset in range(limit):
        number |= (data[at + offset] & 0x7F) << 7 * offset
        if not data[at + offset] & 0x80:
            break
    return number, at + offset + 1


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    """Return a string, "" for none, and the position after it."""
    (length,) = struct.unpack_from("<I", data, at)
    end = at + 4 + 2 * (0 if length == _NO_STRING else length)
    return data[at + 4 : end].decode("utf-16-le", "replace"), end


def _rich_text(data: bytes, at: int, fonts: Sequence[Form]) -> str:
    """Return a string with the forms of its runs."""
    text, end = _read_string(data, at + 1)
    if not data[at] & _RICH_FLAG:
        return table_cell(text)
    (count,) = struct.unpack_from("<I", data, end)
    runs = [struct.unpack_from("<HH", data, end + 4 + 4 * number) for number in range(count)]
    starts = [start for start, _ in runs]
    pieces = [
        (fonts[font] if font < len(fonts) else PLAIN).mark(text[start:stop])
        for (start, font), stop in zip(runs, [*starts[1:], len(text)], strict=True)
    ]
    return table_cell(write_forms("".join([text[: starts[0] if starts else len(text)], *pieces])))


def _read_styles(data: bytes, epoch: int) -> _Styles:
    styles, codes = _Styles(), dict(number_formats.BUILT_IN)
    is_cell_style = False
    for kind, record in _read_records(data):
        if kind == _FONT:
            flags, _, script = struct.unpack_from("<3H", record, 2)
            styles.fonts.append(Form(_SCRIPTS.get(script, 0), bool(flags & _STRUCK_FLAG)))
        elif kind == _FORMAT:
            codes[struct.unpack_from("<H", record)[0]] = _read_string(record, 2)[0]
        elif kind in (_CELL_STYLES, _CELL_STYLES_END):
            is_cell_style = kind == _CELL_STYLES
        elif kind == _STYLE and is_cell_style:
            code, font = struct.unpack_from("<HH", record, 2)
            styles.formats.append(number_formats.of_code(codes.get(code, "General"), epoch))
            styles.forms.append(Form(struck=font < len(styles.fonts) and styles.fonts[font].struck))
    if not styles.formats:
        styles.formats, styles.forms = [number_formats.of_code("General", epoch)], [PLAIN]
    return styles


def _read_cells(
    data: bytes, sheet: Sheet, strings: Sequence[str], styles: _Styles, relations: Mapping[str, tuple[str, str]]
) -> None:
    row = 0
    for kind, record in _read_records(data):
        if kind == _ROW:
            row = struct.unpack_from("<I", record)[0] + 1
        elif kind <= max(_ERRORS) or kind == _RICH_STRING:
            column, style = struct.unpack_from("<II", record)
            style = style & 0xFFFFFF if style & 0xFFFFFF < len(styles.formats) else 0
            if text := _cell_text(kind, record, strings, styles, style):
                form = styles.forms[style]
                sheet.rows.setdefault(row, {})[column + 1] = write_forms(form.mark(text)) if form.struck else text
        elif kind == _MERGED_CELL:
            sheet.merged.append(_read_range(record))
        elif kind == _LINK:
            top, start_column, _, _ = _read_range(record)
            address = relations.get(_read_string(record, 16)[0], ("", ""))[1]
            if words := sheet.rows.get(top, {}).get(start_column):
                sheet.rows[top][start_column] = link_cell(words, address)


def _cell_text(kind: int, record: bytes, strings: Sequence[str], styles: _Styles, style: int) -> str:
    """Return the displayed text of a cell; for formulas, the saved value."""
    number_format = styles.formats[style]
    if kind in _COMPACT_NUMBERS or kind in _NUMBERS:
        return number_format.number(
            _expand_number(record) if kind in _COMPACT_NUMBERS else struct.unpack_from("<d", record, 8)[0]
        )
    if kind in _STRINGS:
        return number_format.text(table_cell(_read_string(record, 8)[0]))
    if kind == _SHARED:
        return number_format.text(strings[struct.unpack_from("<I", record, 8)[0]])
    if kind == _RICH_STRING:
        return number_format.text(_rich_text(record, 8, styles.fonts))
    if kind in _BOOLEANS:
        return "TRUE" if record[8] else "FALSE"
    return _ERROR_TEXTS.get(record[8], "") if kind in _ERRORS else ""


def _expand_number(record: bytes) -> float:
    """Return a number of 30 bits: an integer or the start of a float, perhaps in hundredths."""
    (whole,) = struct.unpack_from("<i", record, 8)
    (decimal,) = struct.unpack("<d", struct.pack("<Ii", 0, whole & ~3))
    number: float = whole >> 2 if whole & 2 else decimal
    return number / 100 if whole & 1 else number


def _read_range(record: bytes) -> CellRange:
    top, bottom, start_column, right = struct.unpack_from("<4I", record)
    return top + 1, start_column + 1, bottom + 1, right + 1


def _read_side_part(data: bytes, sheet: Sheet, fonts: Sequence[Form]) -> None:
    """Read a table's range, or comments."""
    cell_name = ""
    for kind, record in _read_records(data):
        if kind == _TABLE:
            sheet.tables.append(_read_range(record))
        elif kind == _COMMENT:
            cell_name = cell_reference(*_read_range(record[4:])[:2])
        elif kind == _COMMENT_TEXT and (words := _rich_text(record, 0, fonts)):
            sheet.outside_texts.append(f"Comment on {cell_name}: {words}")
