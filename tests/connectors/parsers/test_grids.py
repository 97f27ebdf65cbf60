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
            [  # few rows divide the column of values
                cell("Title") + cell("The sea", 2),
                cell("Author") + cell("Ann Hull", 2),
                cell("Year") + cell("1999", 2),
                cell("North") + cell("South") + cell("East"),
            ],
            (),
            ["| Title | The sea |  |", "| --- | --- | --- |", "| Author | Ann Hull |  |", "| Year | 1999 |  |"],
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


def lines(*texts: str) -> str:
    paragraphs = "".join(f"<w:p>{f'<w:r><w:t>{text}</w:t></w:r>' if text else ''}</w:p>" for text in texts)
    return f"<w:tc>{paragraphs}</w:tc>"


STOCK = ("Part", "Stock", "Place")


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (lines("Bolt", "Nut") + lines("7", "40") + lines("Bay 1"), ["Bolt | 7 | Bay 1", "Nut | 40 | "]),
        (lines("Bolt", "", "Nut") + lines("7", "", "40") + lines("", "", "Bay 1"), ["Bolt | 7 | ", "Nut | 40 | Bay 1"]),
        (lines("Small") + lines("Bolt", "Nut") + lines("7", "40"), ["Small | Bolt | 7", "Small | Nut | 40"]),
        (lines("Ada", "Ben", "Cy") + lines("Mate", "Cook", "Boy") + lines(""), ["Ada | Mate | ", "Cy | Boy | "]),
        # Figures of one entry, labels above values, and sentences stay in one row.
        (lines("Mean") + lines("7", "(2)") + lines("40", "(5)"), ["Mean | 7 (2) | 40 (5)"]),
        (lines("Name:", "Ada") + lines("Since:", "1901") + lines("Bay 1"), ["Name: Ada | Since: 1901 | Bay 1"]),
        (lines("Wide. " * 20, "Bolt") + lines("7", "40") + lines(""), ["Bolt | 7 40 | "]),
    ],
)
def test_lines_that_cells_have_in_parallel_are_rows(read: Read, row: str, shown: list[str]) -> None:
    text = read(
        "a.docx", word(table(["".join(map(cell, STOCK)), row, "".join(map(cell, ("Rope", "3", "Bay 2")))]))
    ).text
    assert [line for line in shown if f"{line} |\n" not in text] == []
    assert text.endswith("| Rope | 3 | Bay 2 |\n")


def test_lines_of_cells_in_parallel_below_a_merged_cell(read: Read) -> None:
    rows = "<tr><th>Part<th>Stock<th>Place</tr><tr><td rowspan=2>Steel<td>Pin<td>1</tr>"
    rows += "<tr><td>Bolt<br>Nut<td>7<br>40</tr><tr><td>Brass<td>Tap<td>9</tr>"
    text = read("a.html", f"<html><body><table>{rows}</table></body></html>".encode()).text
    assert "| Steel | Pin | 1 |\n| Steel | Bolt | 7 |\n| Steel | Nut | 40 |\n| Brass | Tap | 9 |" in text


HIDDEN = '<style:style style:name="{}" style:family="text" {}><style:text-properties {}/></style:style>'


@pytest.mark.parametrize(
    "body",
    [
        '<text:p>Seen <text:span text:style-name="h">Secret</text:span>line</text:p>',
        '<text:p>Seen <text:span text:style-name="child">Secret</text:span>line</text:p>',
        '<text:section text:display="none"><text:p>Secret</text:p></text:section><text:p>Seen line</text:p>',
        '<text:p>Secret<text:hidden-paragraph text:is-hidden="true"/></text:p><text:p>Seen line</text:p>',
        '<text:p>Seen <text:span text:style-name="shown">line</text:span></text:p>',
    ],
)
def test_hidden_text_of_opendocument_is_not_read(read: Read, body: str) -> None:
    styles = HIDDEN.format("h", "", 'text:display="none"') + HIDDEN.format("child", 'style:parent-style-name="h"', "")
    styles += HIDDEN.format("shown", 'style:parent-style-name="h"', 'text:display="true"')
    head = f'<office:automatic-styles xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0">{styles}'
    assert read("a.odt", odt(f"{head}</office:automatic-styles>{body}")).text == "Seen line\n"


def test_tables_in_rows_without_other_text_are_kept(read: Read) -> None:
    size = plain(("Size", "Price"), ("M6", "0.80"))
    bay = plain(("Bay", "Key"), ("Nine", "brass"))
    rows = [
        cell("", inner=size) + cell(""),
        cell("Bolt") + cell("7"),
        cell("", inner=bay) + cell(""),
        cell("Nut") + cell("4"),
    ]
    parts = [
        "| Size | Price |\n| --- | --- |\n| M6 | 0.80 |",
        "| Bolt | 7 |\n| --- | --- |",
        "| Bay | Key |\n| --- | --- |\n| Nine | brass |",
        "| Bolt | 7 |\n| --- | --- |\n| Nut | 4 |\n",
    ]
    assert read("a.docx", word(table(rows))).text == "\n\n".join(parts)
