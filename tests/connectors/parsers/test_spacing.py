"""Spaced letters of PDFs become whole words; text without words has a low quality."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from reportlab.pdfgen.canvas import Canvas

from connectors.parsers import trust
from tests.connectors.parsers.conftest import Read
from tests.connectors.parsers.test_sideways import drawn

LINE = "Here is some text about the owl that hunts mice at night"


def letters_apart(canvas: Canvas, gap: Callable[[], float], space: float) -> None:
    x = 72.0
    for letter in LINE:
        if letter != " ":
            canvas.drawString(x, 740, letter)
            x += canvas.stringWidth(letter) + gap()
        else:
            x += space


@pytest.mark.parametrize("spread", [1.0, 2.0, 3.0, 5.0])
def test_letters_that_are_spread_evenly(read: Read, spread: float) -> None:
    def draw(canvas: Canvas) -> None:
        text = canvas.beginText(72, 740)
        text.setCharSpace(spread)
        text.textOut(LINE)
        canvas.drawText(text)

    assert LINE in read("a.pdf", drawn(draw)).text


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_letters_at_places_of_their_own(read: Read, seed: int) -> None:
    random = Random(seed)
    text = read("a.pdf", drawn(lambda canvas: letters_apart(canvas, lambda: random.choice([0, 0.6, 1.4, 2.2]), 6))).text
    assert LINE in text


def test_a_heading_that_was_spread_by_hand(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica-Bold", 14)
        canvas.drawString(72, 780, "A N N U A L   R E P O R T   2 0 2 6")
        canvas.setFont("Helvetica", 10)
        canvas.drawString(72, 740, LINE)

    assert "ANNUAL REPORT 2026" in read("a.pdf", drawn(draw)).text


def test_letters_of_a_list_stay_apart(read: Read) -> None:
    text = read("a.pdf", drawn(lambda canvas: canvas.drawString(72, 740, "Answers: A B D C A E B D A C E A B"))).text
    assert "A B D C A E B D A C E A B" in text


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("7KH $#%& !\"#$ %&'() *+,-. /:;<= >?@[\\ ]^_`{ |}~ " * 5, 0.4),
        ("H e re i s so me te xt a b ou t t he o wl t ha t h un ts " * 4, 0.6),
    ],
)
def test_text_without_words_has_a_low_quality(text: str, limit: float) -> None:
    assert trust.judge_page(1, text).quality < limit


def test_a_page_of_numbers_and_dots_keeps_its_quality() -> None:
    text = "Harbour ........................ 12\nQuay ........................ 17\n" * 8 + "12,5 7.5 (3) -4 % 31\n" * 20
    assert trust.judge_page(1, text).quality == 1
