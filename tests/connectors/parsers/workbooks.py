"""Workbooks of known content: one layout as XLSX, XLS and ODS."""

# ruff: noqa: RUF001 - column names of several header rows

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from xml.sax.saxutils import escape

Written = tuple[Path, int, tuple[str, ...]]
"""A file, the number of its tables, and texts expected verbatim."""
Rows = Sequence[Sequence[str | float | None]]


@dataclass(frozen=True)
class Layout:
    """Cells from A1, None for blank cells; merged cells as (row, column, last row, last column), from 0."""

    rows: Rows
    tables: Sequence[Sequence[Sequence[str]]]
    must: Sequence[str] = ()
    merged: Sequence[tuple[int, int, int, int]] = field(default_factory=tuple)


PRICES = [["Goods", "Casks", "Price"], ["Coffee", "12", "340"], ["Tea", "7", "95"]]
CREW = [["Name", "Rank", "Since"], ["Ada", "Mate", "2019"], ["Ben", "Cook", "2021"]]
LAYOUTS = {
    "plain": Layout(PRICES, [PRICES]),
    "blank-cells": Layout(
        [["Goods", "Casks", "Price"], ["Coffee", None, "340"], ["Tea", "7", None]],
        [[["Goods", "Casks", "Price"], ["Coffee", "", "340"], ["Tea", "7", ""]]],
        ("| Coffee |  | 340 |", "| Tea | 7 |  |"),
    ),
    "titles": Layout(
        [["Stores of the harbour"], ["As of", "2024-05-01"], *PRICES],
        [PRICES],
        ("Stores of the harbour", "As of: 2024-05-01", "| Goods | Casks | Price |"),
    ),
    "merged-title": Layout(
        [["Stores of the harbour", None, None], *PRICES], [PRICES], ("Stores of the harbour",), ((0, 0, 0, 2),)
    ),
    "two-tables-below": Layout(
        [*PRICES, [None], *CREW],
        [PRICES, CREW],
        ("| Name | Rank | Since |\n| --- | --- | --- |",),
    ),
    "two-tables-beside": Layout(
        [[*price_row, None, *right] for price_row, right in zip(PRICES, CREW, strict=True)],
        [PRICES, CREW],
        ("| Coffee | 12 | 340 |\n| Tea | 7 | 95 |", "| Ada | Mate | 2019 |\n| Ben | Cook | 2021 |"),
    ),
    "merged-labels": Layout(
        [["Quay", "Berth", "Depth"], ["North", "N1", "4.5"], [None, "N2", "5.5"], ["South", "S1", "3"]],
        [[["Quay", "Berth", "Depth"], ["North", "N1", "4.5"], ["North", "N2", "5.5"], ["South", "S1", "3"]]],
        ("| North | N2 | 5.5 |",),
        ((1, 0, 2, 0),),
    ),
    "two-level-header": Layout(
        [
            ["Berth", "Summer", None, "Winter", None],
            [None, "Days", "Price", "Days", "Price"],
            ["N1", "12", "340", "3", "90"],
        ],
        [
            [
                ["Berth", "Summer – Days", "Summer – Price", "Winter – Days", "Winter – Price"],
                ["N1", "12", "340", "3", "90"],
            ]
        ],
        ("| Berth | Summer – Days | Summer – Price | Winter – Days | Winter – Price |",),
        ((0, 0, 1, 0), (0, 1, 0, 2), (0, 3, 0, 4)),
    ),
    "two-level-header-not-merged": Layout(
        [
            ["Ship", "Cargo", "Stretch", None, None],
            [None, None, "Measured", "Expected", "Limit"],
            ["Ada", "Rope", "0.70", "0.77", "1"],
            ["Eva", "Tar", "0.65", "0.75", "1"],
        ],
        [
            [
                ["Ship", "Cargo", "Stretch – Measured", "Stretch – Expected", "Stretch – Limit"],
                ["Ada", "Rope", "0.70", "0.77", "1"],
                ["Eva", "Tar", "0.65", "0.75", "1"],
            ]
        ],
        ("| Ship | Cargo | Stretch – Measured | Stretch – Expected | Stretch – Limit |",),
        ((0, 0, 1, 0), (0, 1, 1, 1)),
    ),
    "blank-row-within": Layout(
        [*PRICES, [None], ["Rum", "3", "120"], ["Salt", "40", "12"]],
        [[*PRICES, ["Rum", "3", "120"], ["Salt", "40", "12"]]],
        ("| Tea | 7 | 95 |\n| Rum | 3 | 120 |",),
    ),
    "pipes-and-lines": Layout(
        [["Sign", "Meaning"], ["a|b", "either\none"], ["c", "third"]],
        [[["Sign", "Meaning"], ["a\\|b", "either one"], ["c", "third"]]],
        ("| a\\|b | either one |",),
    ),
}
"""By name; texts and whole numbers look the same in each format."""

DAY = (datetime(2024, 3, 1, 18, 30) - datetime(1899, 12, 30)).total_seconds() / 86_400  # noqa: DTZ001
_NAMES = "urn:oasis:names:tc:opendocument:xmlns"


def write(folder: Path) -> Iterator[Written]:
    """Every layout in each format."""
    for name, layout in LAYOUTS.items():
        for ending, writer in {"xlsx": _xlsx, "xls": _xls, "ods": _ods}.items():
            path = folder / f"sheet-{name}.{ending}"
            writer(path, layout)
            yield path, len(layout.tables), tuple(layout.must)


def _number(value: str | float | None) -> str | float | None:
    return float(value) if isinstance(value, str) and value.replace(".", "", 1).isdigit() else value


def _xlsx(path: Path, layout: Layout) -> None:
    from openpyxl import Workbook

    book = Workbook()
    for row in layout.rows:
        book.active.append([_number(value) for value in row])
    for top, first_column, bottom, right in layout.merged:
        book.active.merge_cells(
            start_row=top + 1, start_column=first_column + 1, end_row=bottom + 1, end_column=right + 1
        )
    book.save(path)


def _xls(path: Path, layout: Layout) -> None:
    import xlwt

    book = xlwt.Workbook()
    sheet = book.add_sheet("Sheet")
    owners = {
        (top, first_column): (top, bottom, first_column, right) for top, first_column, bottom, right in layout.merged
    }
    for at, row in enumerate(layout.rows):
        for column, value in enumerate(row):
            if (at, column) in owners:
                sheet.write_merge(*owners[at, column], _number(value))
            elif value is not None:
                sheet.write(at, column, _number(value))
    book.save(str(path))


def _ods(path: Path, layout: Layout) -> None:
    spans = {
        (top, first_column): (bottom - top + 1, right - first_column + 1)
        for top, first_column, bottom, right in layout.merged
    }
    lines = []
    for at, row in enumerate(layout.rows):
        cells = []
        for column, value in enumerate(row):
            down, right = spans.get((at, column), (1, 1))
            span = (
                f' table:number-rows-spanned="{down}" table:number-columns-spanned="{right}"'
                if down * right > 1
                else ""
            )
            kind = f'office:value-type="float" office:value="{value}"'
            kind = kind if isinstance(_number(value), float) else 'office:value-type="string"'
            words = "".join(f"<text:p>{escape(line)}</text:p>" for line in str(value).split("\n"))
            is_covered = value is None and _is_covered(layout, at, column)
            blank = "<table:covered-table-cell/>" if is_covered else "<table:table-cell/>"
            cells.append(blank if value is None else f"<table:table-cell {kind}{span}>{words}</table:table-cell>")
        filler = '<table:table-cell table:number-columns-repeated="1000"/>'
        lines.append(f"<table:table-row>{''.join(cells)}{filler}</table:table-row>")
    write_ods(path, f'<table:table table:name="Sheet">{"".join(lines)}</table:table>')


def _is_covered(layout: Layout, row: int, column: int) -> bool:
    return any(
        top <= row <= bottom and first_column <= column <= right for top, first_column, bottom, right in layout.merged
    )


def write_ods(path: Path, tables: str, parts: dict[str, str] | None = None) -> None:
    """An OpenDocument spreadsheet of these tables, and of other parts by their names."""
    names = {"office": "office", "text": "text", "table": "table", "draw": "drawing", "chart": "chart"}
    spaces = "".join(f' xmlns:{name}="{_NAMES}:{part}:1.0"' for name, part in names.items())
    spaces += ' xmlns:xlink="http://www.w3.org/1999/xlink" office:version="1.2"'
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    body = f"<office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body>"
    entries = {"/": kind, "content.xml": "text/xml"}
    manifest_entries = "".join(
        f'<m:file-entry m:full-path="{at}" m:media-type="{type_}"/>' for at, type_ in entries.items()
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", kind)
        archive.writestr("content.xml", f"<office:document-content{spaces}>{body}</office:document-content>")
        archive.writestr(
            "META-INF/manifest.xml", f'<m:manifest xmlns:m="{_NAMES}:manifest:1.0">{manifest_entries}</m:manifest>'
        )
        for name, part in (parts or {}).items():
            archive.writestr(name, f"<office:document-content{spaces}>{part}</office:document-content>")
