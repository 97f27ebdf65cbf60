"""Descriptions that authors give to pictures are read in all kinds of Office files."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from openpyxl.drawing.image import Image as SheetImage
from PIL import Image
from pptx.util import Emu

from tests.connectors.parsers.conftest import Read
from tests.connectors.parsers.test_nested_tables import odt

WORDS = "Pump with two valves"
GENERATED = f"{WORDS}&#10;&#10;Description automatically generated with medium confidence"


def picture() -> io.BytesIO:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(file, "PNG")
    file.seek(0)
    return file


def described(document: Any, description: str) -> bytes:
    """Save a document with this description of its picture."""
    source, target = io.BytesIO(), io.BytesIO()
    document.save(source)
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w") as changed:
        for name in archive.namelist():
            data = re.sub(rb' descr="[^"]*"', b"", archive.read(name)) if name.endswith(".xml") else archive.read(name)
            mark = f'\\g<0> descr="{description.replace(chr(92), 2 * chr(92))}"'.encode()
            changed.writestr(name, re.sub(rb"<(?:wp:docPr|p:cNvPr|(?:xdr:)?cNvPr)\b", mark, data))
    return target.getvalue()


def word_file(description: str) -> bytes:
    document = docx.Document()
    document.add_paragraph("See below.")
    document.add_picture(picture())
    return described(document, description)


def slides(description: str) -> bytes:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes[0].text_frame.text = "See below."
    slide.shapes.add_picture(picture(), Emu(0), Emu(10**6))
    return described(deck, description)


def workbook(description: str) -> bytes:
    book = openpyxl.Workbook()
    book.worksheets[0]["A1"] = "See below."
    book.worksheets[0].add_image(SheetImage(picture()), "C3")
    return described(book, description)


def open_document(description: str) -> bytes:
    return odt(f"<text:p>See below.<draw:frame><svg:desc>{description}</svg:desc></draw:frame></text:p>")


FILES: dict[str, Callable[[str], bytes]] = {
    "a.docx": word_file,
    "a.pptx": slides,
    "a.xlsx": workbook,
    "a.odt": open_document,
}


@pytest.mark.parametrize("name", FILES)
def test_the_description_of_a_picture_is_read(read: Read, name: str) -> None:
    for description in (WORDS, GENERATED):
        assert read(name, FILES[name](description)).text.count(f"[picture: {WORDS}]") == 1
    for file_name in ("IMG_2044.jpeg", "C:\\Users\\ann\\site plan.png", "Picture 7", "123"):
        assert "[picture" not in read(name, FILES[name](file_name)).text


@pytest.mark.parametrize(
    ("image", "text"),
    [
        ('<img src="a.png" alt="Pump with  two valves">', f"See below. [picture: {WORDS}]"),
        ('<img src="a.png" alt="pump.png">', "See below."),
        ('<img src="a.png" alt="">', "See below."),
        ('<img src="star.png" alt="\u2605">', "See below. \u2605"),
        (
            '<a href="https://a.example/"><img src="a.png" alt="Plan"></a>',
            "See below. [[picture: Plan]](https://a.example/)",
        ),
    ],
)
def test_the_description_of_an_image_on_a_page_is_read(read: Read, image: str, text: str) -> None:
    assert read("a.html", f"<html><body><p>See below. {image}</p></body></html>".encode()).text == f"{text}\n"
