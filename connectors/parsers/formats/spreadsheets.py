"""Workbooks (XLSX, XLSB, XLS, ODS) and delimited texts (CSV, TSV): values as people see them, in Markdown tables."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any, Literal

from connectors.parsers.detect import file_types, plain
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.document import Document
from connectors.parsers.formats import excel_xml, number_formats, open_sheets
from connectors.parsers.formats.grids import cell
from connectors.parsers.formats.sheet_tables import Sheet, markdown, of_records, reference
from connectors.parsers.messages import Task
from connectors.parsers.text import properties, xml
from connectors.parsers.text.cleanup import visible
from retrieval.errors import Skippable

_SEPARATOR = re.compile(r'\A\s*"?sep=(.?)"?\n')
"""What Excel is told by a line of its own."""
_DELIMITERS = "\t;|,"
_SAMPLE = 20_000
"""Characters that the delimiter is told by."""
_UNCALCULATED = (
    "Not read: results of formulas ({}), without which the file was saved. Open it in a spreadsheet program, "
    "save it and upload that."
)
_LONGEST = 2**31 - 1


def read(kind: Kind, path: Path, task: Task) -> Document:
    """The sheets as Markdown. Skippable for a file that cannot be read."""
    if kind in (file_types.CSV, file_types.TSV):
        return Document(visible(_delimited(plain.text_of(path.read_bytes(), task.media_type), kind)))
    try:
        if kind is file_types.XLS:
            return _written(_older(path))
        with zipfile.ZipFile(path) as archive:
            if kind is file_types.ODS:
                return _written(open_sheets.sheets(archive), xml.about(archive, "meta.xml"))
            about = xml.about(archive, "docProps/core.xml")
            if "xl/workbook.bin" in archive.namelist():
                return _written(_values(path), about)
            return _written(excel_xml.sheets(archive), about)
    except (*xml.BROKEN, LookupError, ArithmeticError) as error:
        raise properties.damaged(kind) from error


def _written(sheets: Sequence[Sheet], about: xml.About | None = None) -> Document:
    uncalculated = sum(sheet.uncalculated for sheet in sheets)
    warnings = (_UNCALCULATED.format(uncalculated),) if uncalculated else ()
    return Document(visible(markdown(sheets)), **(about or {}), warnings=warnings)


def _delimited(text: str, kind: Kind) -> str:
    separator = _SEPARATOR.match(text)
    text = text[separator.end() :] if separator else text
    delimiter = (separator and separator[1]) or ("\t" if kind is file_types.TSV else _delimiter(text))
    return of_records([[cell(field) for field in record] for record in _records(text, delimiter)])


def _records(text: str, delimiter: str) -> list[list[str]]:
    csv.field_size_limit(_LONGEST)
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:  # a quotation mark that none ends is a character like others
        is_open = "end of data" in str(error)
        quoting: Literal[0, 3] = csv.QUOTE_NONE if is_open else csv.QUOTE_MINIMAL
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting))


def _delimiter(text: str) -> str:
    """The delimiter that gives most records of the beginning the same number of fields."""
    sample = text if len(text) <= _SAMPLE else text[: text.rfind("\n", 0, _SAMPLE) + 1 or _SAMPLE]

    def score(delimiter: str) -> tuple[float, int]:
        widths = Counter(len(record) for record in _records(sample, delimiter) if record)
        width, count = max(widths.items(), key=lambda pair: (pair[1], pair[0]), default=(1, 0))
        return (count / widths.total(), width) if width > 1 else (0.0, 1)

    return max(_DELIMITERS, key=score)


def _older(path: Path) -> list[Sheet]:
    """The sheets of an XLS. Without formats where the file keeps to the rules too little to tell them."""
    import xlrd

    try:
        book = xlrd.open_workbook(str(path), formatting_info=True, logfile=io.StringIO())
    except xlrd.XLRDError as error:
        if "encrypted" in str(error):
            raise Skippable("The XLS is protected by a password. Remove the password and upload it again.") from error
        return _values(path)
    except Exception:  # noqa: BLE001 - of a file that is damaged the library raises whatever comes of it
        return _values(path)
    epoch = 1904 if book.datemode else 1900
    codes = [book.format_map[style.format_key].format_str for style in book.xf_list]
    formats = [number_formats.of_code(code, epoch) for code in codes]
    return [_older_sheet(sheet, formats, xlrd) for sheet in book.sheets()]


def _older_sheet(source: Any, formats: Sequence[number_formats.Format], xlrd: Any) -> Sheet:
    sheet = Sheet(source.name)
    numbers = frozenset((xlrd.XL_CELL_NUMBER, xlrd.XL_CELL_DATE))
    for at in range(source.nrows):
        row = {}
        for column, (kind, value) in enumerate(zip(source.row_types(at), source.row_values(at), strict=True)):
            if kind in numbers:
                text = formats[source.cell_xf_index(at, column)].number(value)
            elif kind == xlrd.XL_CELL_TEXT:
                text = cell(formats[source.cell_xf_index(at, column)].text(value))
            elif kind == xlrd.XL_CELL_BOOLEAN:
                text = "TRUE" if value else "FALSE"
            else:
                text = xlrd.error_text_from_code.get(value, "") if kind == xlrd.XL_CELL_ERROR else ""
            if text:
                row[column + 1] = text
        sheet.rows[at + 1] = row
    sheet.merged = [(top + 1, left + 1, bottom, right) for top, bottom, left, right in source.merged_cells]
    notes = sorted(source.cell_note_map.items())
    sheet.beside = [f"Comment on {reference(at + 1, column + 1)}: {cell(note.text)}" for (at, column), note in notes]
    return sheet


def _values(path: Path) -> list[Sheet]:
    """The sheets of a workbook whose number formats are not read: XLSB, and damaged XLS."""
    import python_calamine

    try:
        book = python_calamine.load_workbook(str(path))
        sources = [(name, book.get_sheet_by_name(name)) for name in book.sheet_names]
    except python_calamine.CalamineError as error:
        raise ValueError("The workbook is damaged.") from error
    sheets = []
    for name, source in sources:
        rows = enumerate(source.to_python(skip_empty_area=False), 1)
        cells_by_row = {
            at: {column: _value(value) for column, value in enumerate(row, 1) if value != ""} for at, row in rows
        }
        sheets.append(
            Sheet(
                name, cells_by_row, [(a + 1, b + 1, c + 1, d + 1) for (a, b), (c, d) in source.merged_cell_ranges or ()]
            )
        )
    return sheets


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return number_formats.general(value)
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    if isinstance(value, timedelta):
        return number_formats.of_code("[h]:mm:ss").number(value / timedelta(days=1))
    return cell(str(value))
