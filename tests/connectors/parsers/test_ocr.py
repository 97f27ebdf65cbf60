"""STANDARD_OCR reads scans and pictures page by page, in any orientation."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from connectors.parsers import ocr_engines
from connectors.parsers.ocr import TextRecognition
from connectors.parsers.ocr_engines import RecognisedLine
from connectors.parsers.parser import DocumentParser, document_parser
from connectors.parsers.pool import ChildPool, Limits
from retrieval.errors import Skippable
from retrieval.ports import OcrStrategy, RawContent

pytestmark = pytest.mark.service

MB = 2**20
Save = Callable[[str, bytes], RawContent]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def write(name: str, data: bytes) -> RawContent:
        path = tmp_path / name
        path.write_bytes(data)
        return RawContent(path=path, name=name, media_type="", size=len(data))

    return write


def picture(*lines: str, width: int = 900) -> Image.Image:
    """A white page with dark words."""
    scale = width / 900
    image = Image.new("RGB", (width, round((80 + 90 * len(lines)) * scale)), "white")
    font = ImageFont.load_default(46 * scale)
    for row, words in enumerate(lines):
        ImageDraw.Draw(image).text((40 * scale, (40 + 90 * row) * scale), words, fill="black", font=font)
    return image


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


HARBOUR = ("The harbour master keeps", "a ledger of every vessel", "and of its cargo")
TYPED = "The typed page says that the ferry leaves the northern quay at seven in the morning on every weekday. " * 2


@pytest.fixture(scope="module")
def mixed() -> bytes:
    """Return a PDF of a typed page, a picture of text, a blank page and a rotated picture of text."""
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=(300, 400))
    for start in range(0, len(TYPED), 70):
        canvas.setFontSize(6)
        canvas.drawString(20, 350 - start // 4, TYPED[start : start + 70])
    canvas.showPage()
    canvas.drawImage(ImageReader(picture(*HARBOUR)), 15, 200, 270, 105)
    canvas.showPage()
    canvas.showPage()
    lying = picture("Lanterns burn on the pier", "until the last boat is in").rotate(90, expand=True)
    canvas.drawImage(ImageReader(lying), 100, 50, 80, 280)
    canvas.showPage()
    canvas.save()
    return file.getvalue()


@pytest.mark.slow
def test_only_pages_of_a_mixed_pdf_that_need_ocr_are_recognised_and_stand_at_their_place(
    save: Save, mixed: bytes
) -> None:
    parsed = document_parser().parse(save("mixed.pdf", mixed), OcrStrategy.STANDARD_OCR)
    first, second, third, fourth = (
        words(parsed.text[start:end]) for start, end in zip(parsed.pages, [*parsed.pages[1:], None], strict=True)
    )
    assert first.count("northern quay at seven") == 2
    assert words(" ".join(HARBOUR)) in second
    assert third == ""
    assert words("Lanterns burn on the pier until the last boat is in") in fourth


def test_without_recognition_a_mixed_pdf_gives_its_typed_text(save: Save, mixed: bytes) -> None:
    parsed = document_parser().parse(save("mixed.pdf", mixed), OcrStrategy.BASIC_PARSER)
    assert "northern quay" in parsed.text
    assert "harbour" not in parsed.text


def test_every_picture_of_a_file_is_a_page(save: Save) -> None:
    pages = [picture("The first sheet", width=450), picture("The second sheet", width=450)]
    raw = save("two.tiff", encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:]))
    parsed = document_parser().parse(raw, OcrStrategy.STANDARD_OCR)
    assert words(parsed.text[: parsed.pages[1]]) == "the first sheet"
    assert words(parsed.text[parsed.pages[1] :]) == "the second sheet"
    assert parsed.properties["mimeType"] == "image/tiff"
    assert parsed.properties["pageCount"] == 2


@pytest.mark.slow
def test_a_picture_upside_down_is_set_upright(save: Save) -> None:
    raw = save("a.png", encoded(picture("The second sheet").rotate(180), "PNG"))
    assert words(document_parser().parse(raw, OcrStrategy.STANDARD_OCR).text) == "the second sheet"


# A program in tesseract's place


PROGRAM = """#!{python}
import socket, sys
if "--list-langs" in sys.argv:
    print("List of available languages (2):\\neng\\nosd")
    raise SystemExit
sys.stdin.buffer.read()
try:
    socket.socket()
    network = "network"
except OSError:
    network = "no network"
print("level\\tpage\\tblock\\tpar\\tline\\tword\\tleft\\ttop\\twidth\\theight\\tconf\\ttext")
for word in [*sys.argv[1:], *network.split()]:
    print("5\\t1\\t1\\t1\\t1\\t1\\t0\\t0\\t9\\t9\\t{sure}\\t" + word)
"""


@pytest.fixture
def with_program(tmp_path: Path) -> Iterator[Callable[..., DocumentParser]]:
    program = tmp_path / "tesseract"
    program.write_text(PROGRAM.format(python=sys.executable, sure=95))
    program.chmod(0o755)
    pools = [ChildPool(1, Limits(60, 512 * MB)), ChildPool(1, Limits(60, 1536 * MB, str(program)))]

    def make(*languages: str, pages: int = 10) -> DocumentParser:
        recognition = TextRecognition(pools[1], str(program), languages, 60, pages)
        return DocumentParser(pools[0], 512 * MB, 60, recognition)

    yield make
    for pool in pools:
        pool.close()


def test_tesseract_gets_orientation_and_configured_languages_without_network(
    save: Save, with_program: Callable[..., DocumentParser]
) -> None:
    raw = save("a.png", encoded(picture("words"), "PNG"))
    text = with_program("eng", "deu").parse(raw, OcrStrategy.STANDARD_OCR).text
    assert text.strip() == "stdin stdout -l eng --psm 1 tsv no network"


def test_a_language_without_data_is_refused_with_the_settings_name(
    save: Save, with_program: Callable[..., DocumentParser]
) -> None:
    raw = save("a.png", encoded(picture("words"), "PNG"))
    with pytest.raises(Skippable, match=r"deu.*RETRIEVAL_OCR_LANGUAGES"):
        with_program("deu").parse(raw, OcrStrategy.STANDARD_OCR)


@pytest.mark.slow
@pytest.mark.parametrize("start", [["local.run_role", "migrate"], ["flows.worker", "--pool", "p", "--name", "w"]])
def test_a_start_refuses_languages_without_data_and_names_those_with(tmp_path: Path, start: list[str]) -> None:
    (tmp_path / "tesseract").write_text(PROGRAM.format(python=sys.executable, sure=95))
    (tmp_path / "tesseract").chmod(0o755)
    environment = {**os.environ, "PATH": str(tmp_path), "RETRIEVAL_OCR_LANGUAGES": "eng,klingon,osd"}
    done = subprocess.run([sys.executable, "-m", *start], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1] == (
        "A setting is wrong. RETRIEVAL_OCR_LANGUAGES: tesseract has no data for klingon, osd; it has eng."
        " Name those, or install the data."
    )


def test_too_many_pages_that_need_ocr_are_refused_before_any_is_recognised(
    save: Save, with_program: Callable[..., DocumentParser]
) -> None:
    page = picture("words")
    raw = save("a.tiff", encoded(page, "TIFF", save_all=True, append_images=[page, page]))
    with pytest.raises(Skippable, match="3 pages to recognise; at most 2"):
        with_program("eng", pages=2).parse(raw, OcrStrategy.STANDARD_OCR)


# Reading order


def lines(x: float, top: float, *texts: str) -> list[RecognisedLine]:
    return [RecognisedLine(x, top + 30 * row, x + 280, top + 30 * row + 24, text) for row, text in enumerate(texts)]


def test_columns_of_running_text_are_read_one_after_the_other() -> None:
    heading = RecognisedLine(0, 0, 600, 30, "A heading across both columns")
    left_column = [f"left line number {row} of text" for row in range(5)]
    right = [f"right line number {row} of text" for row in range(5)]
    layout = ocr_engines.layout_text([*lines(310, 60, *right), heading, *lines(0, 60, *left_column)])
    assert layout.split("\n") == [heading.text, "", *left_column, "", *right]


def test_a_table_is_read_row_by_row_and_a_gap_parts_paragraphs() -> None:
    layout = ocr_engines.layout_text(
        [*lines(310, 0, "1.50", "2.50"), *lines(0, 0, "Tea", "Coffee"), *lines(0, 120, "Thank you")]
    )
    assert layout == "Tea  1.50\nCoffee  2.50\n\nThank you"


DEJAVU = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")
LEASES = {
    "Cyrillic": "Договор аренды помещения заключён в Москве первого марта. Арендатор вносит плату"
    " ежемесячно и содержит помещение в исправном состоянии, а владелец обязуется его не беспокоить.",  # noqa: RUF001
    "Greek": "Η σύμβαση μίσθωσης υπογράφηκε στην Αθήνα την πρώτη Μαρτίου. Ο μισθωτής καταβάλλει το"  # noqa: RUF001
    " μίσθωμα κάθε μήνα και διατηρεί το ακίνητο σε καλή κατάσταση.",
    "Hebrew": "הסכם השכירות נחתם בירושלים באחד במרץ והשוכר מתחייב לשלם את דמי השכירות בכל חודש ולשמור על הנכס",
    "Latin": "Der Mietvertrag wurde am ersten März in München unterschrieben. Der Mieter zahlt die Miete jeden Monat"
    " und hält die Räume in gutem Zustand.",
}


def scan(text: str) -> Image.Image:
    """A page of 300 dots an inch with this text three times."""
    font = ImageFont.truetype(str(DEJAVU), 40)
    image = Image.new("RGB", (2480, 1200), "white")
    draw, line, top = ImageDraw.Draw(image), "", 100
    for word in (text.split() * 3) + [""]:
        if not word or draw.textlength(f"{line} {word}", font=font) > 2200:
            draw.text((120, top), line, fill="black", font=font)
            line, top = "", top + 80
        line = f"{line} {word}".strip()
    return image


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="needs tesseract")
def test_a_scanned_page_in_a_script_without_a_pack_is_left_out_of_its_document(save: Save) -> None:
    missing = set(ocr_engines.SCRIPT_LANGUAGES).intersection(LEASES) - {
        script
        for script in LEASES
        if set(ocr_engines.SCRIPT_LANGUAGES[script]).intersection(
            ocr_engines.installed_languages(str(shutil.which("tesseract")))
        )
    }
    script = min(missing)
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=(620, 300))
    canvas.drawString(20, 200, "The typed page says that the ferry leaves at seven.")
    canvas.showPage()
    canvas.drawImage(ImageReader(scan(LEASES[script])), 0, 0, 620, 300)
    canvas.showPage()
    canvas.save()
    parsed = document_parser().parse(save("mixed.pdf", file.getvalue()), OcrStrategy.STANDARD_OCR)
    assert parsed.text.strip() == "The typed page says that the ferry leaves at seven."
    assert [quality.unread for quality in parsed.qualities] == [False, True]
    assert f"pages (1): 2. A page is written in {script} script" in str(parsed.properties["notice"])


@pytest.mark.parametrize(
    ("script", "configured", "installed", "chosen"),
    [
        ("Cyrillic", ("eng",), ("eng", "osd", "rus", "ukr"), ("rus",)),
        ("Cyrillic", ("eng", "ukr"), ("eng", "rus", "ukr"), ("ukr",)),
        ("Thai", ("eng",), ("eng", "osd"), ()),
    ],
)
def test_the_pack_of_a_pages_script_is_chosen(script, configured, installed, chosen) -> None:  # type: ignore[no-untyped-def]
    assert ocr_engines.choose_languages(script, configured, installed) == chosen
