"""Rows of tables in RTF, and tables in their cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from connectors.parsers.formats import grids


@dataclass(slots=True)
class Row:
    cells: list[str] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    continued: list[bool] = field(default_factory=list)
    # Numbers of cells that are merged with the one before them.
    joined: set[int] = field(default_factory=set)
    # Tables in cells, each after its name.
    nested: list[str] = field(default_factory=list)


@dataclass(slots=True)
class NestedTable:
    """Table in a cell; `cell_letters`: the text of the cell before it."""

    cell_letters: list[str]
    rows: list[Row] = field(default_factory=list)
    row: Row = field(default_factory=Row)


def table_markdown(rows: list[Row]) -> str:
    """Return a table with the tables of its cells after their rows."""
    return grids.grid_markdown(_grid_cells(rows), {at: row.nested for at, row in enumerate(rows) if row.nested})


def _grid_cells(rows: list[Row]) -> Iterator[list[grids.Cell]]:
    """Return cells with spanned columns by their right edges."""
    edges = sorted({edge for row in rows for edge in row.edges})
    above: dict[int, str] = {}
    for row in rows:
        cells: list[grids.Cell] = []
        column = 0
        for at, text in enumerate(row.cells):
            end = edges.index(row.edges[at]) + 1 if at < len(row.edges) else column + 1
            if text or at >= len(row.continued) or not row.continued[at]:
                above[column] = text
            width = max(end - column, 1)
            if cells and at in row.joined:
                first, _, before = cells[-1]
                cells[-1] = f"{first} {text}".strip(), 1, before + width
            else:
                cells.append((above.get(column, ""), 1, width))
            column = max(end, column + 1)
        yield cells
