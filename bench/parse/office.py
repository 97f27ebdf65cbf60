"""Office files of known truth: documents and workbooks that are written here."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from bench.parse.measures import Table

Written = tuple[Path, str, str, tuple[Table, ...], tuple[str, ...]]
"""A file, its kind, its words, its tables, and texts that must stand in it as they are."""


def write(folder: Path) -> Iterator[Written]:
    """Every kind once; more faces of a kind go here."""
    yield _merged_cells(folder / "office-merged.docx")
    yield _shown_values(folder / "office-values.xlsx")


def _merged_cells(path: Path) -> Written:
    from docx import Document

    rows: list[list[str | None]] = [
        ["Berth", "Summer", None],
        ["", "Days", "Price"],
        ["North quay", "12", "340"],
        ["South quay", "", "95"],
    ]
    document = Document()
    document.add_heading("Berths", 1)
    table = document.add_table(len(rows), 3)
    for number, row in enumerate(rows):
        for column, cell in enumerate(row):
            if cell is not None:
                table.cell(number, column).text = cell
    table.cell(0, 1).merge(table.cell(0, 2))
    document.save(str(path))
    words = " ".join(["Berths", *(cell for row in rows for cell in row if cell)])
    return path, "docx", words, (Table.of_rows(rows),), ()


def _shown_values(path: Path) -> Written:
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    shown = ((timedelta(hours=30, minutes=5), "[h]:mm", "30:05"), (42, "00000", "00042"), (0.125, "0.0%", "12.5%"))
    for number, (value, pattern, _) in enumerate(shown, 1):
        sheet.cell(number, 1, value).number_format = pattern
    book.save(path)
    return path, "xlsx", "", (), tuple(text for _, _, text in shown)
