"""A limited child draws a page and shades the words of a chunk at a bounded cost."""

from __future__ import annotations

import ast
import io
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Paragraph, SimpleDocTemplate, Spacer

from connectors.parsers.parser import PdfRenderer, document_parser
from connectors.parsers.pdf import images
from connectors.parsers.pool import ChildPool, Limits
from retrieval.errors import Skippable
from retrieval.ports import OcrStrategy, PageMark, RawContent
from retrieval.settings import PROJECT_ROOT

pytestmark = pytest.mark.service

MB = 2**20
LINES = {720: "The owl hunts mice at night.", 600: "The harbour seal dives for thirty minutes.", 480: "Clover grows."}
SENTENCE = "The tide turns twice a day in the harbour, and the pilots wait for slack water before they bring ships in. "


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


def test_of_paragraphs_that_repeat_each_has_its_own_page_and_its_own_mark(drawer: PdfRenderer, tmp_path: Path) -> None:
    """Every paragraph of the same words, over several pages: the n-th in the text is the n-th on paper."""
    file, style = io.BytesIO(), getSampleStyleSheet()["BodyText"]
    count = 24
    SimpleDocTemplate(file).build(
        [part for _ in range(count) for part in (Paragraph(SENTENCE * 4, style), Spacer(1, 30))]
    )
    path = written(tmp_path, file.getvalue())
    parsed = document_parser().parse(RawContent(path, "tides.pdf", "", path.stat().st_size), OcrStrategy.BASIC_PARSER)
    ends = [*parsed.pages[1:], len(parsed.text)]
    pages = [parsed.text[start:end] for start, end in zip(parsed.pages, ends, strict=True)]
    assert len(pages) >= 3
    on_paper = paragraphs_of(path)
    assert [page.count("The tide") // 4 for page in pages] == [len(tops) for tops in on_paper]
    for number, (page, tops) in enumerate(zip(pages, on_paper, strict=True), 1):
        starts = [match.start() for match in re.finditer("The tide", page)][::4]
        for index in {0, len(starts) - 1}:
            mark = PageMark(page, starts[index], [*starts, len(page)][index + 1])
            rows = shaded(opened(drawer.draw(path, number, mark)))
            top, bottom = tops[index]
            assert abs(min(rows) - top) < 8
            assert abs(max(rows) - bottom) < 8


def paragraphs_of(path: Path) -> list[list[tuple[float, float]]]:
    """Return the first and last pixel row of each paragraph per page; a gap of 20 points separates two."""
    import pypdfium2

    paragraphs = []
    with pypdfium2.PdfDocument(path) as document:
        for page in document:
            layer, height = page.get_textpage(), page.get_height()
            lines = sorted((layer.get_rect(n) for n in range(layer.count_rects())), key=lambda one: -one[3])
            blocks: list[list[float]] = []
            for _, bottom, _, top in lines:
                if blocks and blocks[-1][1] - top < 20:
                    blocks[-1][1] = min(bottom, blocks[-1][1])
                else:
                    blocks.append([top, bottom])
            paragraphs.append([((height - top) * 1.6, (height - bottom) * 1.6) for top, bottom in blocks])
    return paragraphs


def test_columns_in_another_order_are_marked_too() -> None:
    first_text, right = "Owls hunt mice at night.", "Seals dive for half an hour."
    (mark_range,) = images.find_ranges(f"{first_text}\n\n{right}", 0, len(first_text), f"{right}\r\n{first_text}")
    assert f"{right}\r\n{first_text}"[slice(*mark_range)] == first_text.rstrip(".")


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


def test_a_page_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    out = io.BytesIO()
    sheet = Canvas(out, pagesize=(2000, 2000))
    for number in range(900):
        sheet.circle(1000, 1000, 10 + number, stroke=1, fill=1)
    sheet._code *= 66
    sheet.save()
    pool = ChildPool(1, Limits(1, 512 * MB, clock_factor=10))
    try:
        started = time.monotonic()
        with pytest.raises(Skippable, match=r"more than 1 s|within 10 s by the clock"):
            PdfRenderer(pool, 1).draw(written(tmp_path, out.getvalue()), 1, PageMark())
        assert time.monotonic() - started < 30
    finally:
        pool.close()


@pytest.mark.parametrize(
    ("data", "page"), [(report(), 3), (report(), 0), (b"%PDF-1.7 broken", 1), (report()[:200], 1), (b"", 1)]
)
def test_what_cannot_be_drawn_is_refused_in_words(drawer: PdfRenderer, tmp_path: Path, data: bytes, page: int) -> None:
    with pytest.raises(Skippable):
        drawer.draw(written(tmp_path, data), page, PageMark())


def test_the_admin_app_reads_no_format_of_users_files() -> None:
    formats = {"pypdfium2", "PIL", "pypdf", "docx", "openpyxl", "lxml"}
    for file in (PROJECT_ROOT / "ui").rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        names = {a.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
        names |= {(n.module or "").split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        assert not names & formats, file
