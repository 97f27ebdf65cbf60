"""Rotated tables on PDF pages and vertical column headers are read in reading order."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import pytest
from reportlab.pdfgen.canvas import Canvas

from tests.connectors.parsers.conftest import Read

ROWS = (
    ("State", "Men", "Women", "Children"),
    ("Kerala", "245", "", "3195"),
    ("Tamil Nadu", "413", "2134", "2858"),
    ("Orissa", "", "2040", "2624"),
    ("Assam", "77", "1810", "901"),
)
LINES = "\n".join(
    [
        "| State | Men | Women | Children |",
        "|---|---|---|---|",
        "| Kerala | 245 |  | 3195 |",
        "| Tamil Nadu | 413 | 2134 | 2858 |",
        "| Orissa |  | 2040 | 2624 |",
        "| Assam | 77 | 1810 | 901 |",
    ]
)


def drawn(draw: Callable[[Canvas], None]) -> bytes:
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=(595, 842))
    canvas.setFont("Helvetica", 10)
    draw(canvas)
    canvas.save()
    return file.getvalue()


def table(canvas: Canvas, rows: Sequence[Sequence[str]], x: float, top: float, width: float = 110) -> None:
    for at, row in enumerate(rows):
        for column, text in enumerate(row):
            canvas.drawString(x + width * column, top - 22 * at, text)


@pytest.mark.parametrize("angle", [90, -90])
def test_a_sideways_table_has_its_rows_and_blank_cells(read: Read, angle: int) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(72, 800, "Appendix B, page 12")
        canvas.translate(150 if angle > 0 else 450, 200 if angle > 0 else 700)
        canvas.rotate(angle)
        table(canvas, ROWS, 0, 0)

    parsed = read("a.pdf", drawn(draw))
    assert LINES in parsed.text
    assert parsed.text.startswith("Appendix B, page 12\n")


def test_tables_in_several_directions_have_a_lower_quality(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        table(canvas, ROWS, 72, 780)
        canvas.translate(150, 100)
        canvas.rotate(90)
        table(canvas, ROWS, 0, 0)

    parsed = read("a.pdf", drawn(draw))
    assert parsed.text.count(LINES) == 2
    assert parsed.qualities[0].quality < 1


def test_a_whole_page_that_lies_sideways_keeps_its_lines(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.translate(120, 100)
        canvas.rotate(90)
        canvas.drawString(0, 40, "The owl hunts mice at night and hears them under the snow.")
        table(canvas, ROWS, 0, 0)

    parsed = read("a.pdf", drawn(draw))
    assert "The owl hunts mice at night and hears them under the snow." in parsed.text
    assert LINES in parsed.text
    assert parsed.qualities[0].quality == 1


def test_headers_of_two_vertical_lines_are_read_in_order(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        for column, lines in enumerate((("Number of", "sheep"), ("Number of", "goats"), ("Number of", "cattle"))):
            for at, text in enumerate(lines):
                canvas.saveState()
                canvas.translate(162 + 80 * column + 12 * at, 640)
                canvas.rotate(90)
                canvas.drawString(0, 0, text)
                canvas.restoreState()
        table(canvas, ROWS[2:] + ROWS[2:3], 72, 620, 80)

    assert "Number of sheep | Number of goats | Number of cattle |" in read("a.pdf", drawn(draw)).text


@pytest.mark.parametrize("is_ruled", [False, True])
@pytest.mark.parametrize("is_upward", [True, False])
def test_vertical_headers_stand_over_their_columns(read: Read, *, is_ruled: bool, is_upward: bool) -> None:
    def draw(canvas: Canvas) -> None:
        for column, text in enumerate(("Men at work", "Women at work", "Children")):
            canvas.saveState()
            canvas.translate(190 + 70 * column, 640 if is_upward else 640 + canvas.stringWidth(text))
            canvas.rotate(90 if is_upward else -90)
            canvas.drawString(0, 0, text)
            canvas.restoreState()
        canvas.drawString(72, 640, "State")
        for at, row in enumerate(ROWS[2:] + ROWS[2:3]):
            for column, text in enumerate(row):
                canvas.drawString((72, 180, 250, 320)[column], 620 - 20 * at, text)
        for at in range(6) if is_ruled else ():
            canvas.line(65, 634 - 20 * at, 390, 634 - 20 * at)

    parsed = read("a.pdf", drawn(draw))
    assert "| State | Men at work | Women at work | Children |" in parsed.text
    assert "| Orissa |  | 2040 | 2624 |" in parsed.text
    assert parsed.qualities[0].quality < 1
