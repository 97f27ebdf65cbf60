"""A chunk on its page: drawn from the PDF, with the chunk's lines shaded and no others."""

import io

import pytest
from reportlab.pdfgen import canvas

from ui.parts.page_image import SCALE, render

LINES = {720: "The owl hunts mice at night.", 600: "The harbour seal dives for thirty minutes.", 480: "Clover grows."}


@pytest.fixture
def report() -> bytes:
    out = io.BytesIO()
    sheet = canvas.Canvas(out, pagesize=(600, 800))
    sheet.drawString(72, 720, "Only a cover.")
    sheet.showPage()
    for height, line in LINES.items():
        sheet.drawString(72, height, line)
    sheet.save()
    return out.getvalue()


def shaded(picture, height):
    """Whether the paper beside the letters of the line at `height` (points from below) is coloured."""
    row = [picture.getpixel((x, int((800 - height - 3) * SCALE))) for x in range(int(74 * SCALE), int(150 * SCALE))]
    return any(red < blue for red, _, blue in row)


def test_the_lines_of_the_chunk_are_shaded_on_their_page(report):
    picture = render(report, 2, "The harbour seal dives for thirty minutes.")
    assert picture is not None
    assert picture.size == (600 * SCALE, 800 * SCALE)
    assert [shaded(picture, height) for height in LINES] == [False, True, False]


def test_what_cannot_be_drawn_is_none(report):
    assert render(report, 3, "seal") is None
    assert render(report, 0, "seal") is None
    assert render(b"%PDF-1.7 broken", 1, "seal") is None
    assert render(report[:200], 1, "seal") is None
