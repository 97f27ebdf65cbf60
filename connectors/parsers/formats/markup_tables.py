"""Read rows of XML tables: HTML and CALS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lxml import etree

from connectors.parsers.formats import blocks, grids
from connectors.parsers.formats import markup_elements as elements

_MAX_COLUMNS: Final = 16_384
# Names of HTML, CALS and DITA.
_ROW_NAMES: Final = frozenset(
    ("tr", "row", "sthead", "strow", "prophead", "property", "chhead", "chrow", "seglistitem")
)
_CELL_NAMES: Final = frozenset((
    "td", "th", "entry", "cell", "stentry", "proptypehd", "propvaluehd", "propdeschd", "proptype", "propvalue",
    "propdesc", "choptionhd", "chdeschd", "choption", "chdesc", "seg",
))  # fmt: skip


def read_rows(table: Any, cell_text: Callable[[Any], str]) -> list[list[grids.Cell]]:
    """Return the cells of an HTML or CALS table; [] for other elements."""
    rows = [
        row
        for row in table.iter(etree.Element)
        if elements.local_name(row) in _ROW_NAMES and _enclosing_table(row) is table
    ]
    names: dict[str, int] = {}
    for number, column in enumerate(
        (part for part in table.iter(etree.Element) if elements.local_name(part) == "colspec"), 1
    ):
        names[column.get("colname", str(number))] = number
    titles = [(cell_text(part), 1, 1) for part in table if elements.local_name(part) == "segtitle"]
    grid: list[list[grids.Cell]] = [titles]
    # By column: number of the first row that no cell from above covers.
    covered: dict[int, int] = {}
    for row in rows:
        cells: list[grids.Cell] = []
        column, number = 0, len(grid)
        for part in row:
            if elements.local_name(part) not in _CELL_NAMES:
                continue
            while covered.get(column, 0) > number:
                column += 1
            height, width = _row_span(part), _column_span(part, names)
            cells.append((cell_text(part), height, width))
            if height > 1:
                covered |= dict.fromkeys(range(column, column + min(width, _MAX_COLUMNS)), number + height)
            column += width
        grid.append(cells)
    return [row for row in grid if row]


def _enclosing_table(row: Any) -> Any:
    return next(
        (above for above in row.iterancestors() if elements.local_name(above) in elements.TABLE_NAMES),
        None,
    )


def _row_span(cell: Any) -> int:
    return blocks.whole_number(cell.get("rowspan"), 1) + blocks.whole_number(cell.get("morerows"))


def _column_span(cell: Any, names: dict[str, int]) -> int:
    first, last = names.get(cell.get("namest", ""), 0), names.get(cell.get("nameend", ""), 0)
    if 0 < first < last:
        return last - first + 1
    return blocks.whole_number(cell.get("colspan"), 1)
