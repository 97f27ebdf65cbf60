"""What the library would lose of a Word document is in its text, once and in order."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.parsers.formats import docx_repair
from connectors.parsers.parser import parser
from retrieval.ports import OcrStrategy, RawContent

SPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)
TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="xml" ContentType="application/xml"/></Types>'
)
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
NOTE = "<w:footnote w:id='2'><w:p><w:r><w:t>Tide &amp; wind.</w:t></w:r></w:p></w:footnote>"
NOTES = f"<w:footnotes {SPACES}>{NOTE}</w:footnotes>"
Read = Callable[..., str]


def run(text: str) -> str:
    return f"<w:r><w:t xml:space='preserve'>{text}</w:t></w:r>"


def paragraph(*runs: str) -> str:
    return f"<w:p>{''.join(runs)}</w:p>"


def formula(inner: str) -> str:
    return f"<m:oMath>{inner}</m:oMath>"


SQUARE = formula(
    "<m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup><m:r><m:t>&lt;9</m:t></m:r>"
)
BOX = f"<w:txbxContent>{paragraph(run('In a box.'))}</w:txbxContent>"


def word(body: str, main: str = "document.xml", **parts: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("[Content_Types].xml", TYPES)
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{RELATIONS}"><Relationship Id="a" Target="word/{main}" '
            'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"/></Relationships>',
        )
        archive.writestr(f"word/{main}", f"<w:document {SPACES}><w:body>{body}</w:body></w:document>")
        for name, data in parts.items():
            archive.writestr(f"word/{name}.xml", data)
    return file.getvalue()


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def of(body: str, main: str = "document.xml", **parts: str) -> str:
        path = tmp_path / "raw"
        path.write_bytes(word(body, main, **parts))
        raw = RawContent(path, "report.docx", "", path.stat().st_size)
        return " ".join(parser().parse(raw, OcrStrategy.BASIC_PARSER).text.split())

    return of


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (paragraph(run("R&amp;D at AT&amp;T: a &lt; b &gt; c, &quot;so&quot;")), 'R&D at AT&T: a < b > c, "so"'),
        (paragraph(run("caf&#233; &#x1F600; &#1593;&#1585;&#1576;")), "café 😀 عرب"),
        (f"<w:tbl><w:tr><w:tc>{paragraph(run('P&amp;L'))}</w:tc></w:tr></w:tbl>", "| P&L | | --- |"),
        (paragraph(run("Name:"), "<w:r><w:tab/></w:r>", run("Ann")), "Name: Ann"),
        (paragraph(run("e"), "<w:r><w:noBreakHyphen/></w:r>", run("mail")), "e-mail"),
        (paragraph(run("ship"), "<w:r><w:softHyphen/></w:r>", run("wreck")), "shipwreck"),
        (paragraph(run("one"), "<w:r><w:cr/></w:r>", run("two")), "one two"),
        (paragraph("<w:moveFrom>", run("The seal."), "</w:moveFrom>", run("Then.")), "Then."),
        (paragraph(run("Where "), SQUARE, run(" holds.")), "Where x^2<9 holds."),
    ],
)
def test_no_sign_of_a_paragraph_is_lost(read: Read, body: str, text: str) -> None:
    assert read(paragraph(run("Before.")) + body + paragraph(run("After."))) == f"Before. {text} After."


def test_a_paragraph_that_carries_a_text_box_keeps_its_words_and_the_box_follows_once(read: Read) -> None:
    either = f"<mc:Choice>{BOX}</mc:Choice><mc:Fallback>{BOX}</mc:Fallback>"
    drawn = f"<w:r><mc:AlternateContent>{either}</mc:AlternateContent></w:r>"
    body = paragraph(run("The anchor"), drawn, run(" holds.")) + paragraph(run("After."))
    assert read(body) == "The anchor holds. In a box. After."


def test_a_formula_in_a_line_of_its_own_stays_one(read: Read) -> None:
    fraction = "<m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:r><m:t>b</m:t></m:r></m:den></m:f>"
    apart = f"<m:oMathPara>{formula(fraction)}</m:oMathPara>"
    assert read(paragraph(apart) + paragraph(run("After."))) == r"$$\frac{a}{b}$$ After."
    assert read(paragraph(run("So:"), apart)) == r"So: $$\frac{a}{b}$$"


def test_a_main_part_of_another_name_is_read(read: Read) -> None:
    assert read(paragraph(run("Saved online.")), main="document2.xml") == "Saved online."


def test_a_footnote_breaks_no_sentence_and_is_told_once(read: Read) -> None:
    body = paragraph(run("It rose"), "<w:r><w:footnoteReference w:id='2'/></w:r>", run(" fast."))
    assert read(body, footnotes=NOTES) == "It rose fast. Footnote: Tide & wind."


def test_what_cannot_be_mended_is_left_to_the_library(tmp_path: Path) -> None:
    declared = f'<!DOCTYPE x [<!ENTITY a "b">]><w:document {SPACES}/>'
    for number, part in enumerate((declared, "<broken")):
        path = tmp_path / str(number)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("word/document.xml", part)
        assert docx_repair.readable(path) == path
