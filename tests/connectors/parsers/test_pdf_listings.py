"""Code listings of PDFs, and monospaced text that is none."""

from __future__ import annotations

import pytest
from reportlab.pdfgen.canvas import Canvas

from tests.connectors.parsers.conftest import Read
from tests.connectors.parsers.test_sideways import drawn

SENTENCE = "The owl hunts mice at night and hears them under the deep snow of the wood behind the house."
PROGRAM = ("def hunt(mice):", "    for mouse in mice:", "        hear(mouse)", "", "    return len(mice)")


def write_lines(canvas: Canvas, lines: tuple[str, ...], y: float, font: str = "Courier", x: float = 90) -> None:
    canvas.setFont(font, 9)
    for at, line in enumerate(lines):
        canvas.drawString(x, y - 11 * at, line)


def write_prose(canvas: Canvas, y: float, x: float = 72, width: int = 200) -> None:
    canvas.setFont("Times-Roman", 10)
    for at in range(8):
        canvas.drawString(x, y - 12 * at, SENTENCE[:width])


def listings(text: str) -> list[tuple[str, ...]]:
    """Return the lines of each fenced block."""
    return [tuple(block.split("\n")[1:-1]) for block in text.split("```")[1::2]]


@pytest.mark.parametrize("font", ["Courier", "Courier-Bold", "Courier-Oblique"])
def test_a_listing_keeps_its_lines_and_indentation(read: Read, font: str) -> None:
    def draw(canvas: Canvas) -> None:
        write_prose(canvas, 780)
        write_lines(canvas, PROGRAM, 670, font)
        write_prose(canvas, 600)

    text = read("a.pdf", drawn(draw)).text
    assert listings(text) == [PROGRAM]
    assert text.count(SENTENCE) == 16


def test_a_command_of_one_line_is_a_listing_and_code_within_a_sentence_is_none(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        write_prose(canvas, 780)
        write_lines(canvas, ("$ make --keep-going all",), 670)
        write_prose(canvas, 640)
        canvas.drawString(72, 500, "Call ")
        canvas.setFont("Courier", 10)
        canvas.drawString(95, 500, "hunt(mice)")
        canvas.setFont("Times-Roman", 10)
        canvas.drawString(158, 500, "at night.")

    text = read("a.pdf", drawn(draw)).text
    assert listings(text) == [("$ make --keep-going all",)]
    assert "Call hunt(mice) at night." in text


def test_the_numbers_of_the_lines_of_a_listing_are_left_out(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        write_prose(canvas, 780)
        write_lines(canvas, PROGRAM, 670)
        write_lines(canvas, ("1", "2", "3", "4", "5"), 670, "Times-Roman", 75)
        write_prose(canvas, 600)

    assert listings(read("a.pdf", drawn(draw)).text) == [PROGRAM]


def test_listings_of_two_columns_are_read_one_after_the_other(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        for x in (50, 320):
            write_prose(canvas, 780, x, 48)
            write_lines(canvas, PROGRAM, 670, x=x + 10)
            write_prose(canvas, 600, x, 48)

    assert listings(read("a.pdf", drawn(draw)).text) == [PROGRAM, PROGRAM]


def test_a_table_in_a_monospaced_font_is_a_table(read: Read) -> None:
    rows = [("Berth", "Ships", "Change"), *((f"Berth {at}", str(41 * at), f"-{at}.5") for at in range(1, 8))]

    def draw(canvas: Canvas) -> None:
        write_prose(canvas, 780)
        canvas.setFont("Courier", 9)
        for at, row in enumerate(rows):
            for column, cell in enumerate(row):
                canvas.drawString(90 + 140 * column, 660 - 14 * at, cell)
        write_prose(canvas, 520)

    text = read("a.pdf", drawn(draw)).text
    assert "| Berth 7 | 287 | -7.5 |" in text
    assert "```" not in text


def test_a_letter_and_a_form_of_a_typewriter_are_no_listings(read: Read) -> None:
    def draw_letter(canvas: Canvas) -> None:
        write_lines(canvas, (SENTENCE,) * 20, 780)

    def draw_form(canvas: Canvas) -> None:
        write_prose(canvas, 780)
        write_lines(canvas, ("Miller & Sons", "Harbour Street 5", "12345 Owlbury"), 640)

    for draw in (draw_letter, draw_form):
        assert "```" not in read("a.pdf", drawn(draw)).text
    assert "Miller & Sons\nHarbour Street 5\n12345 Owlbury" in read("a.pdf", drawn(draw_form)).text
