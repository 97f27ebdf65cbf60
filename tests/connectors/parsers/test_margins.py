"""Notes, comments, text boxes and hidden sheets of Office documents are read."""

from __future__ import annotations

import io
import zipfile

import docx
import openpyxl
import pytest
from openpyxl.comments import Comment
from openpyxl.workbook.defined_name import DefinedName

from tests.connectors.parsers.conftest import Read

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
SHOW = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
    ' xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    ' xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
KIND = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def packed(members: dict[str, str | bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def word(body: str, parts: dict[str, str]) -> bytes:
    """Return a DOCX of a text, with an optional body before the text and further parts."""
    document, file = docx.Document(), io.BytesIO()
    document.add_paragraph("The harbour master keeps a ledger.")
    document.save(file)
    with zipfile.ZipFile(file) as archive:
        members: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    whole = archive_text(members, "word/document.xml")
    members["word/document.xml"] = whole.replace("<w:body>", f"<w:body>{body}", 1)
    relations = archive_text(members, "word/_rels/document.xml.rels")
    for name in parts:
        link = f'<Relationship Id="x{name}" Type="{KIND}/{name}" Target="{name}.xml"/></Relationships>'
        relations = relations.replace("</Relationships>", link)
    members["word/_rels/document.xml.rels"] = relations
    return packed(members | {f"word/{name}.xml": f"<w:{name} {WORD}>{text}</w:{name}>" for name, text in parts.items()})


def archive_text(members: dict[str, str | bytes], name: str) -> str:
    data = members[name]
    return data.decode() if isinstance(data, bytes) else data


def word_paragraph(words: str) -> str:
    return f"<w:p><w:r><w:t>{words}</w:t></w:r></w:p>"


def test_notes_and_comments_of_a_word_document_are_read(read: Read) -> None:
    body = (
        '<w:p><w:r><w:t>Body</w:t></w:r><w:r><w:footnoteReference w:id="2"/><w:endnoteReference w:id="2"/></w:r></w:p>'
    )
    parts = {
        "footnotes": f'<w:footnote w:id="2">{word_paragraph("The footnote speaks of ropes.")}</w:footnote>',
        "endnotes": f'<w:endnote w:id="2">{word_paragraph("The endnote speaks of sails.")}</w:endnote>',
        "comments": f'<w:comment w:id="0" w:author="Ann">{word_paragraph("The comment speaks of tar.")}</w:comment>',
    }
    text = read("notes.docx", word(body, parts)).text
    assert [text.count(phrase) for phrase in ("speaks of ropes", "speaks of sails", "keeps a ledger")] == [1, 1, 1]
    assert "Comment by Ann: The comment speaks of tar." in text


def shape(words: str, placeholder: str = "") -> str:
    properties = (
        '<p:nvSpPr><p:cNvPr id="2" name="x"/><p:cNvSpPr/>' + f"<p:nvPr>{placeholder}</p:nvPr></p:nvSpPr><p:spPr/>"
    )
    return f"<p:sp>{properties}<p:txBody><a:bodyPr/><a:p><a:r><a:t>{words}</a:t></a:r></a:p></p:txBody></p:sp>"


def slide(tag: str, shapes: str) -> str:
    group = '<p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>'
    return f"<p:{tag} {SHOW}><p:cSld><p:spTree>{group}{shapes}</p:spTree></p:cSld></p:{tag}>"


def relations(*links: tuple[str, str]) -> str:
    items = (f'<Relationship Id="rId{n}" Type="{KIND}/{kind}" Target="{at}"/>' for n, (kind, at) in enumerate(links, 1))
    space = "http://schemas.openxmlformats.org/package/2006/relationships"
    return f'<Relationships xmlns="{space}">{"".join(items)}</Relationships>'


def presentation(shapes: str, parts: dict[str, str], *links: tuple[str, str]) -> bytes:
    """Return a PPTX of one slide; `links` are the relations of the slide."""
    main = "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml"
    types = (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/ppt/presentation.xml" ContentType="{main}"/></Types>'
    )
    return packed(
        {
            "[Content_Types].xml": types,
            "_rels/.rels": relations(("officeDocument", "ppt/presentation.xml")),
            "ppt/presentation.xml": (
                f'<p:presentation {SHOW}><p:sldIdLst><p:sldId id="256" r:id="rId1"/></p:sldIdLst></p:presentation>'
            ),
            "ppt/_rels/presentation.xml.rels": relations(("slide", "slides/slide1.xml")),
            "ppt/slides/slide1.xml": slide("sld", shapes),
            "ppt/slides/_rels/slide1.xml.rels": relations(*links),
            **parts,
        }
    )


def test_speaker_notes_and_comments_of_a_presentation_are_read(read: Read) -> None:
    notes = shape("Mention the ropes.", '<p:ph type="body"/>') + shape("7", '<p:ph type="sldNum"/>')
    parts = {
        "ppt/notesSlides/notesSlide1.xml": slide("notes", notes),
        "ppt/notesSlides/_rels/notesSlide1.xml.rels": relations(("slide", "../slides/slide1.xml")),
        "ppt/comments/comment1.xml": f"<p:cmLst {SHOW}><p:cm><p:text>Ask for sails.</p:text></p:cm></p:cmLst>",
    }
    links = (("notesSlide", "../notesSlides/notesSlide1.xml"), ("comments", "../comments/comment1.xml"))
    data = presentation(shape("The harbour"), parts, *links)
    text = read("deck.pptx", data).text
    assert "The harbour" in text
    assert "Notes on slide 1: Mention the ropes.\n" in text
    assert "Comment: Ask for sails." in text


def test_a_picture_that_leads_nowhere_does_not_keep_a_presentation_from_being_read(read: Read) -> None:
    about = '<p:nvPicPr><p:cNvPr id="3" name="x"/><p:cNvPicPr/><p:nvPr/></p:nvPicPr>'
    picture = f'<p:pic>{about}<p:blipFill><a:blip r:link="rId9"/></p:blipFill><p:spPr/></p:pic>'
    text = read("deck.pptx", presentation(shape("The harbour") + picture + shape("The quay"), {})).text
    assert "The harbour" in text
    assert "The quay" in text


def test_hidden_sheets_and_comments_of_a_workbook_are_read(read: Read) -> None:
    book, file = openpyxl.Workbook(), io.BytesIO()
    sheet = book.worksheets[0]
    sheet["A1"], sheet["A2"] = "Item", "Rope"
    sheet["A2"].comment = Comment("Buy the long one", "Ann")
    hidden = book.create_sheet("Store")
    hidden["A1"], hidden.sheet_state = "Tar in barrels", "hidden"
    book.save(file)
    text = read("book.xlsx", file.getvalue()).text
    assert "Tar in barrels" in text
    assert "Comment on A2: Buy the long one" in text


CHARTS = "http://schemas.openxmlformats.org/drawingml/2006/chart"


def test_charts_diagrams_and_text_boxes_on_a_sheet_are_read(read: Read) -> None:
    book, file = openpyxl.Workbook(), io.BytesIO()
    book.worksheets[0]["A1"] = "Rope"
    book.save(file)
    with zipfile.ZipFile(file) as archive:
        members: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    words = "<a:p><a:r><a:t>{}</a:t></a:r></a:p>"
    cache = "<c:{0}><c:{1}><c:pt idx='0'><c:v>{2}</c:v></c:pt></c:{1}></c:{0}>"
    series = "".join(cache.format(*part) for part in (("tx", "strCache", "Brigs"), ("val", "numCache", "0.5")))
    title = f"<c:title><c:tx><c:rich>{words.format('Ships by year')}</c:rich></c:tx></c:title>"
    plot = f"<c:plotArea><c:barChart><c:ser>{series}</c:ser></c:barChart></c:plotArea>"
    members["xl/charts/chart1.xml"] = (
        f"<c:chartSpace xmlns:c='{CHARTS}' {SHOW}><c:chart>{title}{plot}</c:chart></c:chartSpace>"
    )
    dgm = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
    drawn = f"<c:chart xmlns:c='{CHARTS}' r:id='rId1'/><d:relIds xmlns:d='{dgm}' r:dm='rId2'/>"
    members["xl/drawings/drawing1.xml"] = f"<x {SHOW}>{words.format('Figures before the audit.')}{drawn}</x>"
    members["xl/diagrams/data1.xml"] = f"<x {SHOW}>{words.format('First the pilot, then the tug.')}</x>"
    members["xl/worksheets/_rels/sheet1.xml.rels"] = relations(("drawing", "../drawings/drawing1.xml"))
    members["xl/drawings/_rels/drawing1.xml.rels"] = relations(
        ("chart", "../charts/chart1.xml"), ("diagramData", "../diagrams/data1.xml")
    )
    text = read("book.xlsx", packed(members)).text
    assert "Chart: Ships by year\n\n| Category | Brigs |\n| --- | --- |\n| 1 | 0.5 |" in text
    assert "Figures before the audit." in text
    assert "First the pilot, then the tug." in text


NEW_CHARTS = "http://schemas.microsoft.com/office/drawing/2014/chartex"


def points(*texts: str, first: int = 0) -> str:
    return "".join(f"<c:pt idx='{at}'><c:v>{text}</c:v></c:pt>" for at, text in enumerate(texts, first))


def values(name: str, *texts: str) -> str:
    return f"<c:{name}><c:numLit>{points(*texts)}</c:numLit></c:{name}>"


def series(inner: str) -> str:
    return f"<c:ser><c:tx><c:v>Brigs</c:v></c:tx>{inner}</c:ser>"


XY = values("xVal", "1") + values("yVal", "2")
STORM = "<c:tx><c:rich><a:p><a:r><a:t>Storm</a:t></a:r></a:p></c:rich></c:tx>"
LABEL = f"<c:dLbls><c:dLbl><c:idx val='0'/>{STORM}</c:dLbl></c:dLbls>"
QUARTERS = f"<c:lvl>{points('Q1', 'Q2', 'Q3')}</c:lvl><c:lvl>{points('2025', '2026')}</c:lvl>"
LEVELS = f"<c:cat><c:multiLvlStrRef>{QUARTERS}</c:multiLvlStrRef></c:cat>{values('val', '5', '6', '7')}"
FLOWS = "<c:lvl formatCode='0.0'><c:pt idx='0'>5</c:pt><c:pt idx='1'>-2</c:pt></c:lvl>"
NEW_SERIES = (
    f"<c:data id='0'><c:strDim><c:f>_xlchart.v1.0</c:f></c:strDim><c:numDim type='val'>{FLOWS}</c:numDim></c:data>"
    "<c:chart><c:title><c:tx><c:v>Cash</c:v></c:tx></c:title>"
    "<c:series><c:tx><c:v>Flow</c:v></c:tx><c:dataId val='0'/></c:series></c:chart>"
)


@pytest.mark.parametrize(
    ("space", "inner", "lines"),
    [
        (
            CHARTS,
            series(XY + values("bubbleSize", "30")),
            ["| Category | Brigs | Brigs (size) |", "| --- | --- | --- |", "| 1 | 2 | 30 |"],
        ),
        (CHARTS, series(LABEL + XY), ["| 1 | 2 |", "", "Label of 1: Storm"]),
        (CHARTS, series(LEVELS), ["| 2025 / Q1 | 5 |", "| 2026 / Q2 | 6 |", "| 2026 / Q3 | 7 |"]),
        (
            NEW_CHARTS,
            NEW_SERIES,
            ["Chart: Cash", "", "| Category | Flow |", "| --- | --- |", "| Rope | 5.0 |", "| Tar | -2.0 |"],
        ),
    ],
)
def test_all_values_of_a_chart_are_read(read: Read, space: str, inner: str, lines: list[str]) -> None:
    book, file = openpyxl.Workbook(), io.BytesIO()
    book.worksheets[0]["A1"], book.worksheets[0]["A2"] = "Rope", "Tar"
    book.defined_names["_xlchart.v1.0"] = DefinedName("_xlchart.v1.0", attr_text="Sheet!$A$1:$A$2")
    book.save(file)
    with zipfile.ZipFile(file) as archive:
        members: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    members["xl/charts/chart1.xml"] = f"<c:chartSpace xmlns:c='{space}' {SHOW}>{inner}</c:chartSpace>"
    members["xl/charts/_rels/chart1.xml.rels"] = relations(("chartUserShapes", "../drawings/shape1.xml"))
    members["xl/drawings/shape1.xml"] = f"<x {SHOW}><a:p><a:r><a:t>Blown ashore</a:t></a:r></a:p></x>"
    old = "<a:p><a:r><a:t>This chart needs a newer program</a:t></a:r></a:p>"
    drawn = f"<m:Choice><c:chart xmlns:c='{space}' r:id='rId1'/></m:Choice><m:Fallback>{old}</m:Fallback>"
    compatible = "http://schemas.openxmlformats.org/markup-compatibility/2006"
    members["xl/drawings/drawing1.xml"] = (
        f"<x {SHOW} xmlns:m='{compatible}'><m:AlternateContent>{drawn}</m:AlternateContent></x>"
    )
    members["xl/worksheets/_rels/sheet1.xml.rels"] = relations(("drawing", "../drawings/drawing1.xml"))
    members["xl/drawings/_rels/drawing1.xml.rels"] = relations(("chart", "../charts/chart1.xml"))
    text = read("book.xlsx", packed(members)).text
    assert "\n".join(lines) in text
    assert "Blown ashore" in text
    assert "newer program" not in text
