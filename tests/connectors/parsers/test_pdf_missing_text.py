"""Words of a PDF page that its layout drops: results below tables, numbers of pages, notes."""

from __future__ import annotations

from reportlab.pdfgen.canvas import Canvas

from connectors.parsers.pdf.layer import TextLayer, verified_page
from connectors.parsers.pdf.tex_letters import replace_words
from retrieval.ports import PageQuality
from tests.connectors.parsers.conftest import Read
from tests.connectors.parsers.test_sideways import drawn

PROSE = [f"Sentence {at} describes the ship that lies in the harbour of the town at noon." for at in range(60)]


def verify(markdown: str, page: str) -> str:
    return verified_page(markdown, TextLayer(page, (), PageQuality(1, 1.0), needs_ocr=False))


def test_a_single_lost_line_of_a_long_page_stands_after_the_block_of_the_line_before() -> None:
    markdown = f"{' '.join(PROSE[:30])}\n\n{' '.join(PROSE[30:])}"
    text = verify(markdown, "\n".join([*PROSE[:30], "p = 0.114", *PROSE[30:], "172"]))
    assert text == f"{' '.join(PROSE[:30])}\n\np = 0.114\n\n{' '.join(PROSE[30:])}\n\n172"


def test_a_line_with_one_lost_word_is_read_whole() -> None:
    markdown = " ".join(PROSE).replace("Sentence 7 describes", "Sentence describes")
    assert verify(markdown, "\n".join(PROSE)).endswith(f"\n\n{PROSE[7]}")


def test_a_heading_with_the_words_of_a_sentence_is_not_lost() -> None:
    text = verify(" ".join(PROSE), "\n".join(["the harbour", *PROSE]))
    assert text == f"the harbour\n\n{' '.join(PROSE)}"


def test_divided_joined_and_accented_words_and_the_numbers_of_lines_are_not_lost() -> None:
    markdown = "The infor- mation on Q1 of H^(2)O and of hand book, v\u02c6 = \u02dcx, is here.\n\n" + " ".join(PROSE)
    lines = ["The information on Q 1 of H2O and of", "handbook, v\u0302 = x\u0303, is here."]
    assert verify(markdown, "\n".join([*lines, *PROSE])) == markdown
    numbered = [f"{number} {line}" for number, line in enumerate(PROSE, 107)]
    assert verify(" ".join(PROSE), "\n".join(numbered)) == " ".join(PROSE)


def test_lines_outside_all_blocks_of_a_page_with_a_table_keep_their_place(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawCentredString(297, 790, "Frequency of illnesses")
        rows = [("Illness", "Male", "Female"), *((f"Illness {at}", str(41 * at), str(53 * at)) for at in range(1, 9))]
        for at, row in enumerate(rows):
            for column, cell in enumerate(row):
                canvas.drawString(72 + 150 * column, 760 - 14 * at, cell)
        for at, line in enumerate(PROSE[:8]):
            canvas.drawString(72, 560 - 14 * at, line)
        canvas.drawCentredString(297, 40, "171")

    text = read("a.pdf", drawn(draw)).text
    assert "| Illness 8 | 328 | 424 |" in text
    assert text.rstrip().endswith("\n\n171")


def test_ligatures_that_were_taken_for_others_are_read_as_the_page_shows_them() -> None:
    changed = {"di\x1berences": "differences", "difterences": "differences", "Thip": "flip"}
    assert replace_words("no difterences of a coin Thip", changed) == "no differences of a coin flip"
