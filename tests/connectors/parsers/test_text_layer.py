"""What a PDF holds beyond the library's reading of it: lost pages and lines, filled-in fields, notes."""

from __future__ import annotations

from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas

from connectors.parsers.parser import parser
from connectors.parsers.pdf import text_layer
from retrieval.ports import OcrStrategy, RawContent

OWL = "The owl hunts mice at night and hears them under the snow."
SEAL = "The harbour seal dives for up to thirty minutes."
TIDE = "The tide tables of the northern harbours are printed in March of every year by the harbour office."


def pdf(path: Path, *pages: str) -> Path:
    """A PDF with one line of text for each line of a page."""
    canvas = Canvas(str(path))
    for page in pages:
        for number, line in enumerate(page.splitlines()):
            canvas.drawString(40, 700 - 20 * number, line)
        canvas.showPage()
    canvas.save()
    return path


@pytest.mark.decision("H65")
def test_a_page_that_was_lost_stands_at_its_place(tmp_path: Path) -> None:
    file = pdf(tmp_path / "a.pdf", OWL, SEAL, TIDE)
    read = f"{OWL}\n\n{TIDE}\n"
    text, starts = text_layer.completed(file, read, (0, len(OWL) + 2, len(OWL) + 2))
    assert text == f"{OWL}\n\n{SEAL}\n\n{TIDE}\n"
    assert [text[start : start + 8] for start in starts] == [OWL[:8], SEAL[:8], TIDE[:8]]


def test_a_line_that_was_lost_is_put_after_its_page(tmp_path: Path) -> None:
    lines = [f"Line {number} tells of the {word} that lies in the harbour." for number, word in enumerate(WORDS)]
    file = pdf(tmp_path / "a.pdf", "\n".join(lines), OWL)
    kept = "## Harbour\n\n" + " ".join(lines[:3] + lines[4:])
    text, starts = text_layer.completed(file, f"{kept}\n\n{OWL}\n", (0, len(kept) + 2))
    assert text.startswith(kept)
    assert text[: starts[1]].rstrip().endswith(lines[3])
    assert text[starts[1] :] == f"{OWL}\n"
    assert text.count(lines[4]) == 1


WORDS = ("boat", "quay", "crane", "lamp", "rope", "buoy", "winch", "mast", "keel", "hull", "deck", "bow")


@pytest.mark.parametrize("first", [0, len(OWL) - 20, len(OWL) + 20])
def test_what_stands_with_a_neighbour_is_not_doubled(tmp_path: Path, first: int) -> None:
    file = pdf(tmp_path / "a.pdf", OWL, SEAL)
    read = f"{OWL}\n\n{SEAL}\n"
    assert text_layer.completed(file, read, (0, first)) == (read, (0, first))


def test_a_text_without_known_pages_gets_them_when_it_lost_some(tmp_path: Path) -> None:
    file = pdf(tmp_path / "a.pdf", OWL, SEAL)
    text, starts = text_layer.completed(file, f"{OWL}\n", ())
    assert [text[start:].split("\n")[0] for start in starts] == [OWL, SEAL]


def test_a_file_that_cannot_be_opened_stays_as_it_was_read(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\nnothing")
    assert text_layer.completed(tmp_path / "a.pdf", "read\n", (0,)) == ("read\n", (0,))


@pytest.mark.decision("H65")
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
    text = parser().parse(raw, OcrStrategy.BASIC_PARSER).text
    assert "Name of the owner: Ragnhild Solberg" in text
    assert "Stays over winter: Yes" in text
    assert text.count("Send the letter to her daughter.") == 20
    assert "Name of the ship" not in text
    assert "summer" not in text
