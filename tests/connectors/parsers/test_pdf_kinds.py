"""Pages of contents, formulas, code and forms in PDFs."""

from __future__ import annotations

import pytest
from liteparse.types import AnnotationRect, LayoutBlock, ParsedPage, TextItem
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

from connectors.parsers.inline_forms import LOWERED, write_forms
from connectors.parsers.pdf import markdown
from connectors.parsers.pdf.formulas import write_formulas
from connectors.parsers.pdf.running_text import correct_blocks, find_running_font
from connectors.parsers.pdf.scripts import Script, mark_scripts
from tests.connectors.parsers.conftest import Read
from tests.connectors.parsers.test_sideways import drawn

CHAPTERS = ("Introduction", "Valves", "Pumps", "Repairs", "Storage", "Orders", "Prices", "Returns")


@pytest.mark.parametrize("dots", [". " * 60, "." * 100, "\u2026" * 30], ids=["spaced", "close", "ellipses"])
def test_dot_leaders_of_contents_are_one_ellipsis(read: Read, dots: str) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(72, 760, "Contents")
        for number, chapter in enumerate(CHAPTERS, 1):
            canvas.drawString(72, 740 - 16 * number, f"{number} {chapter} {dots} {3 * number}")

    parsed = read("a.pdf", drawn(draw))
    assert "1 Introduction \u2026 3\n2 Valves \u2026 6\n" in parsed.text
    assert parsed.text.count(".") == 0
    assert [quality.quality for quality in parsed.qualities] == [1.0]
    assert "notice" not in parsed.properties


def test_three_dots_stay(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(72, 740, "They waited . . . and waited ... until noon.")

    assert "waited . . . and waited ... until" in read("a.pdf", drawn(draw)).text


def write_pieces(canvas: Canvas, y: float, font: str, *pieces: tuple[str, float, float]) -> None:
    """Draw pieces of a line, each with a size and a rise."""
    text = canvas.beginText(72, y)
    for words, size, rise in pieces:
        text.setFont(font, size)
        text.setRise(rise)
        text.textOut(words)
    canvas.drawText(text)


def test_scripts_of_a_formula_are_marked_and_words_with_the_same_letters_are_not(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(72, 780, "The function has an objective, and each unit of the sum counts.")
        pieces = [piece for at in "12n" for piece in ((f"{'+' if at > '1' else 'Here z='}c", 11, 0), (at, 7, -3))]
        write_pieces(canvas, 740, "Times-Italic", *pieces, (" holds for x", 11, 0), ("n", 7, -3), (" in it.", 11, 0))
        for line in range(8):
            canvas.drawString(72, 700 - 14 * line, "The set of the rest is of no interest here, as was said above.")

    text = read("a.pdf", drawn(draw)).text
    assert "z=c_(1)+c_(2)+c_(n)" in text.replace(" ", "").replace("*", "")
    assert "x_(n)" in text
    assert "The function has an objective, and each unit of the sum counts." in text
    assert not {"$", "{", "}"} & {*text}


@pytest.mark.parametrize(
    ("latex", "plain"),
    [
        (r"so $z=c_{1}x_{1}+\ldots $ holds", "so z=c_(1)x_(1)+\u2026 holds"),
        (r"so $\frac{a+b}{c}\leq \sqrt{x}^{2}$ holds", "so (a+b)/c\u2264 \u221ax^(2) holds"),
        (r"so $\sqrt{x+1}\Lambda =\lambda $ holds", "so \u221a(x+1)\u039b =\u03bb holds"),
        (r"at $\phi \cos ^{-1}\Omega $ and $5", "at \u03c6 cos^(-1)\u03a9 and $5"),
        (r"set \K{V$^{0}$} in code", r"set \K{V$^{0}$} in code"),
    ],
)
def test_formulas_are_plain_and_code_with_dollar_signs_stays(latex: str, plain: str) -> None:
    assert write_forms(write_formulas(latex, r"set \K{V$^{0}$} in code")) == plain


def test_a_script_is_not_marked_within_another_word() -> None:
    script = Script("n", LOWERED, "u", "", "")
    assert mark_scripts("The function of u n holds.", [script]) == "The function of u_(n) holds."
    assert mark_scripts("The function of it holds.", [script]) == "The function of it holds."


def test_lower_letters_of_the_same_size_and_of_code_are_no_scripts(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        write_pieces(canvas, 740, "Courier", ("the name a", 11, 0), ("2", 7, -3), (" is set in print(x", 11, 0))
        write_pieces(canvas, 720, "Helvetica", ("The fi", 11, 0), ("2", 11, -3), (" gauge is low.", 11, 0))

    text = read("a.pdf", drawn(draw)).text
    assert "_(" not in text
    assert "^(" not in text


def test_a_drawn_value_of_a_form_field_is_read_once(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(72, 760, "Application for a berth in the harbour of the town")
        canvas.drawString(72, 706, "Account")
        canvas.acroForm.textfield(name="account", value="DE12 3456 7890", x=200, y=700, width=200, height=20)
        canvas.acroForm.textfield(name="ship", value="Petrel", x=200, y=660, width=200, height=20)

    text = read("a.pdf", drawn(draw)).text
    assert text.count("DE12 3456 7890") == 1
    assert text.count("Petrel") == 1
    assert "Account DE12 3456 7890" in text
    assert "ship: Petrel" in text


def test_brackets_of_the_symbol_font_of_tex_are_brackets(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        text = canvas.beginText(72, 740)
        for font, words in (
            *(("Helvetica", "The command put{"), ("Courier", "h"), ("Helvetica", "name of file"), ("Courier", "i")),
            ("Helvetica", "} stores the high hills of the hinterland."),
        ):
            text.setFont(font, 10)
            text.textOut(words)
        canvas.drawText(text)

    text = read("a.pdf", drawn(draw).replace(b"/BaseFont /Courier ", b"/BaseFont /CMSY10  ")).text
    assert "put{\u27e8name of file\u27e9} stores the high hills of the hinterland." in text


def test_accents_join_the_letter_that_they_are_drawn_above(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        text = canvas.beginText(72, 740)
        for words, space in (
            ("By Hans Br", 0),
            ("\u00a8", -3.33),
            ("oker, who didn\u00b4t write more about the ship.", 0),
        ):
            text.setCharSpace(space)
            text.textOut(words)
        canvas.drawText(text)

    assert "By Hans Br\u00f6ker, who didn\u00b4t write" in read("a.pdf", drawn(draw)).text


def test_an_accent_that_follows_its_word_joins_its_letter(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        text = canvas.beginText(72, 740)
        text.textOut("By Andres Loh")
        back = stringWidth("oh", "Helvetica", 12) - 1
        text.setTextOrigin(text.getX() - back, 740)
        text.textOut("\u00a8")
        canvas.drawText(text)
        canvas.drawString(72, 700, "He writes about ships and the sea.")

    assert "By Andres L\u00f6h" in read("a.pdf", drawn(draw)).text


def test_a_word_divided_after_a_line_with_emphasis_is_one_word() -> None:
    text = "*dot draws directed graphs as a command line pro-* gram, and *neato* draws others."
    block = LayoutBlock(kind="paragraph", text=text)
    assert [*markdown._block_lines(block)] == [
        "dot draws directed graphs as a command line program, and *neato* draws others."
    ]


PANELS = (
    ("Motion", ("n", "p", "u", "t", "d", "C-x k", "C-l", "M-b", "M-f", "C-a")),
    ("Shell", ("cd", "pwd", "ls", "cat", "echo", "kill", "rm", "mv", "cp", "df")),
    ("Signs", ("+", "-", "*", "/", "%", "<", ">", "=", "!", "?")),
)


def test_panels_of_a_reference_card_are_read_one_after_another(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setPageSize((792, 612))
        for panel, (title, names) in enumerate(PANELS):
            left, top = 264 * panel + 20, 580 - 7 * panel
            canvas.setFont("Helvetica-Bold", 12)
            canvas.drawString(left, top, title)
            canvas.setFont("Helvetica", 9)
            for number, name in enumerate(names, 1):
                canvas.drawString(left, top - 16 * number, name)
                canvas.drawString(left + 80, top - 16 * number, f"{title.lower()} of number {number}")

    lines = [
        line
        for title, names in PANELS
        for line in (f"## {title}", *(f"{name} {title.lower()} of number {at}" for at, name in enumerate(names, 1)))
    ]
    assert [line for line in read("card.pdf", drawn(draw)).text.split("\n") if line] == lines


SENTENCE = "The owl hunts mice at night and hears them under the deep snow of the wood behind the house, "


def test_a_first_line_in_the_running_font_is_no_heading_and_a_bold_one_is() -> None:
    lines = [
        ("Night 2 in the wood", "CMBX10"),
        ("This is the report on what they hun-", "CMR10"),
        *(((SENTENCE, "CMR10"),) * 4),
    ]
    items = [TextItem(text, 72, 100 + 12 * at, 5 * len(text), 10, name, 10) for at, (text, name) in enumerate(lines)]
    boxes = [
        AnnotationRect(72, 100, 90, 10),
        AnnotationRect(72, 112, 200, 10),
        AnnotationRect(72, 124, 400, 46),
        AnnotationRect(72, 400, 90, 18),
    ]
    texts = (lines[0][0], lines[1][0], "ted at night.", "4 4 2 2 0")
    kinds = ("heading", "heading", "paragraph", "heading")
    blocks = [LayoutBlock(kind, text, bbox=box) for kind, text, box in zip(kinds, texts, boxes, strict=True)]
    page = ParsedPage(1, 595, 842, "", text_items=items, blocks=blocks)
    corrected = correct_blocks(page, find_running_font([page]))
    assert [(block.kind, block.text) for block in corrected] == [
        ("heading", "Night 2 in the wood"),
        ("paragraph", "This is the report on what they hunted at night."),
        ("paragraph", "4 4 2 2 0"),
    ]


def test_notes_and_line_numbers_in_the_margin_stand_outside_of_sentences(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        for line in range(20):
            canvas.setFont("Times-Roman", 10)
            canvas.drawString(120, 740 - 12 * line, f"{SENTENCE[:-2]}{line + 1:02}")
            canvas.setFont("Times-Italic", 7)
            if line % 5 == 4:
                canvas.drawString(525, 740 - 12 * line, f"{line + 1}")
            if line == 7:
                canvas.drawString(70, 740 - 12 * line, "see Owls")

    text = read("a.pdf", drawn(draw)).text
    body = text.replace("*", "")
    assert "behind the house05 The owl hunts" in body
    assert "behind the house10 The owl hunts" in body
    assert "behind the house07 The owl hunts" in body
    assert "behind the house08 The owl hunts" in body
    assert text.count("see Owls") == 1


def test_entries_of_contents_without_leaders_keep_their_pages(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica-Bold", 12)
        canvas.drawString(72, 770, "Contents")
        for number, chapter in enumerate(CHAPTERS, 1):
            canvas.drawString(72, 750 - 22 * number, f"{number} {chapter}")
            canvas.drawRightString(520, 750 - 22 * number, str(3 * number))

    text = read("a.pdf", drawn(draw)).text
    assert "1 Introduction 3\n2 Valves 6\n3 Pumps 9\n" in text
