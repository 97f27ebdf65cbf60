"""Read workbooks of Excel 2003 XML (SpreadsheetML): cells as displayed, comments and links."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from connectors.parsers import inline_forms
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.formats import blocks, number_formats
from connectors.parsers.formats.blocks import table_cell
from connectors.parsers.formats.number_formats import Format
from connectors.parsers.formats.sheet_tables import Sheet, SheetRow, cell_reference, link_cell, sheets_to_markdown
from connectors.parsers.inline_forms import Form, write_forms

_SHEET_NS: Final = "{urn:schemas-microsoft-com:office:spreadsheet}"
_EXCEL_NS: Final = "{urn:schemas-microsoft-com:office:excel}"
_PROPERTIES_NS: Final = "{urn:schemas-microsoft-com:office:office}"
WORKBOOK_TAG: Final = f"{_SHEET_NS}Workbook"
_MAX_ROWS, _MAX_COLUMNS = 1_048_576, 16_384
# Names of number formats; dates with locale-dependent order are ISO 8601.
_NAMED_CODES: Final = {
    "General Number": "General", "General Date": "yyyy-mm-dd h:mm", "Long Date": "d mmmm yyyy",
    "Medium Date": "d-mmm-yy", "Short Date": "yyyy-mm-dd", "Long Time": "h:mm:ss", "Medium Time": "h:mm AM/PM",
    "Short Time": "h:mm", "Currency": "$#,##0.00;-$#,##0.00", "Euro Currency": "€#,##0.00;-€#,##0.00", "Fixed": "0.00",
    "Standard": "#,##0.00", "Percent": "0.00%", "Scientific": "0.00E+00", "Yes/No": '"Yes";"Yes";"No"',
    "True/False": '"True";"True";"False"', "On/Off": '"On";"On";"Off"',
}  # fmt: skip
_GENERAL_DATE: Final = "yyyy-mm-dd"
_GENERAL_MOMENT: Final = "yyyy-mm-dd h:mm"
# Serial numbers of 1900 count a 29 February.
_LEAP_SERIAL: Final = 61
_TEXT_FORMS: Final = {"sup": inline_forms.RAISED, "sub": inline_forms.LOWERED, "s": inline_forms.STRUCK}


@dataclass(frozen=True, slots=True)
class _Style:
    code: str = ""
    form: Form = inline_forms.PLAIN


def read_document(root: Any) -> Document:
    """Return the sheets of a workbook, hidden sheets too."""
    sheets = list(_read_sheets(root))
    lost = [f"{sheet.name} ({sheet.rows_beyond:,})" for sheet in sheets if sheet.rows_beyond]
    about = {node.tag.removeprefix(_PROPERTIES_NS): node.text or "" for node in root.iter(f"{_PROPERTIES_NS}*")}
    return Document(
        strip_invisible(sheets_to_markdown(sheets)),
        title=about.get("Title", ""),
        author=about.get("Author", ""),
        created_at=about.get("Created", ""),
        modified_at=about.get("LastSaved", ""),
        warnings=(f"Not read: rows beyond {_MAX_ROWS:,} of the sheets {', '.join(lost)}.",) if lost else (),
    )


def _read_sheets(root: Any) -> Iterator[Sheet]:
    styles: dict[str, _Style] = {}
    for node in root.iterfind(f"{_SHEET_NS}Styles/{_SHEET_NS}Style"):
        styles[_attribute(node, "ID")] = _read_style(node, styles.get(_attribute(node, "Parent", "Default"), _Style()))
    epoch = 1900 if root.find(f"{_EXCEL_NS}ExcelWorkbook/{_EXCEL_NS}Date1904") is None else 1904
    for node in root.iterfind(f"{_SHEET_NS}Worksheet"):
        sheet = Sheet(_attribute(node, "Name"))
        for table in node.iterfind(f"{_SHEET_NS}Table"):
            _TableReader(sheet, styles, epoch).read_table(table)
        yield sheet


def _read_style(node: Any, parent: _Style) -> _Style:
    number_format, font = node.find(f"{_SHEET_NS}NumberFormat"), node.find(f"{_SHEET_NS}Font")
    code = parent.code if number_format is None else _attribute(number_format, "Format")
    if font is None:
        return _Style(code, parent.form)
    script = {"Superscript": 1, "Subscript": -1}.get(_attribute(font, "VerticalAlign"), 0)
    return _Style(code, Form(script, _attribute(font, "StrikeThrough") == "1"))


class _TableReader:
    """Reads the rows of a worksheet."""

    def __init__(self, sheet: Sheet, styles: Mapping[str, _Style], epoch: int) -> None:
        self._sheet, self._styles, self._epoch = sheet, styles, epoch
        self._column_styles: dict[int, str] = {}
        # By column: last row that a cell from above covers.
        self._covered: dict[int, int] = {}

    def read_table(self, table: Any) -> None:
        number, column = 0, 0
        for node in table:
            if node.tag == f"{_SHEET_NS}Column":
                column = self._read_column(node, column + 1)
            elif node.tag == f"{_SHEET_NS}Row":
                number = blocks.whole_number(_attribute(node, "Index"), number + 1)
                if 0 < number <= _MAX_ROWS:
                    self._sheet.rows[number] = self._read_row(node, number)
                else:
                    self._sheet.rows_beyond += 1
                number += blocks.whole_number(_attribute(node, "Span"))

    def _read_column(self, node: Any, usual: int) -> int:
        """Read the style of columns; return the last one."""
        first = blocks.whole_number(_attribute(node, "Index"), usual)
        last = min(first + blocks.whole_number(_attribute(node, "Span")), _MAX_COLUMNS)
        if name := _attribute(node, "StyleID"):
            self._column_styles |= dict.fromkeys(range(first, last + 1), name)
        return last

    def _read_row(self, node: Any, number: int) -> SheetRow:
        row: SheetRow = {}
        column, row_style = 0, _attribute(node, "StyleID")
        for cell in node.iterchildren(f"{_SHEET_NS}Cell"):
            column = blocks.whole_number(_attribute(cell, "Index"), column + 1)
            while self._covered.get(column, 0) >= number:
                column += 1
            if not 0 < column <= _MAX_COLUMNS:
                break
            name = _attribute(cell, "StyleID") or row_style or self._column_styles.get(column, "Default")
            data = cell.find(f"{_SHEET_NS}Data")
            shown = "" if data is None else _show_data(data, self._styles.get(name, _Style()), self._epoch)
            if text := table_cell(shown):
                row[column] = link_cell(text, _attribute(cell, "HRef"))
            self._add_comments(cell, cell_reference(number, column))
            column = self._merge_cells(cell, number, column)
        return row

    def _merge_cells(self, cell: Any, number: int, column: int) -> int:
        """Record the cells that a merged cell covers; return the last column."""
        width, height = (blocks.whole_number(_attribute(cell, name)) for name in ("MergeAcross", "MergeDown"))
        last = min(column + width, _MAX_COLUMNS)
        if width or height:
            self._sheet.merged.append((number, column, min(number + height, _MAX_ROWS), last))
        if height:
            self._covered |= dict.fromkeys(range(column, last + 1), number + height)
        return last

    def _add_comments(self, cell: Any, reference: str) -> None:
        for comment in cell.iterchildren(f"{_SHEET_NS}Comment"):
            if words := " ".join("".join(comment.itertext()).split()):
                self._sheet.outside_texts.append(f"Comment on {reference}: {words}")


def _show_data(data: Any, style: _Style, epoch: int) -> str:
    """Return the displayed text of a cell."""
    kind, value = _attribute(data, "Type"), "".join(data.itertext()).strip()
    number_format = number_formats.of_code(_NAMED_CODES.get(style.code, style.code), epoch)
    text = value
    if kind == "Boolean":
        text = "TRUE" if value == "1" else "FALSE"
    elif kind == "Number":
        with contextlib.suppress(ValueError):
            text = number_format.number(float(value))
    elif kind == "DateTime":
        text = _show_moment(value, number_format, epoch)
    elif kind != "Error":
        text = number_format.text("".join(_form_pieces(data)))
    return write_forms(style.form.mark(text))


def _show_moment(value: str, number_format: Format, epoch: int) -> str:
    try:
        serial = number_formats.serial_of_date(datetime.fromisoformat(value))
    except ValueError:
        return value
    if epoch == 1904:
        serial -= number_formats.serial_of_date(datetime(1904, 1, 1))  # noqa: DTZ001 - no place, no zone
    elif serial < _LEAP_SERIAL:
        serial -= 1
    if number_format.number is number_formats.format_general:
        number_format = number_formats.of_code(_GENERAL_MOMENT if serial % 1 else _GENERAL_DATE, epoch)
    return number_format.number(serial)


def _form_pieces(node: Any) -> Iterator[str]:
    """Yield the text of a cell with the forms of its HTML elements."""
    yield node.text or ""
    for part in node:
        name = part.tag.rpartition("}")[2].lower() if isinstance(part.tag, str) else ""
        form = _TEXT_FORMS.get(name, inline_forms.PLAIN)
        yield "\n" if name == "br" else form.mark("".join(_form_pieces(part)))
        yield part.tail or ""


def _attribute(node: Any, name: str, usual: str = "") -> Any:
    return node.get(f"{_SHEET_NS}{name}") or node.get(name) or usual
