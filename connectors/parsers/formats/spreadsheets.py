"""Convert spreadsheets to Markdown tables: Excel, OpenDocument, CSV."""

from __future__ import annotations

import csv
import html
import io
import re
import struct
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, time, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from connectors.parsers import detect, document, inline_forms, xml
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.formats import excel_binary, excel_charts, excel_xml, number_formats
from connectors.parsers.formats.blocks import render_table, table_cell, whole_number
from connectors.parsers.formats.opendocument_styles import style_forms
from connectors.parsers.formats.sheet_tables import (
    Sheet,
    SheetRow,
    cell_reference,
    link_cell,
    records_to_markdown,
    sheets_to_markdown,
)
from connectors.parsers.inline_forms import Form, write_forms
from connectors.parsers.messages import Task

_ODF_PREFIX: Final = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT_NS, _DRAW_NS, _TABLE_NS = (
    f"{{{_ODF_PREFIX}text:1.0}}",
    f"{{{_ODF_PREFIX}drawing:1.0}}",
    f"{{{_ODF_PREFIX}table:1.0}}",
)
_OFFICE_NS, _CHART_NS = f"{{{_ODF_PREFIX}office:1.0}}", f"{{{_ODF_PREFIX}chart:1.0}}"
_SVG_NS: Final = f"{{{_ODF_PREFIX}svg-compatible:1.0}}"
_LINK_ATTRIBUTE: Final = "{http://www.w3.org/1999/xlink}href"
_VALUE_ATTRIBUTES: Final = ("string-value", "date-value", "time-value", "boolean-value", "value")
_NAME_PATTERN: Final = re.compile(r'table:name="([^"]*)"')
_CELL_PATTERN: Final = re.compile(r"<table:table-cell([^>]*)>(?:<text:p>([^<]*)</text:p></table:table-cell>)?")
_REPEATED_PATTERN: Final = re.compile(r'-repeated="(\d{1,7})"')
_UNUSUAL_MARKS: Final = (
    "<!",
    "<draw:",
    "<table:shapes",
    "<office:annotation",
    "-spanned=",
    'line-through-style="solid"',
)
_STYLE_TAG: Final = f"{{{_ODF_PREFIX}style:1.0}}style"
_CELL_TAG, _COLUMNS_REPEATED = f"{_TABLE_NS}table-cell", f"{_TABLE_NS}number-columns-repeated"
_COLUMNS_SPANNED, _ROWS_SPANNED = f"{_TABLE_NS}number-columns-spanned", f"{_TABLE_NS}number-rows-spanned"
# Sheet limits of spreadsheet programs.
_MAX_ROWS, _MAX_COLUMNS = 1_048_576, 16_384


def open_document_sheets(archive: zipfile.ZipFile) -> list[Sheet]:
    """Return the sheets of a workbook, hidden sheets too. Raises one of `xml.PARSE_ERRORS` if damaged."""
    content = archive.read("content.xml")
    return _sheets_by_pattern(content.decode("utf-8", "replace")) or _sheets_by_parser(archive, content)


def _sheets_by_pattern(content: str) -> list[Sheet]:
    """Return sheets of only plain cells; [] for any other content."""
    # Takes half the time of an XML parser.
    sheets = []
    if any(sign in content for sign in _UNUSUAL_MARKS):
        return []
    for part in content.split("<table:table ")[1:]:
        head, _, body = part.partition(">")
        if not (name := _NAME_PATTERN.search(head)):
            return []
        sheet, number = Sheet(html.unescape(name[1])), 1
        for line in body.split("<table:table-row")[1:]:
            form, _, text = line.partition(">")
            row = None if form.endswith("/") else _match_cells(text.partition("</table:table-row>")[0])
            if row is None and not form.endswith("/"):
                return []
            match = _REPEATED_PATTERN.search(form)
            number = _put_row(sheet, row or {}, number, int(match[1]) if match else 1)
        sheets.append(sheet)
    return sheets


def _match_cells(text: str) -> SheetRow | None:
    """Return the cells of a row; None for content beyond single lines of text."""
    row: SheetRow = {}
    column, cells = 1, _CELL_PATTERN.findall(text)
    if len(cells) != text.count("<table:") or sum(bool(words) for _, words in cells) != text.count("<text:"):
        return None
    for form, words in cells:
        times = int(match[1]) if "repeated" in form and (match := _REPEATED_PATTERN.search(form)) else 1
        if words:
            content = table_cell(html.unescape(words) if "&" in words else words)
            for at in range(column, min(column + times, _MAX_COLUMNS + 1)):
                row[at] = content
        elif "-value" in form:
            return None
        column += times
    return row


def _sheets_by_parser(archive: zipfile.ZipFile, content: bytes) -> list[Sheet]:
    sheets: list[Sheet] = []
    number = 1
    forms: dict[str, Form] = {}
    tags = f"{_TABLE_NS}table", f"{_TABLE_NS}table-row", f"{_TABLE_NS}shapes", _STYLE_TAG
    for event, element in xml.iterate_elements(io.BytesIO(content), *tags, starts=True):
        if element.tag == _STYLE_TAG:
            forms |= style_forms([element]) if event == "end" else {}
            continue
        if element.tag == f"{_TABLE_NS}table":
            if event == "start" and element.getparent().tag == f"{_OFFICE_NS}spreadsheet":
                sheets.append(Sheet(element.get(f"{_TABLE_NS}name", "")))
                number = 1
        elif event == "end" and sheets:
            sheets[-1].outside_texts += _drawn_texts(archive, element)
            if element.tag == f"{_TABLE_NS}table-row":
                number = _read_row(element, sheets[-1], number, forms)
            xml.free_element(element)
    return sheets


def _put_row(sheet: Sheet, row: SheetRow, number: int, times: int) -> int:
    """Add a row with its repetitions; return the next row number."""
    for at in range(number, min(number + times, _MAX_ROWS + 1)) if row else ():
        sheet.rows[at] = dict(row) if times > 1 else row
    return number + times


def _read_row(element: Any, sheet: Sheet, number: int, forms: Mapping[str, Form]) -> int:
    """Read the cells of a row; return the next row number."""
    row: SheetRow = {}
    column = 1
    for node in element:
        times = _count_attribute(node, _COLUMNS_REPEATED)
        if node.tag == _CELL_TAG and (text := _cell_text(node, forms)):
            row[column] = text
            for repeated in range(column + 1, min(column + times, _MAX_COLUMNS + 1)):
                row[repeated] = text
            if node.get(_COLUMNS_SPANNED) or node.get(_ROWS_SPANNED):
                last = (
                    number + _count_attribute(node, _ROWS_SPANNED) - 1,
                    column + _count_attribute(node, _COLUMNS_SPANNED) - 1,
                )
                sheet.merged.append((number, column, *last))
        for comment in node.iterchildren(f"{_OFFICE_NS}annotation") if len(node) > 1 else ():
            words = table_cell(" ".join(map(_collect_words, comment.iter(f"{_TEXT_NS}p"))))
            sheet.outside_texts += [f"Comment on {cell_reference(number, column)}: {words}"] if words else []
        column += times
    return _put_row(sheet, row, number, _count_attribute(element, f"{_TABLE_NS}number-rows-repeated"))


def _count_attribute(node: Any, name: str) -> int:
    """Return a number of repetitions or spanned cells; 1 for none, and of what no program writes but all open."""
    text = node.get(name)
    return 1 if text is None else max(whole_number(text.partition(".")[0], 1), 1)


def _cell_text(node: Any, forms: Mapping[str, Form]) -> str:
    form = forms.get(node.get(f"{_TABLE_NS}style-name", ""))
    text = _plain_text(node, forms)
    return write_forms(form.mark(text)) if form else text


def _plain_text(node: Any, forms: Mapping[str, Form]) -> str:
    if not len(node):
        return (
            table_cell(next((value for name in _VALUE_ATTRIBUTES if (value := node.get(f"{_OFFICE_NS}{name}"))), ""))
            if node.attrib
            else ""
        )
    if len(node) == 1 and not len(node[0]) and node[0].tag == f"{_TEXT_NS}p":
        return table_cell(node[0].text or "")
    return table_cell(write_forms(" ".join(_collect_words(part, forms) for part in node.iterchildren(f"{_TEXT_NS}p"))))


def _collect_words(node: Any, forms: Mapping[str, Form] = MappingProxyType({})) -> str:
    words = node.text or ""
    for part in node:
        is_space = part.tag in (f"{_TEXT_NS}s", f"{_TEXT_NS}tab", f"{_TEXT_NS}line-break")
        form = forms.get(part.get(f"{_TEXT_NS}style-name", ""), inline_forms.PLAIN)
        text = " " if is_space else form.mark(_collect_words(part, forms))
        words += link_cell(text, part.get(_LINK_ATTRIBUTE, "")) + (part.tail or "")
    return words


def _drawn_texts(archive: zipfile.ZipFile, element: Any) -> Iterator[str]:
    """Return words of text boxes and charts on a sheet or cell."""
    for shape in (
        element.iterchildren(f"{_DRAW_NS}*") if element.tag == f"{_TABLE_NS}shapes" else element.iter(f"{_DRAW_NS}*")
    ):
        if shape.getparent().tag in (f"{_TABLE_NS}shapes", f"{_TABLE_NS}table-cell"):
            yield from filter(
                None, ["\n".join(filter(None, (_collect_words(part).strip() for part in shape.iter(f"{_TEXT_NS}p"))))]
            )
            described = (_collect_words(part) for part in shape.iter(f"{_SVG_NS}title", f"{_SVG_NS}desc"))
            yield from filter(None, map(inline_forms.picture, described))
            for drawn in shape.iter(f"{_DRAW_NS}object"):
                yield from _chart_markdown(archive, drawn.get(_LINK_ATTRIBUTE, ""))


def _chart_markdown(archive: zipfile.ZipFile, link: str) -> Iterator[str]:
    name = f"{link.removeprefix('./').rstrip('/')}/content.xml"
    try:
        root = xml.read_root(archive, name)
    except xml.PARSE_ERRORS:
        return
    if next(root.iter(f"{_CHART_NS}chart"), None) is None:
        return
    title = " ".join(" ".join(_collect_words(part) for node in root.iter(f"{_CHART_NS}title") for part in node).split())
    rows = [[_value_text(node) for node in row] for row in root.iter(f"{_TABLE_NS}table-row")]
    yield f"Chart: {title}".removesuffix(": ")
    if len(rows) > 1:
        rows[0][0] = rows[0][0] or "Category"
        yield render_table(rows[0], rows[1:])


def _value_text(node: Any) -> str:
    return table_cell(" ".join(_collect_words(part) for part in node.iter(f"{_TEXT_NS}p")))


# Excel's delimiter declaration in the first line.
_SEPARATOR_LINE = re.compile(r'\A\s*"?sep=(.?)"?\n')
_DELIMITER_CHARACTERS = "\t;|,"
# Characters inspected for the delimiter.
_SAMPLE_LENGTH = 20_000
_UNCALCULATED_NOTICE = (
    "Not read: results of formulas ({}), without which the file was saved. Open it in a spreadsheet program, "
    "save it and upload that."
)
_MAX_FIELD_LENGTH = 2**31 - 1


def read_document(kind: Kind, path: Path, task: Task) -> Document:
    """Return the sheets as Markdown. Skippable if unreadable."""
    if kind in (detect.CSV, detect.TSV):
        return Document(strip_invisible(_read_delimited(detect.text_of(path.read_bytes(), task.media_type), kind)))
    try:
        if kind is detect.XLS:
            return _sheets_document(_read_xls(path))
        with xml.open_package(path) as archive:
            if kind is detect.ODS:
                return _sheets_document(open_document_sheets(archive), xml.read_properties(archive, "meta.xml"))
            about = xml.read_properties(archive, "docProps/core.xml")
            if "xl/workbook.bin" in archive.namelist():
                return _sheets_document(excel_binary.read_sheets(archive), about)
            return _sheets_document(excel_xml.read_sheets(archive), about)
    except (*xml.PARSE_ERRORS, LookupError, ArithmeticError, struct.error) as error:
        raise document.damaged_file(kind) from error


def _sheets_document(sheets: Sequence[Sheet], about: xml.PackageProperties | None = None) -> Document:
    uncalculated = sum(sheet.uncalculated for sheet in sheets)
    warnings = (_UNCALCULATED_NOTICE.format(uncalculated),) if uncalculated else ()
    return Document(strip_invisible(sheets_to_markdown(sheets)), **(about or {}), warnings=warnings)


def _read_delimited(text: str, kind: Kind) -> str:
    separator = _SEPARATOR_LINE.match(text)
    text = text[separator.end() :] if separator else text
    delimiter = (separator and separator[1]) or ("\t" if kind is detect.TSV else _guess_delimiter(text))
    return records_to_markdown([[table_cell(field) for field in record] for record in _split_records(text, delimiter)])


def _split_records(text: str, delimiter: str) -> list[list[str]]:
    csv.field_size_limit(_MAX_FIELD_LENGTH)
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:  # an unclosed quotation mark is a plain character
        is_open = "end of data" in str(error)
        quoting: Literal[0, 3] = csv.QUOTE_NONE if is_open else csv.QUOTE_MINIMAL
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting))


def _guess_delimiter(text: str) -> str:
    """Return the delimiter with the most initial records of equal field count."""
    sample = text if len(text) <= _SAMPLE_LENGTH else text[: text.rfind("\n", 0, _SAMPLE_LENGTH) + 1 or _SAMPLE_LENGTH]

    def score(delimiter: str) -> tuple[float, int]:
        widths = Counter(len(record) for record in _split_records(sample, delimiter) if record)
        width, count = max(widths.items(), key=lambda pair: (pair[1], pair[0]), default=(1, 0))
        return (count / widths.total(), width) if width > 1 else (0.0, 1)

    return max(_DELIMITER_CHARACTERS, key=score)


def _read_xls(path: Path) -> list[Sheet]:
    """Return the sheets of an XLS, without formats for files too irregular to read them."""
    import xlrd

    try:
        book = xlrd.open_workbook(str(path), formatting_info=True, logfile=io.StringIO())
    except xlrd.XLRDError as error:
        if "encrypted" in str(error):
            raise detect.locked_file("The XLS") from error
        return _read_values(path)
    except Exception:  # noqa: BLE001 - for a damaged file the library raises any exception
        return _read_values(path)
    epoch = 1904 if book.datemode else 1900
    codes = [book.format_map[style.format_key].format_str or "General" for style in book.xf_list]
    formats = [number_formats.of_code(code, epoch) for code in codes]
    fonts = [Form({1: 1, 2: -1}.get(font.escapement, 0), bool(font.struck_out)) for font in book.font_list]
    forms = [fonts[style.font_index] for style in book.xf_list]
    sheets = {sheet.name: _read_xls_sheet(sheet, formats, fonts, forms, xlrd) for sheet in book.sheets()}
    charts = excel_charts.read_charts(_workbook_stream(path), excel_xml.look_up_in(sheets.values()))
    for name, texts in charts.items():
        sheets.setdefault(name, Sheet(name)).outside_texts += texts
    return [sheets[name] for name in dict.fromkeys((*charts, *sheets))]


def _workbook_stream(path: Path) -> bytes:
    """Return the records of an XLS with charts; b"" for older files without readable charts."""
    import olefile

    if not olefile.isOleFile(str(path)):
        return b""
    with olefile.OleFileIO(str(path)) as file:
        name = next((name for name in ("Workbook", "Book") if file.exists(name)), "")
        return bytes(file.openstream(name).read()) if name else b""


def _read_xls_sheet(
    source: Any, formats: Sequence[number_formats.Format], fonts: Sequence[Form], forms: Sequence[Form], xlrd: Any
) -> Sheet:
    sheet = Sheet(source.name)
    numbers = frozenset((xlrd.XL_CELL_NUMBER, xlrd.XL_CELL_DATE))
    for at in range(source.nrows):
        row = {}
        for column, (kind, value) in enumerate(zip(source.row_types(at), source.row_values(at), strict=True)):
            if kind in numbers:
                text = formats[source.cell_xf_index(at, column)].number(value)
            elif kind == xlrd.XL_CELL_TEXT:
                runs = source.rich_text_runlist_map.get((at, column))
                words = _form_runs(value, runs, fonts) if runs else value
                text = table_cell(formats[source.cell_xf_index(at, column)].text(words))
            elif kind == xlrd.XL_CELL_BOOLEAN:
                text = "TRUE" if value else "FALSE"
            else:
                text = xlrd.error_text_from_code.get(value, "") if kind == xlrd.XL_CELL_ERROR else ""
            if text:
                struck = forms[source.cell_xf_index(at, column)].struck
                text = write_forms(inline_forms.STRUCK.mark(text)) if struck else text
                link = source.hyperlink_map.get((at, column))
                row[column + 1] = link_cell(text, link.url_or_path) if link and link.type == "url" else text
        sheet.rows[at + 1] = row
    sheet.merged = [(top + 1, left + 1, bottom, right) for top, bottom, left, right in source.merged_cells]
    notes = sorted(source.cell_note_map.items())
    sheet.outside_texts = [
        f"Comment on {cell_reference(at + 1, column + 1)}: {table_cell(note.text)}" for (at, column), note in notes
    ]
    return sheet


def _form_runs(text: str, runs: Sequence[tuple[int, int]], fonts: Sequence[Form]) -> str:
    """Return a text with the forms of its runs, each with start and font number."""
    ends = [start for start, _ in runs[1:]] + [len(text)]
    pieces = [fonts[font].mark(text[start:end]) for (start, font), end in zip(runs, ends, strict=True)]
    return write_forms("".join([text[: runs[0][0]], *pieces]))


def _read_values(path: Path) -> list[Sheet]:
    """Return the sheets of a damaged XLS, without number formats."""
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
            at: {column: _write_value(value) for column, value in enumerate(row, 1) if value != ""} for at, row in rows
        }
        sheets.append(
            Sheet(
                name, cells_by_row, [(a + 1, b + 1, c + 1, d + 1) for (a, b), (c, d) in source.merged_cell_ranges or ()]
            )
        )
    return sheets


def _write_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return number_formats.format_general(value)
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    if isinstance(value, timedelta):
        return number_formats.of_code("[h]:mm:ss").number(value / timedelta(days=1))
    return table_cell(str(value))
