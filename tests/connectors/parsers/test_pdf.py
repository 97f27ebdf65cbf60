"""PDFs keep columns, direction, tables and filled-in fields; pages with untrustworthy letters are detected."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from random import Random

import pytest
from reportlab.pdfgen.canvas import Canvas

from bench.parse import drawn, measures
from connectors.parsers import trust
from connectors.parsers.parser import document_parser
from connectors.parsers.pdf.layer import TextLayer, verified_page
from retrieval.errors import Skippable
from retrieval.ports import OcrStrategy, PageQuality, Parsed, RawContent
from retrieval.settings import PROJECT_ROOT

CASES = PROJECT_ROOT.parent / "shared" / "data" / "cases-3"
LANGUAGES: dict[str, str] = json.loads((PROJECT_ROOT / "bench" / "parse" / "languages.json").read_text())
OWL = "The owl hunts mice at night and hears them under the snow."
HARBOUR_WORDS = ("boat", "quay", "crane", "lamp", "rope", "buoy", "winch", "mast", "keel", "hull", "deck", "bow")


def read(path: Path, ocr: OcrStrategy = OcrStrategy.BASIC_PARSER) -> Parsed:
    return document_parser().parse(RawContent(path=path, name=path.name, media_type="", size=path.stat().st_size), ocr)


def shared(name: str) -> Path:
    if not (CASES / name).exists():
        pytest.skip(f"the shared test data is not beside the project: no {CASES / name}")
    return CASES / name


@pytest.mark.shared
def test_columns_that_are_drawn_row_by_row_are_read_one_after_the_other() -> None:
    text = " ".join(read(shared("P1a-two-columns-rows.pdf")).text.split())
    assert "line number 1 of L02 the left story" in text
    assert "row number 1 of R02 the right tale" in text


@pytest.mark.shared
def test_hebrew_in_visual_order_is_read_from_the_right() -> None:
    assert "ההכנסות עלו ל 1250 אלף שקל" in read(shared("P2a-hebrew-visual.pdf")).text


@pytest.mark.shared
def test_a_blank_cell_of_an_invoice_stays_blank() -> None:
    parsed = read(shared("P17e-invoice-grid.pdf"))
    assert "| 3 | Article 03 |  | 9,50 | 21,00 |" in parsed.text
    assert [(q.page, q.quality) for q in parsed.qualities] == [(1, 1.0)]


@pytest.mark.shared
def test_letters_that_lead_nowhere_are_refused_with_the_reason_and_read_by_recognition() -> None:
    path = shared("P3d-identityH-no-tounicode.pdf")
    with pytest.raises(Skippable, match=r"fonts do not say which letters.*STANDARD_OCR"):
        read(path)
    parsed = read(path, OcrStrategy.STANDARD_OCR)
    assert "quarterly revenue of the harbour authority" in parsed.text
    (quality,) = parsed.qualities
    assert quality.recognised
    assert quality.quality > trust.MIN_QUALITY


@pytest.mark.parametrize("maker", ["columns", "right_to_left"])
def test_drawn_pages_are_read_in_order(tmp_path: Path, maker: str) -> None:
    for path, drawing in list(getattr(drawn, f"draw_{maker}")(tmp_path, Random(f"order {maker}")))[::3]:
        assert drawing.words.split() == [word.lstrip("#") for word in read(path).text.split() if word != "#"], path.name


def test_ciphers_are_refused_and_odd_pages_are_not(tmp_path: Path) -> None:
    for path, drawing in drawn.draw_ciphers(tmp_path, Random(5)):
        with pytest.raises(Skippable, match="cannot be read"):
            read(path)
        assert drawing.readable is False
    for path, _ in drawn.draw_odd_pages(tmp_path, Random(5)):
        parsed = read(path)
        assert parsed.qualities[0].quality > trust.MIN_QUALITY, path.name


def test_a_page_of_wrong_letters_among_good_ones_is_left_out_and_named(tmp_path: Path) -> None:
    from pypdfium2 import PdfDocument

    good, bad, whole = tmp_path / "good.pdf", tmp_path / "bad.pdf", tmp_path / "whole.pdf"
    page(good, LANGUAGES["en"])
    wrong = next(path for path, drawing in drawn.draw_ciphers(tmp_path, Random(5)) if "shifted" in drawing.name)
    bad.write_bytes(wrong.read_bytes())
    with PdfDocument.new() as joined:
        for path in (good, bad, good):
            joined.import_pages(PdfDocument(path))
        joined.save(whole)
    parsed = read(whole)
    assert parsed.text.count("quarterly revenue") == 2
    assert parsed.pages[1] == parsed.pages[2]
    assert [q.quality > trust.MIN_QUALITY for q in parsed.qualities] == [True, False, True]
    assert parsed.qualities[1].reasons == (trust.WRONG_LETTERS,)
    assert str(parsed.properties["notice"]).startswith(f"Not read: pages (1): 2. {trust.WRONG_LETTERS}")


def page(path: Path, text: str) -> None:
    canvas = Canvas(str(path))
    for number in range(0, len(text), 90):
        canvas.drawString(40, 780 - number // 6, text[number : number + 90])
    canvas.save()


@pytest.mark.parametrize("code", sorted(LANGUAGES))
def test_the_letters_of_languages_are_expected_and_their_ciphers_are_not(code: str) -> None:
    text = unicodedata.normalize("NFKD", LANGUAGES[code])
    alphabet = sorted({letter for letter in text.lower() if letter.isalpha()})
    turned = str.maketrans("".join(alphabet), "".join(alphabet[7:] + alphabet[:7]))
    assert (trust.rate_plausibility(text) or 0) > 0.8
    if code != "mi":  # 14 letters, which in the other order are a language again
        assert (trust.rate_plausibility(text.lower().translate(turned)) or 0) < trust.MIN_QUALITY


def test_languages_are_named() -> None:
    assert {code: trust.detect_language(text) for code, text in LANGUAGES.items() if code != "mi"} == {
        code: code for code in LANGUAGES if code != "mi"
    }
    assert trust.detect_language("潮汐は月の引力によっておこる。港の水位は一日に二回上下する。") == "ja"
    assert trust.detect_language("AB-12 / 33 x 44") == ""


def line(height: float, *cells: str) -> list[tuple[float, float, str]]:
    return [(60 + 120 * column, height, cell) for column, cell in enumerate(cells) if cell]


CAPTION = "to three questions on the financial literacy task, of which each had one right answer"
TABLES = {
    "values between the two lines of a name": (
        [
            line(760, "Gas", "to air", "to water"), line(748, "Ammonia", "10", "20"),
            line(736, "Chlorine and other"), line(731, "", "30", "40"), line(726, "compounds"),
            line(714, "Halons", "50", "60"), line(702, "Lead", "70", "80"),
        ],
        "| Chlorine and other compounds | 30 | 40 |\n| Halons | 50 | 60 |",
    ),
    "a name of two lines beside two rows": (
        [
            line(760, "Illness", "Kind", "Men"), line(748, "Chronic fatigue", "Count", "19"),
            line(736, "syndrome", "Percentage", "3.8%"), line(724, "Asthma", "Count", "31"),
            line(712, "", "Percentage", "6.3%"), line(700, "Depression", "Count", "48"),
            line(688, "", "Percentage", "9.7%"),
        ],
        "| Chronic fatigue syndrome | Count | 19 |\n|  | Percentage | 3.8% |\n| Asthma | Count | 31 |",
    ),
    "signs of currency and percent in columns of their own": (
        [
            [(60, 760, "Income"), (200, 760, "2022"), (290, 760, "2021"), (380, 760, "Change")],
            *(
                [
                    (60, y, name), (180, y, "$"), (200, y, now), (270, y, "$"), (290, y, then),
                    (380, y, part), (430, y, "%"),
                ]
                for y, name, now, then, part in (
                    (748, "Net sales", "688", "692", "0.6"), (736, "Gross profit", "253", "286", "11.6"),
                    (724, "Operating income", "50", "77", "35.1"), (712, "Net income", "73", "(27)", "372.0"),
                )
            ),
        ],
        "| Income | 2022 | 2021 | Change |\n|---|---|---|---|\n| Net sales | $ 688 | $ 692 | 0.6 % |",
    ),
    "a caption close to its table": (
        [
            [(60, 772, CAPTION)], line(760, "Answers", "Freq.", "Percent", "Cum."),
            line(748, "0", "138", "6.9", "6.9"), line(736, "1", "178", "8.8", "15.7"),
            line(724, "2", "626", "31.1", "46.8"),
        ],
        f"{CAPTION}\n\n| Answers | Freq. | Percent | Cum. |\n|---|---|---|---|\n| 0 | 138 | 6.9 | 6.9 |",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", TABLES)
def test_rows_of_a_table_are_what_a_reader_takes_for_a_row(tmp_path: Path, kind: str) -> None:
    lines, expected = TABLES[kind]
    canvas = Canvas(str(tmp_path / "table.pdf"), pagesize=(595, 842))
    canvas.setFont("Helvetica", 9)
    for x, y, text in (text for line in lines for text in line):
        canvas.drawString(x, y, text)
    canvas.save()
    assert expected in read(tmp_path / "table.pdf").text


def test_drawn_tables_keep_their_headers_rows_and_cells(tmp_path: Path) -> None:
    score = measures.Score()
    for path, drawing in list(drawn.draw_tables(tmp_path, Random(4)))[::2]:
        measures.score_tables(score, drawing.tables, read(path).text)
    assert score.ratio("rows_kept", "rows") == 1.0
    assert (score.f1("relations") or 0) > 0.98


def layer(text: str, *added: str) -> TextLayer:
    return TextLayer(text, added, PageQuality(1, 1.0), needs_ocr=False)


def test_a_line_that_was_lost_is_put_after_its_page() -> None:
    lines = [
        f"Line {number} tells of the {word} that lies in the harbour." for number, word in enumerate(HARBOUR_WORDS)
    ]
    page_text = "## Harbour\n\n" + " ".join(lines[:3] + lines[4:])
    text = verified_page(page_text, layer("\n".join(["Harbour", *lines])))
    assert text.startswith(page_text)
    assert text.rstrip().endswith(lines[3])
    assert text.count(lines[4]) == 1


def test_pages_that_were_lost_or_scrambled_are_read_by_pdfium() -> None:
    assert verified_page("", layer(OWL)) == OWL
    assert verified_page(" ".join(sorted(OWL.split())), layer(OWL)) == OWL
    assert verified_page(f"# {OWL}", layer(OWL)) == f"# {OWL}"


def test_a_filled_form_is_found_by_what_was_filled_in(tmp_path: Path) -> None:
    canvas = Canvas(str(tmp_path / "form.pdf"))
    canvas.drawString(40, 760, "Application for a berth")
    form = canvas.acroForm
    form.textfield(name="owner", tooltip="Name of the owner", value="Ragnhild Solberg", x=40, y=700)
    form.textfield(name="ship", tooltip="Name of the ship", value="", x=40, y=640)
    form.checkbox(name="winter", tooltip="Stays over winter", checked=True, x=40, y=580)
    form.checkbox(name="summer", tooltip="Stays over summer", checked=False, x=40, y=540)
    note = "Send the letter to her daughter. " * 20
    canvas.textAnnotation(note, Rect=[40, 400, 60, 420])
    canvas.save()
    path = tmp_path / "form.pdf"
    raw = RawContent(path=path, name="form.pdf", media_type="", size=path.stat().st_size)
    text = document_parser().parse(raw, OcrStrategy.BASIC_PARSER).text
    assert "Name of the owner: Ragnhild Solberg" in text
    assert "Stays over winter: Yes" in text
    assert text.count("Send the letter to her daughter.") == 20
    assert "Name of the ship" not in text
    assert "summer" not in text
