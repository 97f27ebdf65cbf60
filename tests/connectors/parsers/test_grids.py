"""Tables with fine grids, merged cells and tables within cells have the columns and rows that people see."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from retrieval.ports import Parsed
from tests.connectors.parsers.test_word import word

Read = Callable[[str, bytes], Parsed]


def cell(text: str, span: int = 1, inner: str = "") -> str:
    runs = f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"
    return f"<w:tc><w:tcPr><w:gridSpan w:val='{span}'/></w:tcPr>{runs}{inner}{'<w:p/>' if inner else ''}</w:tc>"


def table(rows: list[str], widths: tuple[int, ...] = ()) -> str:
    columns = "".join(f"<w:gridCol w:w='{width}'/>" for width in widths)
    return f"<w:tbl><w:tblGrid>{columns}</w:tblGrid>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"


SPANS = (9, 5, 8, 8)


@pytest.mark.parametrize(
    ("rows", "widths", "lines"),
    [
        (
            [
                "".join(map(cell, ("Work", "Unit", "Quantity", "Amount"), SPANS)),
                "".join(map(cell, ("Pile", "m3", "3.5", "17 200"), SPANS)),
            ],
            (300,) * 30,
            ["| Work | Unit | Quantity | Amount |", "| --- | --- | --- | --- |", "| Pile | m3 | 3.5 | 17 200 |"],
        ),
        (
            [  # a blank cell divides a column in the title row
                cell("Estimate 7", 5) + cell("", 25),
                "".join(map(cell, ("Work", "Unit", "Quantity", "Amount"), SPANS)),
                "".join(map(cell, ("Pile", "m3", "3.5", "17 200"), SPANS)),
                "".join(map(cell, ("Wall", "m2", "8", "900"), SPANS)),
            ],
            (),
            ["| Estimate 7 |  |  |  |", "| --- | --- | --- | --- |", "| Work | Unit | Quantity | Amount |"],
        ),
        (
            [  # edges that were drawn by hand
                cell("Work", 3) + cell("Unit", 2) + cell("Amount"),
                cell("Pile", 2) + cell("m3", 2) + cell("17 200", 2),
                cell("Wall", 3) + cell("m2", 1) + cell("900", 2),
            ],
            (1500, 1500, 60, 1500, 45, 1500),
            ["| Work | Unit | Amount |", "| --- | --- | --- |", "| Pile | m3 | 17 200 |", "| Wall | m2 | 900 |"],
        ),
        (
            [  # a group header is repeated, a merged cell of the body is not
                cell("Berth") + cell("Summer", 2),
                cell("") + cell("day") + cell("week"),
                cell("North") + cell("closed", 2),
                cell("South") + cell("12") + cell("70"),
            ],
            (),
            [
                "| Berth | Summer | Summer |",
                "| --- | --- | --- |",
                "|  | day | week |",
                "| North | closed |  |",
                "| South | 12 | 70 |",
            ],
        ),
        (
            [  # columns of which each row fills one are two
                cell("Day") + cell("Amount", 2),
                cell("May 1") + cell("12") + cell(""),
                cell("May 2") + cell("") + cell("95"),
            ],
            (),
            ["| Day | Amount | Amount |", "| --- | --- | --- |", "| May 1 | 12 |  |", "| May 2 |  | 95 |"],
        ),
    ],
)
def test_the_columns_of_a_fine_grid(read: Read, rows: list[str], widths: tuple[int, ...], lines: list[str]) -> None:
    text = read("a.docx", word(table(rows, widths))).text
    assert "\n".join(lines) in text
