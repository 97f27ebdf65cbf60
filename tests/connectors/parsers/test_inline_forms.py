"""Superscripts, subscripts, footnote marks, fractions and struck-out text keep their meaning as plain text."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import pytest
from reportlab.pdfgen.canvas import Canvas

from connectors.parsers.inline_forms import LOWERED, RAISED, STRUCK, write_forms
from retrieval.ports import Parsed
from tests.connectors.parsers.conftest import Read
from tests.connectors.parsers.test_office import opened
from tests.connectors.parsers.test_word import word


def flat(parsed: Parsed) -> str:
    return " ".join(parsed.text.split())


def run(text: str, properties: str = "") -> str:
    return f"<w:r><w:rPr>{properties}</w:rPr><w:t xml:space='preserve'>{text}</w:t></w:r>"


UP, DOWN = "<w:vertAlign w:val='superscript'/>", "<w:vertAlign w:val='subscript'/>"
STYLES = (
    "<w:styles xmlns:w='http://schemas.openxmlformats.org/wordprocessingml/2006/main'>"
    f"<w:style w:type='character' w:styleId='Raised'><w:rPr>{UP}</w:rPr></w:style>"
    "<w:style w:type='character' w:styleId='Mark'><w:basedOn w:val='Raised'/></w:style></w:styles>"
)
FOOTNOTES = (
    "<w:footnotes xmlns:w='http://schemas.openxmlformats.org/wordprocessingml/2006/main'>"
    "<w:footnote w:id='7'><w:p><w:r><w:footnoteRef/></w:r><w:r><w:t>Without tax.</w:t></w:r></w:p></w:footnote>"
    "</w:footnotes>"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"10{RAISED.mark('6')} cells", "10^(6) cells"),
        (f"10{RAISED.mark('-')}{RAISED.mark('6')}", "10^(-6)"),
        (f"H{LOWERED.mark('2')}O", "H_(2)O"),
        (f"the 1{RAISED.mark('st')} and 2{RAISED.mark('ème')}", "the 1st and 2ème"),
        (f"Kevlar{RAISED.mark('TM')} and Nylon{RAISED.mark('®')}", "Kevlar™ and Nylon®"),
        (f"25{RAISED.mark('[1]')} euro", "25 [1] euro"),
        (f"{STRUCK.mark('two')} {STRUCK.mark('weeks ')}now", "~~two weeks~~ now"),
        (RAISED.mark("12"), "12"),
        (f"480{RAISED.mark('a')}", "480^(a)"),
        (f"5{RAISED.mark('th')}{RAISED.mark('2')}", "5^(th2)"),
    ],
)
def test_marks_become_plain_text(text: str, expected: str) -> None:
    assert write_forms(text) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (run("25") + run("1", UP) + run(" euro"), "25^(1) euro"),
        (run("10") + run("1", UP) + run("2", UP) + run(" cells"), "10^(12) cells"),
        (run("H") + run("2", DOWN) + run("O"), "H_(2)O"),
        (run("25") + run("1", "<w:rStyle w:val='Mark'/>") + run(" euro"), "25^(1) euro"),
        (run("25") + run("1", "<w:position w:val='6'/><w:sz w:val='14'/>") + run(" euro"), "25^(1) euro"),
        (run("in ") + run("two weeks", "<w:strike/>") + run(" now"), "in ~~two weeks~~ now"),
        (run("in ") + run("two weeks", "<w:strike w:val='0'/>") + run(" now"), "in two weeks now"),
        (
            "<w:r><w:ruby><w:rt><w:r><w:t>かん</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>漢</w:t></w:r></w:rubyBase></w:ruby></w:r>",
            "漢(かん)",
        ),
    ],
)
def test_word_runs(read: Read, body: str, expected: str) -> None:
    assert expected in flat(read("a.docx", word(f"<w:p>{body}</w:p>", styles=STYLES)))


# As Word shows them, drawn from their code.
EQUATIONS = [
    (r"EQ \f(a+b;2)", "a (a+b)/2 b"),
    (r"EQ \r(3,x\,y)", "a ^(3)√(x,y) b"),
    (r"EQ \i\su(k=1,n,\f(1,k))", "a ∑_(k=1)^(n) 1/k b"),
    (r"EQ \b\bc\[(x\s\do5(1))", "a [x_(1)] b"),
    (r'EQ \* jc2 \* "Font:MS" \* hps10 \o\ad(\s\up 9(かん),漢)', "a 漢(かん) b"),
    (r"eq \o\ac(○,12)", "a ⑫ b"),
    (r"PAGE \f(1,2)", "a b"),
]


@pytest.mark.parametrize(("code", "expected"), EQUATIONS)
def test_word_equation_fields(read: Read, code: str, expected: str) -> None:
    parts = "".join(f"<w:r><w:instrText>{part}</w:instrText></w:r>" for part in (code[:7], code[7:]))
    ends = [f"<w:r><w:fldChar w:fldCharType='{end}'/></w:r>" for end in ("begin", "end")]
    body = f"<w:p>{run('a ')}{ends[0]}{parts}{ends[1]}{run(' b')}</w:p>"
    assert expected in flat(read("a.docx", word(body)))


def test_word_footnotes_have_the_number_of_their_mark(read: Read) -> None:
    mark = "<w:r><w:footnoteReference w:id='7'/></w:r>"
    text = flat(read("a.docx", word(f"<w:p>{run('25')}{mark}{run(' euro')}</w:p>", footnotes=FOOTNOTES)))
    assert "25 [1] euro" in text
    assert "Footnote [1]: Without tax." in text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("25<sup>1</sup> euro", "25^(1) euro"),
        ("25<sup><a href='#n1'>1</a></sup> euro", "25 [1] euro"),
        ("25<a href='#n1'><sup>1</sup></a> euro", "25 [1] euro"),
        ("25<sup><a href='#n1'><span>[</span>1<span>]</span></a></sup> euro", "25 [1] euro"),
        ("10<span style='vertical-align: super; font-size: 60%'>6</span> cells", "10^(6) cells"),
        ("CO<sub>2</sub> and <del>old <b>words</b></del> new", "CO_(2) and ~~old words~~ new"),
        ("<span style='text-decoration:line-through'>30</span> 25 euro", "~~30~~ 25 euro"),
        ("<table><tr><th>A<th>B<tr><td>x<td>480<sup>2</sup></table>", "| x | 480^(2) |"),
        ("the 1<sup>st</sup> of May", "the 1st of May"),
        ("<del><p>first</p><p>second</p></del>", "~~first~~ ~~second~~"),
        ("<ruby>東<rt>とう</rt>京<rp>(</rp><rt>きょう</rt><rp>)</rp></ruby>へ", "東京(とうきょう)へ"),
        ("<ruby>北<rt>běi</rt>京<rt>jīng</rt></ruby>", "北京(běi jīng)"),
    ],
)
def test_html(read: Read, source: str, expected: str) -> None:
    assert expected in flat(read("a.html", f"<html><body><div>{source}</div></body></html>".encode()))


def slide(runs: str) -> bytes:
    from pptx import Presentation
    from pptx.util import Inches

    show = Presentation()
    page = show.slides.add_slide(show.slide_layouts[6])
    box = page.shapes.add_textbox(Inches(1), Inches(1), Inches(5), Inches(1))
    box.text_frame.text = "RUNS"
    file, out = io.BytesIO(), io.BytesIO()
    show.save(file)
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(b"<a:r><a:t>RUNS</a:t></a:r>", runs.encode()))
    return out.getvalue()


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ("baseline='30000'", "10^(6) cells"),
        ("baseline='-25000'", "10_(6) cells"),
        ("baseline='0'", "106 cells"),
        ("strike='sngStrike'", "10~~6~~ cells"),
    ],
)
def test_slides(read: Read, properties: str, expected: str) -> None:
    run_properties = f"<a:rPr {properties}><a:solidFill><a:srgbClr val='FF0000'/></a:solidFill></a:rPr>"
    runs = f"<a:r><a:t>10</a:t></a:r><a:r>{run_properties}<a:t>6</a:t></a:r><a:r><a:t> cells</a:t></a:r>"
    assert expected in flat(read("a.pptx", slide(runs)))


def open_document(body: str, styles: str) -> bytes:
    automatic = f"<office:automatic-styles>{styles}</office:automatic-styles>"
    return opened("text", f"{automatic}<office:body><office:text>{body}</office:text></office:body>")


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ("style:text-position='super 58%'", "10^(6) cells"),
        ("style:text-position='33% 58%'", "10^(6) cells"),
        ("style:text-position='sub 58%'", "10_(6) cells"),
        ("style:text-position='0% 100%'", "106 cells"),
        ("style:text-line-through-style='solid'", "10~~6~~ cells"),
    ],
)
def test_open_document(read: Read, properties: str, expected: str) -> None:
    style = f"<style:style style:name='T1' style:family='text'><style:text-properties {properties}/></style:style>"
    body = "<text:p>10<text:span text:style-name='T1'>6</text:span> cells</text:p>"
    assert expected in flat(read("a.odt", open_document(body, style)))


def test_open_document_footnotes_have_the_number_of_their_mark(read: Read) -> None:
    note = (
        "<text:note text:note-class='footnote'><text:note-citation>1</text:note-citation>"
        "<text:note-body><text:p>Without tax.</text:p></text:note-body></text:note>"
    )
    text = flat(read("a.odt", open_document(f"<text:p>25{note} euro</text:p>", "")))
    assert "25 [1] euro" in text
    assert "Footnote [1]: Without tax." in text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r"10{\super 6} cells", "10^(6) cells"),
        (r"10\super 6\nosupersub  cells", "10^(6) cells"),
        (r"10{\up6\fs14 6} cells", "10^(6) cells"),
        (r"H{\sub 2}O", "H_(2)O"),
        (r"in {\strike two weeks} now", "in ~~two weeks~~ now"),
        (r"10{\super\u8722?\'36} mol", "10^(\u22126) mol"),
        (r"in {\field{\*\fldinst { EQ \\f(1,2) }}{\fldrslt }} hours", "in 1/2 hours"),
        (r"25{\super\chftn{\footnote {\super\chftn} Without tax.}} euro", "25 [1] euro Footnote [1]: Without tax."),
    ],
)
def test_rich_text(read: Read, source: str, expected: str) -> None:
    text = flat(read("a.rtf", rf"{{\rtf1\ansi {source}\par}}".encode()))
    assert expected in text


def math(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


FRACTION = f"<m:f><m:num>{math('a+b')}</m:num><m:den>{math('c')}</m:den></m:f>"


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (f"<m:sSup><m:e>{FRACTION}</m:e><m:sup>{math('2')}</m:sup></m:sSup>", "((a+b)/c)^(2)"),
        (f"<m:f><m:num>{FRACTION}</m:num><m:den>{math('d')}</m:den></m:f>", "((a+b)/c)/d"),
        (f"<m:sSub><m:e>{math('x')}</m:e><m:sub>{math('max')}</m:sub></m:sSub>", "x_(max)"),
        (f"<m:sSup><m:e><m:d><m:e>{math('x+y')}</m:e></m:d></m:e><m:sup>{math('n')}</m:sup></m:sSup>", "(x+y)^(n)"),
    ],
)
def test_fractions_and_powers_keep_their_brackets(read: Read, formula: str, expected: str) -> None:
    body = f"<w:p>{run('so ')}<m:oMath>{formula}</m:oMath></w:p>"
    assert f"so {expected}" in flat(read("a.docx", word(body)))


def page(draw: Callable[[Canvas], None]) -> bytes:
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=(595, 842))
    canvas.setFont("Helvetica", 10)
    draw(canvas)
    canvas.save()
    return file.getvalue()


def line(canvas: Canvas, y: float, *pieces: tuple[str, float, float]) -> None:
    """Draw pieces of text in a row, each with a size and a rise."""
    text = canvas.beginText(72, y)
    for words, size, rise in pieces:
        text.setFont("Helvetica", size)
        text.setRise(rise)
        text.textOut(words)
    canvas.drawText(text)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ((("The set costs 25", 10, 0), ("1", 6, 4), (" euro in all.", 10, 0)), "costs 25^(1) euro"),
        ((("There are 10", 10, 0), ("-6", 7, 3.5), (" mol in it.", 10, 0)), "are 10^(-6) mol"),
        ((("A tank of H", 10, 0), ("2", 7, -2), ("O is full.", 10, 0)), "of H_(2)O is"),
        ((("It came on the 1", 10, 0), ("st", 6, 4), (" of May.", 10, 0)), "the 1st of May"),
        ((("They are known.", 10, 0), ("12", 6, 4), (" Others are not.", 10, 0)), "known.^(12) Others"),
        ((("The sum (a+b)", 12, 0), ("2", 8, 5), (" is large.", 12, 0)), "(a+b)^(2) is"),
        ((("Only 25 of 251", 10, 0), (" are here, in small ", 7, 0), ("print", 10, 0)), "25 of 251 are here"),
    ],
)
def test_pdf_scripts(read: Read, pieces: tuple[tuple[str, float, float], ...], expected: str) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(72, 760, "The old set costs 251 euro and 106 cells in 480 boxes.")
        line(canvas, 740, *pieces)

    text = flat(read("a.pdf", page(draw)))
    assert expected in text
    assert "old set costs 251 euro and 106 cells" in text


def test_excel_cells(read: Read) -> None:
    from openpyxl import Workbook
    from openpyxl.cell.rich_text import CellRichText, TextBlock
    from openpyxl.cell.text import InlineFont
    from openpyxl.styles import Font

    book = Workbook()
    up = InlineFont(vertAlign="superscript")
    book.active.append(["Item", "Stock", "Area"])
    book.active.append(["Valve", CellRichText("480", TextBlock(up, "2")), CellRichText("12 m", TextBlock(up, "2"))])
    book.active.append(["Pump", 31, CellRichText("H", TextBlock(InlineFont(vertAlign="subscript"), "2"), "O")])
    book.active["B3"].font = Font(strike=True)
    file = io.BytesIO()
    book.save(file)
    text = read("a.xlsx", file.getvalue()).text
    assert "| Valve | 480^(2) | 12 m^(2) |" in text
    assert "| Pump | ~~31~~ | H_(2)O |" in text


A_AND_B_BY_C = "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mi>c</mi></mfrac>"


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("<msup><mi>x</mi><mn>2</mn></msup><mo>=</mo><mn>9</mn>", "so x^(2)=9 holds"),
        (
            f"<msup><mrow><mo>(</mo>{A_AND_B_BY_C}<mo>)</mo></mrow><mn>2</mn></msup>",
            "so ((a+b)/c)^(2) holds",
        ),
        ("<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>", "so x_(i)^(2) holds"),
        ("<semantics><msqrt><mi>x</mi></msqrt><annotation>sqrt x</annotation></semantics>", "so √(x) holds"),
    ],
)
def test_formulas_of_web_pages(read: Read, formula: str, expected: str) -> None:
    page_source = f"<html><body><p>so <math>{formula}</math> holds</p></body></html>"
    assert expected in flat(read("a.html", page_source.encode()))
    assert expected in flat(read("a.html", page_source.encode()))


@pytest.mark.parametrize(
    ("rise", "expected"), [(3, "in ~~two weeks~~ or"), (-2, "in two weeks or"), (9, "in two weeks or")]
)
def test_pdf_lines_through_text(read: Read, rise: float, expected: str) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(72, 760, "It took two weeks at most.")
        canvas.drawString(72, 740, "Deliver in two weeks or three days.")
        start = 72 + canvas.stringWidth("Deliver in ")
        canvas.setLineWidth(0.6)
        canvas.line(start, 740 + rise, start + canvas.stringWidth("two weeks"), 740 + rise)

    text = flat(read("a.pdf", page(draw)))
    assert expected in text
    assert "took two weeks at" in text
