"""A Word document is read in visual order, without repetition."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.parsers.parser import document_parser
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


def symbol(font: str, code: str) -> str:
    return f"<w:r><w:sym w:font='{font}' w:char='{code}'/></w:r>"


def form(choice: str) -> str:
    return f"<w:r><w:fldChar w:fldCharType='begin'><w:ffData>{choice}</w:ffData></w:fldChar></w:r>"


SQUARE = formula(
    "<m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup><m:r><m:t>&lt;9</m:t></m:r>"
)
SINE, ANGLE = "<m:r><m:t>sin</m:t></m:r>", "<m:r><m:t>a</m:t></m:r>"
COLOURS = "<w:listEntry w:val='Red'/><w:listEntry w:val='Blue'/>"
CELL = f"<w:tc>{paragraph(run('P&amp;L'))}</w:tc>"
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
        return " ".join(document_parser().parse(raw, OcrStrategy.BASIC_PARSER).text.split())

    return of


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (paragraph(run("R&amp;D at AT&amp;T: a &lt; b &gt; c, &quot;so&quot;")), 'R&D at AT&T: a < b > c, "so"'),
        (paragraph(run("caf&#233; &#x1F600; &#1593;&#1585;&#1576;")), "café 😀 عرب"),
        (
            f"<w:tbl><w:tr>{CELL}{CELL}</w:tr></w:tbl>",
            "| P&L | P&L | | --- | --- |",
        ),
        (paragraph(run("Name:"), "<w:r><w:tab/></w:r>", run("Ann")), "Name: Ann"),
        (paragraph(run("e"), "<w:r><w:noBreakHyphen/></w:r>", run("mail")), "e-mail"),
        (paragraph(run("ship"), "<w:r><w:softHyphen/></w:r>", run("wreck")), "shipwreck"),
        (paragraph(run("one"), "<w:r><w:cr/></w:r>", run("two")), "one two"),
        (paragraph("<w:moveFrom>", run("The seal."), "</w:moveFrom>", run("Then.")), "Then."),
        (paragraph(run("Where "), SQUARE, run(" holds.")), "Where x^(2)<9 holds."),
        (paragraph(formula(f"<m:func><m:fName>{SINE}</m:fName><m:e>{ANGLE}</m:e></m:func>")), "sin a"),
        (paragraph(symbol("Wingdings", "F0FE"), run(" insured")), "☑ insured"),
        (paragraph(symbol("Symbol", "F061"), run("-decay")), "\u03b1-decay"),
        (paragraph(form(f"<w:ddList><w:result w:val='1'/>{COLOURS}</w:ddList>"), run(" hull")), "Blue hull"),
        (paragraph(form("<w:checkBox><w:default w:val='0'/><w:checked/></w:checkBox>"), run(" paid")), "☒ paid"),
        (paragraph(form("<w:checkBox><w:default w:val='0'/></w:checkBox>"), run(" due")), "☐ due"),
        (paragraph("<w:r><w:rPr><w:vanish/></w:rPr><w:t>Unseen</w:t></w:r>", run("Seen")), "Seen"),
        (paragraph("<w:r><w:rPr><w:vanish w:val='0'/></w:rPr><w:t>Seen</w:t></w:r>"), "Seen"),
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


def test_a_footnote_breaks_no_sentence_and_is_read_once(read: Read) -> None:
    body = paragraph(run("It rose"), "<w:r><w:footnoteReference w:id='2'/></w:r>", run(" fast."))
    assert read(body, footnotes=NOTES) == "It rose [1] fast. Footnote [1]: Tide & wind."


def numbered(text: str, level: int, number: int = 1) -> str:
    about = f"<w:pPr><w:numPr><w:ilvl w:val='{level}'/><w:numId w:val='{number}'/></w:numPr></w:pPr>"
    return f"<w:p>{about}{run(text)}</w:p>"


def level(depth: int, form: str, text: str, properties: str = "") -> str:
    start = "<w:start w:val='1'/>"
    return f"<w:lvl w:ilvl='{depth}'>{start}<w:numFmt w:val='{form}'/>{properties}<w:lvlText w:val='{text}'/></w:lvl>"


CLAUSES = "".join(
    [
        level(0, "decimal", "%1."),
        level(1, "decimal", "%1.%2"),
        level(2, "decimal", "%1.%2.%3"),
        level(3, "lowerLetter", "(%4)"),
        level(4, "upperRoman", "Annex %5:"),
    ]
)
RESTARTED = "<w:lvlOverride w:ilvl='0'><w:startOverride w:val='7'/></w:lvlOverride>"
RESTARTED_BELOW = RESTARTED.replace("ilvl='0'", "ilvl='1'")
NUMBERING = (
    f"<w:numbering {SPACES}><w:abstractNum w:abstractNumId='0'>{CLAUSES}</w:abstractNum>"
    f"<w:abstractNum w:abstractNumId='1'>{level(0, 'bullet', '-')}</w:abstractNum>"
    "<w:num w:numId='1'><w:abstractNumId w:val='0'/></w:num><w:num w:numId='2'><w:abstractNumId w:val='1'/></w:num>"
    f"<w:num w:numId='3'><w:abstractNumId w:val='0'/>{RESTARTED}</w:num>"
    f"<w:num w:numId='4'><w:abstractNumId w:val='0'/>{RESTARTED}{RESTARTED_BELOW}</w:num></w:numbering>"
)


@pytest.mark.parametrize(
    ("levels", "labels"),
    [
        ([0, 0, 1, 1, 2, 3, 3, 0, 1, 2], ["1.", "2.", "2.1", "2.2", "2.2.1", "(a)", "(b)", "3.", "3.1", "3.1.1"]),
        ([2, 1, 4], ["1.1.1", "1.2", "Annex I:"]),
    ],
)
def test_clauses_carry_the_numbers_that_word_shows(read: Read, levels: list[int], labels: list[str]) -> None:
    body = "".join(numbered(f"Clause {at}.", depth) for at, depth in enumerate(levels))
    clauses = [f"{label} Clause {at}." for at, label in enumerate(labels)]
    assert read(body, numbering=NUMBERING) == " ".join(clauses)


def test_a_list_continues_after_other_text_and_honours_its_start(read: Read) -> None:
    body = numbered("One.", 0) + paragraph(run("Between.")) + numbered("Two.", 0)
    body += numbered("Ropes", 0, 2) + numbered("Seven.", 0, 3) + numbered("Eight.", 0, 3)
    assert read(body, numbering=NUMBERING) == "1. One. Between. 2. Two. - Ropes 7. Seven. 8. Eight."


def test_a_list_that_begins_anew_at_a_deeper_level_goes_on_above_it(read: Read) -> None:
    body = numbered("One.", 0) + numbered("Two.", 0) + numbered("Seven.", 1, 4) + numbered("Eight.", 1, 4)
    assert read(body + numbered("Three.", 0), numbering=NUMBERING) == "1. One. 2. Two. 2.7 Seven. 2.8 Eight. 3. Three."


def test_an_empty_clause_takes_a_number_and_a_deleted_one_none(read: Read) -> None:
    empty = numbered("", 0)
    deleted = empty.replace("</w:numPr>", "</w:numPr><w:rPr><w:del/></w:rPr>")
    body = numbered("One.", 0) + empty + numbered("Three.", 0) + deleted + numbered("Four.", 0)
    assert read(body, numbering=NUMBERING) == "1. One. 3. Three. 4. Four."


def test_the_style_of_a_heading_brings_its_number(read: Read) -> None:
    numbering = "<w:numPr><w:ilvl w:val='1'/><w:numId w:val='1'/></w:numPr>"
    styles = (
        f"<w:styles {SPACES}><w:style w:styleId='H'><w:name w:val='heading 2'/><w:pPr>{numbering}</w:pPr></w:style>"
        "<w:style w:styleId='Own'><w:name w:val='Own'/><w:basedOn w:val='H'/></w:style></w:styles>"
    )
    heading = f"<w:p><w:pPr><w:pStyle w:val='Own'/></w:pPr>{run('Price')}</w:p>"
    body = numbered("Goods.", 0) + heading + heading
    assert read(body, numbering=NUMBERING, styles=styles) == "1. Goods. ## 1.1 Price ## 1.2 Price"


def cell(text: str, about: str = "") -> str:
    return f"<w:tc><w:tcPr>{about}</w:tcPr>{paragraph(run(text))}</w:tc>"


def test_the_text_of_a_merged_cell_stands_in_every_row_and_column_that_it_covers(read: Read) -> None:
    wide, first, continued = "<w:gridSpan w:val='2'/>", "<w:vMerge w:val='restart'/>", "<w:vMerge/>"
    rows = [
        cell("Fees 2026", "<w:gridSpan w:val='3'/>"),
        cell("Berth") + cell("Summer", wide),
        cell("North|quay", first) + cell("12") + cell(""),
        cell("", continued) + cell("") + cell("95"),
    ]
    table = f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"
    lines = "| Fees 2026 | | | | --- | --- | --- | "
    lines += "| Berth | Summer | Summer | | North\\|quay | 12 | | | North\\|quay | | 95 |"
    assert read(table) == lines


def test_content_controls_insertions_and_tables_in_cells_are_read_and_deleted_rows_are_not(read: Read) -> None:
    control = f"<w:sdt><w:sdtPr/><w:sdtContent>{paragraph(run('Chosen.'))}</w:sdtContent></w:sdt>"
    inner = f"<w:tbl><w:tr>{cell('in 1')}{cell('in 2')}</w:tr></w:tbl>"
    deleted_row = f"<w:tr><w:trPr><w:del/></w:trPr>{cell('Gone')}{cell('Gone')}</w:tr>"
    rows = (
        f"<w:sdt><w:sdtContent><w:tr>{cell('Key')}<w:tc>{inner}<w:p/></w:tc></w:tr></w:sdtContent></w:sdt>{deleted_row}"
    )
    line = (
        f"<w:p>{run('Is ')}<w:ins>{run('new')}</w:ins><w:sdt><w:sdtContent>{run(' here')}</w:sdtContent></w:sdt></w:p>"
    )
    assert read(control + line + f"<w:tbl>{rows}</w:tbl>") == "Chosen. Is new here | Key | in 1 in 2 | | --- | --- |"


def test_headers_and_footers_follow_once_and_bare_page_numbers_do_not(read: Read) -> None:
    header = f"<w:hdr {SPACES}>{paragraph(run('Confidential'))}</w:hdr>"
    number = f"<w:ftr {SPACES}>{paragraph(run('7'))}</w:ftr>"
    assert read(paragraph(run("Body.")), header1=header, header2=header, footer1=number) == "Body. Confidential"
