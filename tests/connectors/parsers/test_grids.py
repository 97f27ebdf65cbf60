"""Tables with fine grids, merged cells and nested tables keep their visible columns and rows."""

# ruff: noqa: RUF001 - column names of several header rows

from __future__ import annotations

import pytest

from tests.connectors.parsers.conftest import Read
from tests.connectors.parsers.test_nested_tables import odt
from tests.connectors.parsers.test_word import word


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
            [  # edges that were drawn by hand
                cell("Work", 3) + cell("Unit", 2) + cell("Amount"),
                cell("Pile", 2) + cell("m3", 2) + cell("17 200", 2),
                cell("Wall", 3) + cell("m2", 1) + cell("900", 2),
            ],
            (1500, 1500, 60, 1500, 45, 1500),
            ["| Work | Unit | Amount |", "| --- | --- | --- |", "| Pile | m3 | 17 200 |", "| Wall | m2 | 900 |"],
        ),
        (
            [  # columns have the names of both header rows, a merged cell of the body is not repeated
                cell("Berth") + cell("Summer", 2),
                cell("") + cell("day") + cell("week"),
                cell("North") + cell("closed", 2),
                cell("South") + cell("12") + cell("70"),
            ],
            (),
            [
                "| Berth | Summer – day | Summer – week |",
                "| --- | --- | --- |",
                "| North | closed |  |",
                "| South | 12 | 70 |",
            ],
        ),
        (
            [  # the second row is a record
                cell("Name", 2) + cell("Age"),
                cell("Anna") + cell("Smith") + cell("41"),
                cell("Ben") + cell("Jones") + cell("37"),
            ],
            (),
            ["| Name | Name | Age |", "| --- | --- | --- |", "| Anna | Smith | 41 |", "| Ben | Jones | 37 |"],
        ),
        (
            [  # two pairs of labels and values
                cell("Project", 2) + cell("Contact", 2),
                cell("Name") + cell("Alpha") + cell("Leader") + cell("Smith"),
                cell("City") + cell("Bonn") + cell("Deputy") + cell("Jones"),
            ],
            (),
            [
                "| Project | Project | Contact | Contact |",
                "| --- | --- | --- | --- |",
                "| Name | Alpha | Leader | Smith |",
            ],
        ),
    ],
)
def test_the_columns_of_a_fine_grid(read: Read, rows: list[str], widths: tuple[int, ...], lines: list[str]) -> None:
    text = read("a.docx", word(table(rows, widths))).text
    assert "\n".join(lines) in text


def test_a_header_of_two_rows_of_web_pages_and_opendocument_names_each_column(read: Read) -> None:
    page = (
        "<html><body><table><thead><tr><th rowspan=2>Berth<th colspan=2>Summer<th>Power</tr>"
        "<tr><th>day<th>week<th>kW</tr></thead><tr><td>North<td>free<td>closed<td>5</tr></table></body></html>"
    )
    header = "| Berth | Summer – day | Summer – week | Power – kW |\n| --- | --- | --- | --- |"
    assert f"{header}\n| North | free | closed | 5 |" in read("a.html", page.encode()).text
    rows = (("Berth", "Summer", "Winter"), ("", "from May", "from October"), ("North", "free", "closed"))
    header, second, body = (
        "<table:table-row>"
        + "".join(f"<table:table-cell><text:p>{words}</text:p></table:table-cell>" for words in row)
        + "</table:table-row>"
        for row in rows
    )
    table = f"<table:table><table:table-header-rows>{header}{second}</table:table-header-rows>{body}</table:table>"
    text = read("a.odt", odt(table)).text
    assert "| Berth | Summer – from May | Winter – from October |\n| --- | --- | --- |\n| North" in text


def plain(*rows: tuple[str, ...]) -> str:
    return table(["".join(map(cell, row)) for row in rows])


INNER = (("Size", "Price"), ("M6", "0.80"), ("M8", "1.10"))


def test_a_table_in_a_cell_of_word_follows_its_row(read: Read) -> None:
    rows = [
        cell("Part") + cell("Stock"),
        cell("Washer", inner=plain(*INNER)) + cell("40"),
        cell("Bolt") + cell("7"),
    ]
    text = read("a.docx", word(table(rows))).text
    assert (
        "\n\n".join(
            [
                "| Part | Stock |\n| --- | --- |\n| Washer | 40 |",
                "Washer:",
                "| Size | Price |\n| --- | --- |\n| M6 | 0.80 |\n| M8 | 1.10 |",
                "| Part | Stock |\n| --- | --- |\n| Bolt | 7 |",
            ]
        )
        in text
    )


def test_a_table_in_a_cell_of_html_follows_its_row(read: Read) -> None:
    inner = "".join(f"<tr><td>{'<td>'.join(row)}</tr>" for row in INNER)
    source = (
        "<table><tr><th>Part<th>Stock<th>Place</tr>"
        f"<tr><td>Washer<table>{inner}</table></td><td>40</td><td>Bay 1</td></tr>"
        "<tr><td>Bolt<td>7<td>Bay 2</tr></table>"
    )
    text = read("a.html", f"<html><body>{source}</body></html>".encode()).text
    assert "| Washer | 40 | Bay 1 |" in text
    assert "Washer:\n\n| Size | Price |\n| --- | --- |\n| M6 | 0.80 |" in text
    assert "| Bolt | 7 | Bay 2 |" in text
