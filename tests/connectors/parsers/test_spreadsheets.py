"""Spreadsheets become text with formatted values, one table per block of cells."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import openpyxl
import pytest
from openpyxl.chart import BarChart, Reference
from openpyxl.worksheet.table import Table

from bench.parse import cases
from bench.parse.measures import read_tables
from connectors.parsers.formats import excel_charts
from retrieval.errors import Skippable
from retrieval.ingestion.chunking import structure
from tests.connectors.parsers import workbooks
from tests.connectors.parsers.conftest import Read

OFFICE = Path(__file__).resolve().parents[2] / "fixtures" / "office"
DAY = workbooks.DAY

FORMATS = [
    (1.2708333333333333, "[h]:mm", "30:30"), (0.5, "[mm]", "720"), (0.75, "mm:ss.0", "00:00.0"),
    (0.5006944444444444, "h:mm", "12:01"), (DAY, "yyyy-mm-dd", "2024-03-01"), (DAY, "m/d/yy", "3/1/24"),
    (DAY, "dddd, d. mmmm yyyy", "Friday, 1. March 2024"), (DAY, "[$-409]mmm\\-yy", "Mar-24"),
    (DAY, "[$-40C]dddd d mmmm yyyy", "vendredi 1 mars 2024"), (DAY, 'yyyy"年"m"月"d"日"', "2024年3月1日"),
    (DAY, "d.m.yy h:mm;@", "1.3.24 18:30"), (DAY, "[$-F400]h:mm:ss\\ AM/PM", "6:30:00 PM"),
    (59, "d/m/yyyy", "28/2/1900"),
    (42, "00000", "00042"), (7, "000\\-00\\-0000", "000-00-0007"), (0.125, "0%", "13%"), (0.99999, "0.0%", "100.0%"),
    (2.675, "0.00", "2.68"), (1.005, "0.00", "1.01"), (0.5, "#.##", ".5"), (8.5, "#,##0.0#", "8.5"), (0, "#", ""),
    (1234567.891, "#,##0", "1,234,568"), (1, "0,000", "0,001"), (1500, "0,", "2"),
    (1234.5, "[$CHF] #,##0.00", "CHF 1,234.50"), (1234.5, "_($* #,##0.00_);_($* (#,##0.00);_(@_)", "$1,234.50"),
    (-5, '_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-', "-5.00 €"), (0, '0;-0;"-"??', "-"), (-3, "0", "-3"),
    (-0.25, "0.00%;[Red]-0.00%", "-25.00%"), (12, '0" kg"', "12 kg"), (3, '[>=100]"many";[<100]"few"', "few"),
    (1500, '[>=1000]0.0,"k";0', "1.5k"), (5, '[>=1000]0.0,"k";0', "5"), (12345.6, "##0.0E+0", "12.3E+3"),
    (999999, "0.0E+0", "1.0E+6"), (0.3, "0/8", "2/8"), (5.3, "# ?/8", "5 2/8"), (1.5, "?/?", "3/2"), (7, ";;;", ""),
    (1.5, "General", "1.5"), (1e20, "General", "1E+20"), (4006381333931, "General", "4006381333931"),
    (0.1 + 0.2, "General", "0.3"), (1 / 3, "General", "0.333333333"), (0.000012, "General", "1.2E-05"), (5, "@", "5"),
    ("Ada", '0;0;0;"Mate "@', "Mate Ada"), ("a|b", "General", "a\\|b"),
    (True, "General", "TRUE"), ("#N/A", "General", "#N/A"),
]  # fmt: skip
"""Value, number format and the text in Excel."""


def saved(book: openpyxl.Workbook) -> bytes:
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def rewritten(data: bytes, change: Callable[[str, str], str], **new_parts: str) -> bytes:
    """Return the package with changed XML parts and more parts in the folder `xl`."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name).decode()))
        for name, text in new_parts.items():
            new.writestr(f"xl/{name}.xml", text)
    return file.getvalue()


def test_numbers_and_texts_are_shown_by_their_formats(read: Read) -> None:
    book = openpyxl.Workbook()
    book.active.append(["Case", "Shown", "End"])
    for number, (value, code, _) in enumerate(FORMATS):
        book.active.append([f"case {number}", value, "x"])
        book.active.cell(number + 2, 2).number_format = code
    (rows,) = read_tables(read("a.xlsx", saved(book)).text)
    cell_texts = [row[1] for row in rows[1:]]
    assert [
        (code, text) for (_, code, expected), text in zip(FORMATS, cell_texts, strict=True) if text != expected
    ] == []


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, workbooks.Written]:
    folder = tmp_path_factory.mktemp("sheets")
    return {workbook[0].name: workbook for workbook in workbooks.write(folder)}


WORKBOOK_NAMES = [f"sheet-{name}.{ending}" for name in workbooks.LAYOUTS for ending in ("xlsx", "xls", "ods")]


@pytest.mark.parametrize("name", WORKBOOK_NAMES)
def test_each_block_of_cells_is_a_table_of_its_own(
    read: Read, written: dict[str, workbooks.Written], name: str
) -> None:
    path, table_count, must = written[name]
    text = read(name, path.read_bytes()).text
    assert [part for part in must if not cases.contains_text(part, text)] == []
    assert len(structure.find_structure(text).tables) == len(read_tables(text)) == table_count


def test_rows_of_each_table_are_filtered_by_their_own_columns(
    read: Read, written: dict[str, workbooks.Written]
) -> None:
    text = read("a.xlsx", written["sheet-two-tables-beside.xlsx"][0].read_bytes()).text
    goods, crew = structure.find_structure(text).tables
    assert goods.values[0] == {"goods": "Coffee", "casks": 12, "price": 340}
    assert crew.header == "Name | Rank | Since"


def test_days_are_counted_from_1904_where_the_workbook_says_so(read: Read) -> None:
    book = openpyxl.Workbook()
    book.epoch = openpyxl.utils.datetime.CALENDAR_MAC_1904
    book.active.append(["Sailed", datetime(2024, 3, 1)])  # noqa: DTZ001
    assert "| Sailed | 2024-03-01" in read("a.xlsx", saved(book)).text


def test_a_workbook_reads_the_same_however_its_xml_is_written(read: Read) -> None:
    """With prefixes, attributes in another order, cells without names, formatted texts and their pronunciation."""
    book = openpyxl.Workbook()
    for row in (["Name", "Share"], ["Ada", 0.5], ["Ben & Co", 0.25]):
        book.active.append(row)
    book.active["B2"].number_format = book.active["B3"].number_format = "0%"
    data = saved(book)
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    spoken = '<si><t>Ada</t><rPh sb="0" eb="1"><t>EIDA</t></rPh></si>'

    def change(name: str, text: str) -> str:
        if name == "xl/worksheets/sheet1.xml":
            text = text.replace("<is><t>Ben &amp; Co</t></is>", "<is><r><t>Ben </t></r><r><t>&amp; Co</t></r></is>")
            text = text.replace('<c r="A2" t="inlineStr"><is><t>Ada</t></is></c>', '<c t="s"><v>0</v></c>')
            text = (
                text.replace('<c r="B2" s="1" t="n">', '<c s="1" r="B2">').replace("<", "<x:").replace("<x:/", "</x:")
            )
            assert '<x:c t="s">' in text
            assert "<x:r><x:t>Ben " in text
            return text.replace('xmlns="', 'xmlns:x="')
        link = f'<Relationship Id="s" Type="{main}/sharedStrings" Target="strings.xml"/></Relationships>'
        return text.replace("</Relationships>", link) if name == "xl/_rels/workbook.xml.rels" else text

    plain = read("a.xlsx", data).text
    assert "| Ada | 50% |\n| Ben & Co | 25% |" in plain
    assert read("a.xlsx", rewritten(data, change, strings=f'<sst xmlns="{main}">{spoken}</sst>')).text == plain


def test_tables_that_a_workbook_names_are_kept_apart_where_no_blank_cells_are(read: Read) -> None:
    book = openpyxl.Workbook()
    for row in (["Goods", "Casks"], ["Coffee", 12], ["Mate", "Since"], ["Ada", 2019], ["Ben", 2021]):
        book.active.append(row)
    book.active.add_table(Table(displayName="Goods", ref="A1:B2"))
    book.active.add_table(Table(displayName="Crew", ref="A3:B5"))
    headers = [rows[0] for rows in read_tables(read("a.xlsx", saved(book)).text)]
    assert headers == [["Goods", "Casks"], ["Mate", "Since"]]


def test_a_chart_is_its_title_and_a_table_of_categories_and_series(read: Read) -> None:
    book = openpyxl.Workbook()
    for row in (["Year", "Brigs", "Sloops"], ["2023", 4, 0.5], ["2024", 6, 0.25]):
        book.active.append(row)
    book.active["C2"].number_format = book.active["C3"].number_format = "0%"
    chart = BarChart()
    chart.title = "Ships by year"
    chart.add_data(Reference(book.active, min_col=2, max_col=3, min_row=1, max_row=3), titles_from_data=True)
    chart.set_categories(Reference(book.active, min_col=1, min_row=2, max_row=3))
    book.active.add_chart(chart, "E2")
    text = read("a.xlsx", saved(book)).text
    assert "Chart: Ships by year" in text
    assert "| Category | Brigs | Sloops |\n| --- | --- | --- |\n| 2023 | 4 | 50% |\n| 2024 | 6 | 25% |" in text


def test_an_open_spreadsheet_keeps_its_comments_text_boxes_charts_and_hidden_rows(tmp_path: Path, read: Read) -> None:
    def row(*cells: str) -> str:
        inner = "".join(f"<table:table-cell>{cell_text}</table:table-cell>" for cell_text in cells)
        return f"<table:table-row>{inner}</table:table-row>"

    def text(words: str) -> str:
        return f"<text:p>{words}</text:p>"

    box = f"<draw:frame><draw:text-box>{text('No wake!')}</draw:text-box></draw:frame>"
    object_ = '<draw:frame><draw:object xlink:href="./Object 1"/></draw:frame>'
    note = f"<office:annotation>{text('Buy the long one')}</office:annotation>"
    hidden = row(text("Tar"), text("30:05")).replace("row>", 'row table:visibility="collapse">', 1)
    rows = row(text("Item"), text("Left")) + row(text("Rope"), text("1.234,50&#xA0;€") + note) + hidden
    sheet = f'<table:table table:name="Stores"><table:shapes>{box}{object_}</table:shapes>{rows}</table:table>'
    values = row("", text("Brigs")) + row(text("2023"), text("4")) + row(text("2024"), text("6"))
    title = f"<chart:title>{text('Ships by year')}</chart:title>"
    chart = f"<chart:chart>{title}<table:table>{values}</table:table></chart:chart>"
    parts = {"Object 1/content.xml": f"<office:body><office:chart>{chart}</office:chart></office:body>"}
    workbooks.write_ods(tmp_path / "a.ods", sheet, parts)
    markdown = read("a.ods", (tmp_path / "a.ods").read_bytes()).text
    assert markdown.startswith("## Stores\n\n| Item | Left |\n| --- | --- |\n| Rope | 1.234,50 € |\n| Tar | 30:05 |\n")
    for part in ("Comment on B2: Buy the long one", "No wake!", "Chart: Ships by year", "| 2023 | 4 |\n| 2024 | 6 |"):
        assert part in markdown


@pytest.mark.parametrize(
    "cell",
    [
        "<text:p>7</text:p><text:p>8</text:p>",
        "<text:p>7<text:s/>8</text:p>",
        "<text:p><text:span>7</text:span> <text:a>8</text:a></text:p>",
        "<text:p>7 8</text:p><office:annotation><text:p>Why?</text:p></office:annotation>",
    ],
)
def test_no_text_of_an_open_spreadsheet_is_lost_whatever_else_a_cell_holds(
    tmp_path: Path, read: Read, cell: str
) -> None:
    plain = "<table:table-cell><text:p>Tar &amp; rope</text:p></table:table-cell>"
    last = '<table:table-cell office:value-type="float" office:value="9"/>'
    row = f"<table:table-row>{plain}<table:table-cell>{cell}</table:table-cell>{last}</table:table-row>"
    workbooks.write_ods(tmp_path / "a.ods", f'<table:table table:name="S">{row}</table:table>')
    assert "| Tar & rope | 7 8 | 9 |" in read("a.ods", (tmp_path / "a.ods").read_bytes()).text


def test_a_binary_workbook_is_read_with_its_days(read: Read) -> None:
    text = read("harbour.xlsb", (OFFICE / "harbour.xlsb").read_bytes()).text
    assert "| Minerva | Kaffee und Größe | 12 | 2024-03-05 |" in text


def test_charts_of_old_workbooks_have_titles_axes_and_values_as_shown(read: Read) -> None:
    text = read("catch.xls", (OFFICE / "catch.xls").read_bytes()).text
    assert (
        "Chart: Catch of the year\nAxis: Month of landing\nAxis: Tonnes\n\n| Category | North | South |\n"
        "| --- | --- | --- |\n| Jan | 12.3% | 1,200.50 € |\n| Feb | 20.0% | 1,300.00 € |\n| Mar | 30.0% |  |"
    ) in text
    assert "## Graph\n\nChart: Share\n\n| Category | North |\n| --- | --- |\n| Jan | 12.3% |" in text


def test_parts_of_a_workbook_are_found_by_names_in_other_letter_case(read: Read) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(OFFICE / "harbour.xlsb") as source, zipfile.ZipFile(file, "w") as archive:
        for name in source.namelist():
            archive.writestr(name.replace("sharedStrings", "SharedStrings"), source.read(name))
    assert "| Minerva | Kaffee und Größe | 12 |" in read("harbour.xlsb", file.getvalue()).text


def test_a_binary_workbook_shows_numbers_comments_links_and_charts_as_excel_does(read: Read) -> None:
    text = read("various.xlsb", (OFFICE / "various.xlsb").read_bytes()).text
    lines = {"currency: $3.03", "percent: 20%", "date: 2017-03-09", "fraction: 1/4", "longer int: 1.23457E+15"}
    assert lines <= set(text.split("\n"))
    assert "hyperlink: [tika_link](http://tika.apache.org/)" in text
    assert "Comment on B11: Allison, Timothy B.: test comment" in text
    assert "Chart: myChartTitle\n\n| Category | merchant1 | merchant2 |\n| --- | --- | --- |\n| March | 1 | 2 |" in text


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        ('size;note\n5";wide\n"7;open\n8;end\n', ["| size | note |", '| 5" | wide |', '| "7 | open |', "| 8 | end |"]),
        ("name\nAda\nBen\n", ["| name |", "| Ada |", "| Ben |"]),
        ("a;b\n1,5;2,5\n2,5;3,5\n", ["| a | b |", "| 1,5 | 2,5 |", "| 2,5 | 3,5 |"]),
        ("id,name,\n1,Ada,\n\n2,Ben,\n", ["| id | name |", "| 1 | Ada |", "| 2 | Ben |"]),
    ],
)
def test_delimited_texts_keep_their_records_whole(read: Read, data: str, rows: list[str]) -> None:
    assert [line for line in read("a.csv", data.encode()).text.splitlines() if "---" not in line] == rows


def test_a_sheet_that_declares_entities_is_refused(read: Read) -> None:
    book = openpyxl.Workbook()
    book.active.append(["Ada", "Ben"])
    bomb = '<!DOCTYPE x [<!ENTITY a "haha">]>'
    data = rewritten(saved(book), lambda name, text: bomb + text if name.endswith("sheet1.xml") else text)
    with pytest.raises(Skippable, match="declares entities"):
        read("a.xlsx", data)


def test_cells_that_are_repeated_to_the_end_of_a_sheet_are_no_text(tmp_path: Path, read: Read) -> None:
    cell, blank = "<table:table-cell><text:p>Ada</text:p></table:table-cell>", "<table:table-cell{}/>"
    filler = blank.format(' table:number-columns-repeated="16383"')
    row = f"<table:table-row>{cell}{filler}</table:table-row>"
    row += f'<table:table-row table:number-rows-repeated="1048575">{blank.format("")}</table:table-row>'
    workbooks.write_ods(tmp_path / "a.ods", f'<table:table table:name="S">{row}</table:table>')
    assert read("a.ods", (tmp_path / "a.ods").read_bytes()).text == "## S\n\nAda\n"


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (
            [["1.01", "Voltage", None, "kV", ":", "130 (132 AC)"], ["1.02", "Phases", None, None, ":", "three"]] * 3,
            "| 1.02 | Phases |  | : | three |",
        ),
        (
            [["Voltage", None, "kV", 130], ["Current", None, "A", 40], ["Weight", None, "kg", 7.5]],
            "| Current | A | 40 |",
        ),
        ([["1.01", "Voltage", None, "kV", ":", "130"]], "| 1.01 | Voltage | kV | : | 130 |"),
        (
            [["Item", None, "Unit", "Price"], ["Washer", None, "piece", 0.8], ["Bolt", None, "piece", 1.2]],
            "| Washer | piece | 0.8 |",
        ),
        ([["Depth", None, None, "=", "4 m"], ["Width", None, None, "=", "two boats"]], "| Width | = | two boats |"),
    ],
)
def test_rows_that_continue_behind_a_gap_stay_one_row(read: Read, rows: list[list[object]], line: str) -> None:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    file = io.BytesIO()
    book.save(file)
    assert line in read("a.xlsx", file.getvalue()).text


def test_tables_side_by_side_with_labels_of_their_own_stay_two(read: Read) -> None:
    book = openpyxl.Workbook()
    for row in [["Ship", "Crew", None, "Harbour", "Berths"], ["Minerva", 9, None, "North quay", 12]]:
        book.active.append(row)
    book.active.append(["Aurora", 7, None, "South quay", 3])
    file = io.BytesIO()
    book.save(file)
    text = read("a.xlsx", file.getvalue()).text
    assert "| Minerva | 9 |" in text
    assert "| North quay | 12 |" in text


def test_a_cell_that_links_to_a_web_page_has_its_address(tmp_path: Path, read: Read) -> None:
    book = openpyxl.Workbook()
    for place, words, address in (
        ("A1", "Manual", "https://example.com/manual?a=1&b=2"),
        ("B1", "https://example.com/x", "https://example.com/x"),
        ("A2", "Mail", "mailto:ada@example.com"),
        ("B2", "Sheet", "#Sheet!A1"),
    ):
        book.active[place] = words
        book.active[place].hyperlink = address
    text = read("links.xlsx", saved(book)).text
    assert "| [Manual](https://example.com/manual?a=1&b=2) | https://example.com/x |" in text
    assert "| Mail | Sheet |" in text
    link = '<text:a xlink:href="https://example.com/manual">Manual</text:a>'
    cell = f"<table:table-cell><text:p>See {link} first.</text:p></table:table-cell>"
    row = f"<table:table-row>{cell}</table:table-row>"
    workbooks.write_ods(tmp_path / "a.ods", f'<table:table table:name="S">{row}</table:table>')
    text = read("a.ods", (tmp_path / "a.ods").read_bytes()).text
    assert "See [Manual](https://example.com/manual) first." in text


def test_a_chart_of_an_older_workbook_ends_with_its_data() -> None:
    def record(kind: int, data: bytes) -> bytes:
        return struct.pack("<HH", kind, len(data)) + data

    def source(part: int, column: int) -> bytes:
        return record(0x1051, bytes([part, 0]) + bytes(6) + b"\x3b" + struct.pack("<HHHHH", 0, 0, 98, column, column))

    def cached(cache: int, point: int) -> bytes:
        return record(0x1065, struct.pack("<H", cache)) + record(0x0203, struct.pack("<HHHd", point, 0, 0, 0.0))

    sheet = record(0x0085, struct.pack("<IH", 9999, 0) + b"\x05\x00Ships")
    series = record(0x1003, b"") + record(0x1033, b"") + source(1, 1) + source(2, 0) + record(0x1034, b"")
    globals_ = record(0x0809, struct.pack("<HH", 0x0600, 5)) + sheet + record(0x0017, struct.pack("<HHHH", 1, 0, 0, 0))
    chart = record(0x0809, struct.pack("<HH", 0x0600, 0x20)) + series + cached(2, 10) + cached(1, 10)
    cells = {"'Ships'!A1:A99": ["Ada", "Eva"], "'Ships'!B1:B99": ["3", "5"]}
    charts = excel_charts.read_charts(
        globals_ + record(0x000A, b"") + chart + record(0x000A, b""),
        lambda reference: cells[reference] + [""] * 97 if reference else [],
    )
    assert charts == {"Ships": [], "": ["Chart\n\n| Category | Series 1 |\n| --- | --- |\n| Ada | 3 |\n| Eva | 5 |"]}


CELL = "<table:table-cell{}><text:p>{}</text:p></table:table-cell>"


@pytest.mark.parametrize(
    ("cell", "parts", "row"),
    [
        (CELL.format("", "Rope"), {"meta.xml": ""}, "| Rope | 7 |"),
        (CELL.format(" table:number-columns-repeated=''", "Rope<text:s/>"), {}, "| Rope | 7 |"),
        (CELL.format(" table:number-rows-spanned='1.0'", "Rope"), {}, "| Rope | 7 |"),
        (CELL.format("", f"{'Rope ' * 2_500_000}<text:s/>"), {}, "Rope Rope | 7 |"),
    ],
    ids=["properties", "repetition", "span", "length"],
)
def test_an_open_spreadsheet_that_office_programs_open_is_read(
    tmp_path: Path, read: Read, cell: str, parts: dict[str, str], row: str
) -> None:
    cells = f"<table:table-row>{cell}{CELL.format('', 7)}</table:table-row>"
    workbooks.write_ods(tmp_path / "a.ods", f"<table:table table:name='S'>{cells}</table:table>", parts)
    assert row in read("a.ods", (tmp_path / "a.ods").read_bytes()).text


def changed(data: bytes, change: Callable[[str, bytes], tuple[str, bytes]]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(file, "w") as archive:
        for name in source.namelist():
            place, content = change(name, source.read(name))
            archive.writestr(place, content)
    return file.getvalue()


@pytest.mark.parametrize(
    "change",
    [
        lambda name, data: (name.replace("/", "\\"), data),
        lambda name, data: (name.lower(), data),
        lambda name, data: (name.replace("xl/", ""), data.replace(b"xl/", b"")),
        lambda name, data: (name, data.replace(b't="n"><v>12</v>', b't="d"><v>10:30:00</v>')),
        lambda name, data: (name, data.replace(b"<v>12</v>", b"<v>1 2</v>")),
    ],
    ids=["backslashes", "case", "folder", "time", "number"],
)
def test_a_workbook_of_an_irregular_make_is_read(read: Read, change: Callable[[str, bytes], tuple[str, bytes]]) -> None:
    book, file = openpyxl.Workbook(), io.BytesIO()
    for row in (("Item", "Left"), ("Rope", 12), ("Tar", 3)):
        book.worksheets[0].append(row)
    book.save(file)
    text = read("a.xlsx", changed(file.getvalue(), change)).text
    assert "| Item | Left |" in text
    assert any(f"| Rope | {left} |\n| Tar | 3 |" in text for left in ("12", "10:30:00", "1 2"))


def test_a_title_over_merged_cells_is_a_line(read: Read) -> None:
    book, file = openpyxl.Workbook(), io.BytesIO()
    for row in (("Stores in May",), (), ("Item", "Left", "Bay"), ("Rope", 12, 3)):
        book.worksheets[0].append(row)
    book.worksheets[0].merge_cells("A1:C1")
    book.save(file)
    assert "Stores in May\n\n| Item | Left | Bay |" in read("a.xlsx", file.getvalue()).text
