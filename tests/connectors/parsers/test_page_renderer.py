"""A limited child draws a page and shades the words of a chunk at a bounded cost."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from connectors.parsers.page_renderer import PdfRenderer
from connectors.parsers.pdf import images
from connectors.parsers.pool import ChildPool, Limits
from retrieval.errors import Skippable
from retrieval.ports import PageMark

pytestmark = pytest.mark.service

MB = 2**20
LINES = {720: "The owl hunts mice at night.", 600: "The harbour seal dives for thirty minutes.", 480: "Clover grows."}


@pytest.fixture(scope="module")
def drawer() -> Iterator[PdfRenderer]:
    pool = ChildPool(1, Limits(20, 512 * MB))
    yield PdfRenderer(pool, 20)
    pool.close()


def written(folder: Path, data: bytes) -> Path:
    path = folder / "raw"
    path.write_bytes(data)
    return path


def report(turn: int = 0) -> bytes:
    out = io.BytesIO()
    sheet = Canvas(out, pagesize=(600, 800))
    sheet.drawString(72, 720, "Only a cover.")
    sheet.showPage()
    if turn:
        sheet.setPageSize((800, 600))  # it swaps them for a page that lies on its side
        sheet.setPageRotation(turn)
    for height, line in LINES.items():
        sheet.drawString(72, height, line)
    sheet.save()
    return out.getvalue()


def opened(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGB")


def shaded(picture: Image.Image) -> set[int]:
    """Return the rows of coloured pixels."""
    blue = picture.split()[2].point(lambda value: value)
    red = picture.split()[0]
    width, height = picture.size
    both = zip(red.get_flattened_data(), blue.get_flattened_data(), strict=True)
    return {number // width for number, (r, b) in enumerate(both) if b > r + 20} & set(range(height))


def test_the_lines_of_the_chunk_are_shaded_on_their_page(drawer: PdfRenderer, tmp_path: Path) -> None:
    text = "\n\n".join(LINES.values())
    start = text.index("The harbour")
    mark = PageMark(text, start, start + len("The harbour seal dives for thirty minutes."))
    picture = opened(drawer.draw(written(tmp_path, report()), 2, mark))
    assert picture.size == (960, 1280)
    rows = shaded(picture)
    assert rows
    assert min(rows) > (800 - 600 - 20) * images.PIXELS_PER_POINT
    assert max(rows) < (800 - 600 + 10) * images.PIXELS_PER_POINT


def test_a_page_that_lies_on_its_side_is_marked_where_its_words_stand(drawer: PdfRenderer, tmp_path: Path) -> None:
    text = "\n\n".join(LINES.values())
    picture = opened(drawer.draw(written(tmp_path, report(90)), 2, PageMark(text, 0, len(LINES[720]))))
    assert picture.size == (1280, 960)
    turned = shaded(picture.rotate(90, expand=True))
    assert turned
    assert min(turned) > (800 - 720 - 20) * images.PIXELS_PER_POINT
    assert max(turned) < (800 - 720 + 10) * images.PIXELS_PER_POINT


def test_a_page_of_any_size_costs_little(drawer: PdfRenderer, tmp_path: Path) -> None:
    # 542 bytes, 14,400 points square: 29 seconds and 4.1 GB at full size.
    out = io.BytesIO()
    sheet = Canvas(out, pagesize=(14400, 14400))
    sheet.rect(10, 10, 14000, 14000, fill=1)
    sheet.save()
    started = time.monotonic()
    picture = opened(drawer.draw(written(tmp_path, out.getvalue()), 1, PageMark()))
    assert max(picture.size) <= images.MAX_PAGE_SIDE
    assert time.monotonic() - started < 15


@pytest.mark.parametrize(
    ("data", "page"), [(report(), 3), (report(), 0), (b"%PDF-1.7 broken", 1), (report()[:200], 1), (b"", 1)]
)
def test_what_cannot_be_drawn_is_refused_in_words(drawer: PdfRenderer, tmp_path: Path, data: bytes, page: int) -> None:
    with pytest.raises(Skippable):
        drawer.draw(written(tmp_path, data), page, PageMark())
