"""Blocks of a PDF's page: headers of two lines, values of forms, and formulas."""

from __future__ import annotations

import io
from typing import Any

import pytest
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Table

from tests.connectors.parsers.conftest import Read
from tests.connectors.parsers.test_sideways import drawn

BODY = (
    ("North", "12", "340", "7.5"),
    ("South", "7", "95", "2.1"),
    ("East", "31", "120", "9.9"),
    ("West", "4", "88", "3"),
)


@pytest.mark.parametrize("gap", [11, 18])
@pytest.mark.parametrize(
    ("upper", "lower"),
    [
        (("Harbour", "Number of", "Average", "Share of"), ("", "ships", "price", "trade")),
        (("Harbour", "Ships in", "Price per", "Draught"), ("name", "port", "berth", "(m)")),
    ],
)
def test_a_header_of_two_lines_is_one_row(read: Read, upper: tuple[str, ...], lower: tuple[str, ...], gap: int) -> None:
    def draw(canvas: Canvas) -> None:
        for y, row in ((740 + gap, upper), (740, lower), *((720 - 16 * at, row) for at, row in enumerate(BODY))):
            for column, text in enumerate(row):
                canvas.drawString(72 + 100 * column, y, text)

    text = read("a.pdf", drawn(draw)).text
    header = " | ".join(f"{a} {b}".strip() for a, b in zip(upper, lower, strict=True))
    assert f"| {header} |" in text
    assert "| South | 7 | 95 | 2.1 |" in text


def test_a_row_of_words_is_no_second_line_of_the_header(read: Read) -> None:
    rows = (("Harbour", "Ships", "Price", "Draught"), ("Bay", "none", "Free", "Unknown"), *BODY)

    def draw(canvas: Canvas) -> None:
        for at, row in enumerate(rows):
            for column, text in enumerate(row):
                canvas.drawString(72 + 100 * column, 740 - 16 * at, text)

    assert "| Bay | none | Free | Unknown |" in read("a.pdf", drawn(draw)).text


# Rules of a table: all borders, those above and below the header, none.
GRID = [("GRID", (0, 0), (-1, -1), 0.5, "black")]
BOOK = [("LINEABOVE", (0, 0), (-1, 0), 1, "black"), ("LINEBELOW", (0, 1), (-1, 1), 0.5, "black")]
GROUPS = (
    (("Harbour", "Ships", "", "Price", ""), ("", "2024", "2025", "Berth", "Quay"), [("SPAN", (0, 0), (0, 1))]),
    (("", "Summer", "", "Winter", ""), ("Harbour", "Ships", "Crews", "Ships", "Crews"), []),
)


@pytest.mark.parametrize("width", [90, None])
@pytest.mark.parametrize("rules", [GRID, BOOK, []])
@pytest.mark.parametrize(("upper", "lower", "spans"), GROUPS)
def test_groups_stand_above_their_first_column(
    read: Read, upper: tuple[str, ...], lower: tuple[str, ...], spans: list[Any], rules: list[Any], width: int | None
) -> None:
    spans = [*spans, ("SPAN", (1, 0), (2, 0)), ("SPAN", (3, 0), (4, 0)), ("ALIGN", (1, 0), (-1, 1), "CENTER")]
    rows = [upper, lower, *((*row, "11") for row in BODY)]
    prose = Paragraph("The following table lists the harbours of the coast and their ships in summer. " * 3)
    file = io.BytesIO()
    table = Table(rows, colWidths=width and [width] * 5, style=[*spans, *rules, ("VALIGN", (0, 0), (0, 1), "MIDDLE")])
    SimpleDocTemplate(file).build([prose, table])
    lines = read("a.pdf", file.getvalue()).text.split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    assert lines[start] == f"| {' | '.join(upper)} |"
    assert lines[start + 2 : start + 4] == [f"| {' | '.join(lower)} |", "| North | 12 | 340 | 7.5 | 11 |"]


def test_a_name_of_one_line_stands_next_to_names_of_two_lines(read: Read) -> None:
    words = ("Harbour", "Number of ships in port", "Number of ships at sea", "Average price per berth", "Quay")
    file = io.BytesIO()
    cells = [Paragraph(name) for name in words]
    SimpleDocTemplate(file).build([Table([cells, *((*row, "11") for row in BODY)], colWidths=[90] * 5, style=BOOK[:1])])
    assert f"| {' | '.join(words)} |" in read("a.pdf", file.getvalue()).text


def test_values_of_a_form_are_no_code(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        for at, (label, value) in enumerate((("Name", "Ada Mate"), ("Berth", "North quay 7"), ("Date", "12 May 2026"))):
            canvas.setFont("Helvetica", 9)
            canvas.drawString(72, 740 - 40 * at, label)
            canvas.setFont("Courier", 10)
            canvas.drawString(72, 726 - 40 * at, value)

    text = read("a.pdf", drawn(draw)).text
    assert "```" not in text
    assert "North quay 7" in text


def test_a_formula_is_no_heading_and_a_title_is(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica-Bold", 18)
        canvas.drawString(72, 780, "Tides of the northern coast")
        canvas.setFont("Helvetica", 10)
        for at in range(6):
            canvas.drawString(
                72, 750 - 13 * at, "The owl hunts mice at night and hears them under the snow of the wood."
            )
        canvas.setFont("Helvetica-Bold", 16)
        canvas.drawString(200, 640, "F = m a + 2 b")
        canvas.setFont("Helvetica", 10)
        for at in range(6):
            canvas.drawString(
                72, 610 - 13 * at, "The owl hunts mice at night and hears them under the snow of the wood."
            )

    text = read("a.pdf", drawn(draw)).text
    assert "# Tides of the northern coast" in text
    assert "# F =" not in text
    assert "F = m a + 2 b" in text


def build(rows: list[tuple[Any, ...]], style: list[Any], **options: Any) -> bytes:
    buffer = io.BytesIO()
    table = Table(rows, style=[*style, ("PADDING", (0, 0), (-1, -1), 2)], **options)
    SimpleDocTemplate(buffer).build([table, Paragraph("End of the list.")])
    return buffer.getvalue()


@pytest.mark.parametrize("repeated_rows", [0, 1])
def test_a_ruled_table_with_narrow_columns_keeps_its_cells_and_header_on_each_page(
    read: Read, repeated_rows: int
) -> None:
    rows = [("Name", "Price", "Town"), *((f"Item {n}", f"{3 * n}.50", f"Ulm {n}") for n in range(1, 100))]
    text = read("a.pdf", build(rows, GRID, repeatRows=repeated_rows)).text
    assert text.count("| Name | Price | Town |\n|---|---|---|\n") > 1
    for row in rows:
        assert f"| {' | '.join(row)} |" in text
    assert text.rstrip().endswith("End of the list.")


def test_wrapped_and_merged_cells_of_a_ruled_table_are_one_cell_each(read: Read) -> None:
    rows = [
        ("Harbour", "Conditions of mooring", ""),
        ("", "for yachts\nand boats", "for ships"),
        ("North\nBasin", "free of charge\nfrom May", "on request"),
        ("South", "closed", "12 | 14"),
    ]
    spans = [("SPAN", (0, 0), (0, 1)), ("SPAN", (1, 0), (2, 0))]
    text = read("a.pdf", build(rows, [*GRID, *spans])).text
    assert "| Harbour | Conditions of mooring |  |\n" in text
    assert "|  | for yachts and boats | for ships |\n" in text
    assert "| North Basin | free of charge from May | on request |\n" in text
    assert "| South | closed | 12 \\| 14 |" in text


def test_rows_without_rules_in_a_frame_stay_rows(read: Read) -> None:
    rows = [("Harbour", "Ships", "Price"), *(row[:3] for row in BODY)]
    frame = [("BOX", (0, 0), (-1, -1), 1, "black"), ("LINEBELOW", (0, 0), (-1, 0), 1, "black")]
    lines = [("LINEAFTER", (column, 0), (column, -1), 1, "black") for column in range(2)]
    text = read("a.pdf", build(rows, [*frame, *lines], colWidths=90)).text
    for row in rows:
        assert f"| {' | '.join(row)} |" in text


def test_a_frame_around_paragraphs_is_no_table(read: Read) -> None:
    words = "The owner of the harbour keeps the right to close the basin at any time. " * 12
    text = read("a.pdf", build([(Paragraph(words), Paragraph(words)), (Paragraph(words), "")], GRID)).text
    assert "The owner of the harbour keeps the right to close" in " ".join(text.split())


def test_columns_with_headings_at_other_heights_are_read_one_after_another(read: Read) -> None:
    words = "The pilot meets each ship at the outer mole and leads it to the berth of its kind. " * 3

    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica-Bold", 16)
        canvas.drawString(36, 780, "Harbour report")
        canvas.setFont("Helvetica", 10)
        canvas.drawString(
            36,
            755,
            "All that the harbour did in the year, of all berths and quays, for all who use it or live next to it now.",
        )
        for column, top in ((0, 720), (1, 728)):
            for part in range(3):
                y = top - 110 * part
                canvas.setFont("Helvetica-Bold", 13)
                canvas.drawString(36 + 280 * column, y, f"Part {3 * column + part + 1}")
                paragraph = Paragraph(words, ParagraphStyle("prose", fontName="Helvetica", fontSize=10, leading=12))
                height = paragraph.wrap(250, 200)[1]
                paragraph.drawOn(canvas, 36 + 280 * column, y - 14 - height)
        canvas.setFont("Helvetica-Bold", 13)
        canvas.drawString(36, 360, "Prices")
        canvas.setFont("Helvetica", 10)
        canvas.drawString(
            36,
            340,
            "Each berth costs the same in summer and in winter, by the day or by the week, as all the owners agreed.",
        )

    headings = [line for line in read("a.pdf", drawn(draw)).text.split("\n") if line.startswith("#")]
    assert [heading.lstrip("# ") for heading in headings] == [
        "Harbour report", *(f"Part {number}" for number in range(1, 7)), "Prices"
    ]  # fmt: skip


def test_columns_that_only_the_header_rules_stay_columns(read: Read) -> None:
    rows = [("Harbour", "Ships", "Price", "Draught"), *BODY]
    rules = [("GRID", (0, 0), (-1, 0), 1, "black"), ("BOX", (0, 1), (-1, -1), 1, "black")]
    lines = [("LINEBELOW", (0, row), (-1, row), 1, "black") for row in range(1, len(rows))]
    text = read("a.pdf", build(rows, [*rules, *lines], colWidths=90)).text
    for row in rows:
        assert f"| {' | '.join(row)} |" in text


def test_names_of_rows_outside_of_the_rules_stay_with_their_rows(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        for line in range(len(BODY) + 1):
            canvas.line(120, 735 - 20 * line, 360, 735 - 20 * line)
        for column in range(4):
            canvas.line(120 + 80 * column, 735, 120 + 80 * column, 735 - 20 * len(BODY))
        for at, (name, *numbers) in enumerate(BODY):
            canvas.drawString(80, 720 - 20 * at, name)
            for column, number in enumerate(numbers):
                canvas.drawString(140 + 80 * column, 720 - 20 * at, number)

    assert "| South | 7 | 95 | 2.1 |" in read("a.pdf", drawn(draw)).text


def test_a_new_table_on_the_next_page_keeps_its_own_header(read: Read) -> None:
    buffer = io.BytesIO()
    tables = [
        Table([header, *((name, number) for name, number, *_ in BODY)], colWidths=90, style=GRID)
        for header in (("Harbour", "Ships"), ("Market", "Stalls"))
    ]
    SimpleDocTemplate(buffer).build([tables[0], PageBreak(), tables[1]])
    text = read("a.pdf", buffer.getvalue()).text
    assert text.count("| Harbour | Ships |") == 1
    assert "| Market | Stalls |\n|---|---|\n| North | 12 |" in text


def test_diagonals_of_a_drawing_are_no_rules_of_a_table(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        for at in range(3):
            canvas.line(100, 700 - 40 * at, 300, 660 - 40 * at)
            canvas.line(100 + 100 * at, 700, 200 + 100 * at, 580)
            canvas.drawString(120, 675 - 40 * at, f"Pier {at} leads to")
            canvas.drawString(220, 675 - 40 * at, f"berth {at}")

    assert "|---|" not in read("a.pdf", drawn(draw)).text
