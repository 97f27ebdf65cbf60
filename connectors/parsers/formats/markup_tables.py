"""Read rows of XML tables: HTML, CALS and Excel 2003."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lxml import etree

from connectors.parsers.formats import blocks, grids
from connectors.parsers.formats import markup_elements as elements

_EXCEL_NAMESPACE: Final = "{urn:schemas-microsoft-com:office:spreadsheet}"
_EXCEL_COLUMNS: Final = 16_384


def read_rows(table: Any, cell_text: Callable[[Any], str]) -> list[list[grids.Cell]]:
    """Return the cells of an HTML, CALS or Excel 2003 table; [] for other elements."""
    rows = [
        row
        for row in table.iter(etree.Element)
        if elements.local_name(row) in ("tr", "row") and _enclosing_table(row) is table
    ]
    names: dict[str, int] = {}
    for number, column in enumerate(
        (part for part in table.iter(etree.Element) if elements.local_name(part) == "colspec"), 1
    ):
        names[column.get("colname", str(number))] = number
    grid: list[list[grids.Cell]] = []
    # By column: number of the first row that no cell from above covers.
    covered: dict[int, int] = {}
    for row in rows:
        cells: list[grids.Cell] = []
        column, number = 0, len(grid)
        for part in row:
            if elements.local_name(part) not in ("td", "th", "entry", "cell"):
                continue
            start = _excel_number(part, "Index") - 1
            blank = [at for at in range(column, min(start, _EXCEL_COLUMNS)) if covered.get(at, 0) <= number]
            column = max(column, start)
            while covered.get(column, 0) > number:
                column += 1
            height, width = _row_span(part), _column_span(part, names)
            cells += [*([("", 1, 1)] * len(blank)), (cell_text(part), height, width)]
            if height > 1:
                covered |= dict.fromkeys(range(column, column + min(width, _EXCEL_COLUMNS)), number + height)
            column += width
        grid.append(cells)
    return [row for row in grid if row]


def _enclosing_table(row: Any) -> Any:
    return next(
        (above for above in row.iterancestors() if elements.local_name(above) in elements.TABLE_NAMES),
        None,
    )


def _row_span(cell: Any) -> int:
    rows = blocks.whole_number(cell.get("rowspan"), 1) + blocks.whole_number(cell.get("morerows"))
    return rows + _excel_number(cell, "MergeDown")


def _column_span(cell: Any, names: dict[str, int]) -> int:
    first, last = names.get(cell.get("namest", ""), 0), names.get(cell.get("nameend", ""), 0)
    if 0 < first < last:
        return last - first + 1
    return blocks.whole_number(cell.get("colspan"), 1) + _excel_number(cell, "MergeAcross")


def _excel_number(cell: Any, name: str) -> int:
    """Return a number of an Excel 2003 cell; 0 if absent."""
    return blocks.whole_number(cell.get(f"{_EXCEL_NAMESPACE}{name}"))
