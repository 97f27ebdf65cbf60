"""Workbooks of Excel 2003 XML show their cells as Excel does."""

from __future__ import annotations

from tests.connectors.parsers.conftest import Read

SPACE = "urn:schemas-microsoft-com:office:spreadsheet"
STYLES = """
<Styles>
 <Style ss:ID="Default"/>
 <Style ss:ID="day"><NumberFormat ss:Format="yyyy\\-mm\\-dd"/></Style>
 <Style ss:ID="share"><NumberFormat ss:Format="0.0%"/></Style>
 <Style ss:ID="sum" ss:Parent="money"/>
 <Style ss:ID="money"><NumberFormat ss:Format="Currency"/></Style>
 <Style ss:ID="clock"><NumberFormat ss:Format="Short Time"/></Style>
 <Style ss:ID="gone"><Font ss:StrikeThrough="1"/></Style>
</Styles>"""
CELLS = (
    ("Name", "", "String", "Ada Mate"),
    ("Due", "day", "DateTime", "2026-05-12T00:00:00.000"),
    ("Share", "share", "Number", "0.125"),
    ("Price", "money", "Number", "1234.5"),
    ("Opens", "clock", "DateTime", "1899-12-31T08:30:00.000"),
    ("Seen", "", "DateTime", "2026-05-12T00:00:00.000"),
    ("Paid", "", "Boolean", "1"),
    ("Old", "gone", "String", "two weeks"),
)


def workbook(table: str, head: str = "", rest: str = "") -> bytes:
    return (
        '<?xml version="1.0"?><?mso-application progid="Excel.Sheet"?>'
        f'<Workbook xmlns="{SPACE}" xmlns:ss="{SPACE}" xmlns:o="urn:schemas-microsoft-com:office:office" '
        f'xmlns:x="urn:schemas-microsoft-com:office:excel">{head}{STYLES}'
        f'<Worksheet ss:Name="Tides"><Table>{table}</Table>'
        f"<x:WorksheetOptions><x:ProtectObjects>False</x:ProtectObjects></x:WorksheetOptions></Worksheet>{rest}</Workbook>"
    ).encode()


def cell(text: str, kind: str = "String", style: str = "", extra: str = "") -> str:
    form = f' ss:StyleID="{style}"' if style else ""
    return f'<Cell{form}{extra}><Data ss:Type="{kind}">{text}</Data></Cell>'


def row(*cells: str, form: str = "") -> str:
    return f"<Row{form}>{''.join(cells)}</Row>"


def test_cells_are_shown_in_their_format(read: Read) -> None:
    table = row(*(cell(name) for name, *_ in CELLS)) + row(*(cell(text, kind, style) for _, style, kind, text in CELLS))
    about = "<o:DocumentProperties><o:Title>Tide tables</o:Title><o:Author>Ben Coast</o:Author></o:DocumentProperties>"
    parsed = read("tides.xml", workbook(table, about))
    line = "| Ada Mate | 2026-05-12 | 12.5% | $1,234.50 | 8:30 | 2026-05-12 | TRUE | ~~two weeks~~ |"
    assert line in parsed.text.split("\n")
    assert "ProtectObjects" not in parsed.text
    assert (parsed.title, parsed.properties["author"]) == ("Tide tables", "Ben Coast")


def test_rows_and_columns_give_their_cells_a_format(read: Read) -> None:
    table = (
        '<Column ss:Index="2" ss:Span="1" ss:StyleID="share"/>'
        + row(cell("Harbour"), cell("2024"), cell("2025"))
        + row(cell("North"), cell("0.5", "Number"), cell("0.25", "Number"))
        + row(cell("Income"), cell("2", "Number"), cell("3", "Number"), form=' ss:StyleID="money"')
    )
    text = read("tides.xls", workbook(table)).text
    assert "| North | 50.0% | 25.0% |" in text
    assert "| Income | $2.00 | $3.00 |" in text


def test_days_since_1904_are_dates(read: Read) -> None:
    head = '<ExcelWorkbook xmlns="urn:schemas-microsoft-com:office:excel"><Date1904/></ExcelWorkbook>'
    table = row(cell("Day"), cell("Name")) + row(cell("2026-05-12T00:00:00.000", "DateTime", "day"), cell("Ada"))
    assert "| 2026-05-12 | Ada |" in read("tides.xml", workbook(table, head)).text


def test_comments_links_and_further_sheets_are_read(read: Read) -> None:
    comment = '<Comment ss:Author="Ben"><ss:Data><B>Ben:</B> Check the <I>lamp</I>.</ss:Data></Comment>'
    link = f'<Cell ss:HRef="https://tides.example/a"><Data ss:Type="String">Tables</Data>{comment}</Cell>'
    table = row(link, cell("10<Sup>6</Sup>"))
    second = f'<Worksheet ss:Name="Winds"><Table>{row(cell("East wind"))}</Table></Worksheet>'
    text = read("tides.xml", workbook(table, "", second)).text
    assert "[Tables](https://tides.example/a)" in text
    assert "10^(6)" in text
    assert "Comment on A1: Ben: Check the lamp." in text
    assert "## Winds\n\nEast wind" in text


def test_rows_beyond_the_last_one_of_spreadsheets_are_named(read: Read) -> None:
    rows = (
        row(cell(name), cell("1", "Number"), form=f' ss:Index="{at}"') for name, at in (("Low", 1048577), ("High", 2))
    )
    parsed = read("tides.xml", workbook(row(cell("Name"), cell("Metres")) + "".join(rows)))
    assert "| High | 1 |" in parsed.text
    assert parsed.properties["notice"] == "Not read: rows beyond 1,048,576 of the sheets Tides (1)."
