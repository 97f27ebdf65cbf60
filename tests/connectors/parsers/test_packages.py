"""Packages of other programs are read by their format or refused by name, never unpacked as archives."""

from __future__ import annotations

import io
import zipfile

import pytest
from pptx import Presentation

from retrieval.errors import Skippable
from tests.connectors.parsers import containers
from tests.connectors.parsers.test_margins import packed
from tests.connectors.parsers.test_office import ODF_XMLNS

pytestmark = pytest.mark.service

OPC = "http://schemas.openxmlformats.org/package/2006/"
DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
ODF = "application/vnd.oasis.opendocument."
VISIO = 'xmlns="http://schemas.microsoft.com/office/visio/2012/main"'


def pack_opc(main: str, members: dict[str, str]) -> bytes:
    """Return an Open Packaging file. `main`: content type of its main part."""
    types = f'<Types xmlns="{OPC}content-types"><Override PartName="/main" ContentType="{main}"/></Types>'
    return packed({"[Content_Types].xml": types, **members})


def relations(**targets: str) -> str:
    """Return relationships by id; each target is "type|address"."""
    lines = ""
    for name, target in targets.items():
        kind, address = target.split("|")
        lines += f'<Relationship Id="{name}" Type="{DOCUMENT}/{kind}" Target="{address}"/>'
    return f'<Relationships xmlns="{OPC}relationships">{lines}</Relationships>'


def change_content_type(data: bytes, old: str, new: str) -> bytes:
    """Change the content type of the main part, as templates and shows do."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    types = parts["[Content_Types].xml"].decode()
    assert old in types
    return packed({**parts, "[Content_Types].xml": types.replace(old, new)})


def shape(number: int, text: str, x: float, y: float, inner: str = "", attributes: str = "") -> str:
    cells = "".join(
        f'<Cell N="{name}" V="{value}"/>' for name, value in (("PinX", x), ("PinY", y), ("Width", 1), ("Height", 0.5))
    )
    words = f"<Text>{text}</Text>" if text else ""
    return f'<Shape ID="{number}"{attributes}>{cells}{inner}{words}</Shape>'


def visio_drawing() -> bytes:
    """A flow of two shapes, a label from a master, a group, shape data, a background page and a comment."""
    data = '<Section N="Property"><Row N="Row_1"><Cell N="Value" V="{}"/>{}</Row></Section>'
    label = '<Cell N="Label" V="Rated power"/>'
    deleted_shape = shape(8, "Removed", 0, 0, attributes=' Del="1"')
    group = f"<Shapes>{shape(6, 'Valve V-12', 0, 0)}{deleted_shape}</Shapes>"
    first = "".join(
        (
            shape(1, "<cp IX='0'/>Feed <cp IX='1'/>water tank", 2, 9),
            shape(2, "Boiler", 6, 9, data.format("40 kW", label)),
            shape(3, "95 °C", 4, 9),
            shape(4, "", 2, 5, attributes=' Master="7"'),
            f'<Shape ID="5"><Cell N="PinX" V="4"/><Cell N="PinY" V="2"/>{group}</Shape>',
        )
    )
    ends = "".join(
        f'<Connect FromSheet="3" FromCell="{cell}" ToSheet="{sheet}"/>' for cell, sheet in (("BeginX", 1), ("EndX", 2))
    )
    page = f"<PageContents {VISIO}><Shapes>{first}</Shapes><Connects>{ends}</Connects></PageContents>"
    back = f"<PageContents {VISIO}><Shapes>{shape(1, 'Plant office Kiel', 1, 1)}</Shapes></PageContents>"
    namespaces = f'{VISIO} xmlns:r="{DOCUMENT}"'
    master = f"<MasterContents {VISIO}><Shapes>{shape(5, 'Circulation pump', 1, 1)}</Shapes></MasterContents>"
    masters = '<Master ID="7" Name="Pump"><Rel r:id="m"/></Master>'
    return pack_opc(
        "application/vnd.ms-visio.drawing.main+xml",
        {
            "_rels/.rels": relations(a="document|visio/document.xml"),
            "visio/document.xml": f"<VisioDocument {VISIO}/>",
            "visio/_rels/document.xml.rels": relations(a="pages|pages/pages.xml", b="masters|masters/masters.xml"),
            "visio/pages/pages.xml": f'<Pages {namespaces}><Page ID="0" Name="Heating circuit"><Rel r:id="b"/></Page>'
            '<Page ID="1" Name="Back" Background="1"><Rel r:id="a"/></Page></Pages>',
            "visio/pages/_rels/pages.xml.rels": relations(b="page|page2.xml", a="page|page1.xml"),
            "visio/pages/page1.xml": back,
            "visio/pages/page2.xml": page,
            "visio/masters/masters.xml": f"<Masters {namespaces}>{masters}</Masters>",
            "visio/masters/_rels/masters.xml.rels": relations(m="master|master1.xml"),
            "visio/masters/master1.xml": master,
            "visio/comments.xml": f"<Comments {VISIO}><CommentList><CommentEntry>Check the seal.</CommentEntry>"
            "</CommentList></Comments>",
        },
    )


@pytest.mark.parametrize("ending", ["vsdx", "vssx", "zip"])
def test_a_visio_drawing_is_read_page_by_page(read, ending):
    parsed = read(f"plant.{ending}", visio_drawing())
    assert not parsed.members
    assert parsed.text.split("\n\n") == [
        "## Heating circuit",
        "Feed water tank",
        "Circulation pump",
        "Valve V-12",
        "Boiler\nRated power: 40 kW",
        "- Feed water tank → Boiler: 95 °C",
        "## Back",
        "Plant office Kiel",
        "Comment: Check the seal.\n",
    ]
    assert parsed.properties["mimeType"] == "application/vnd.ms-visio.drawing"
    assert [parsed.text[start : start + 10] for start in parsed.pages] == ["## Heating", "## Back\n\nP"]


def test_a_drawing_without_lists_of_its_pages_is_read(read):
    page = f"<PageContents {VISIO}><Shapes>{shape(1, 'Boiler BARE', 2, 2)}</Shapes></PageContents>"
    members = {"visio/document.xml": f"<VisioDocument {VISIO}/>", "visio/pages/page1.xml": page}
    assert "Boiler BARE" in read("bare.vsdx", pack_opc("application/vnd.ms-visio.drawing.main+xml", members)).text


def test_a_damaged_drawing_is_refused_by_name(read):
    with pytest.raises(Skippable, match="The Visio drawing file is damaged"):
        read("plant.vsdx", pack_opc("application/vnd.ms-visio.drawing.main+xml", {"visio/document.xml": "<Visio"}))


TEXT = "<office:text><text:p>Words of the template</text:p></office:text>"
PAGE = (
    '<draw:page draw:name="Lay-out"><draw:frame><draw:text-box><text:p>Words of the template</text:p></draw:text-box>'
    "</draw:frame><draw:custom-shape><text:p>Engine room</text:p></draw:custom-shape></draw:page>"
)
SHEET = (
    '<office:spreadsheet><table:table table:name="Costs"><table:table-row><table:table-cell><text:p>'
    "Words of the template</text:p></table:table-cell></table:table-row></table:table></office:spreadsheet>"
)
ODF_KINDS = {
    "ott": ("text-template", TEXT),
    "oth": ("text-web", TEXT),
    "odm": ("text-master", TEXT),
    "ots": ("spreadsheet-template", SHEET),
    "otp": ("presentation-template", f"<office:presentation>{PAGE}</office:presentation>"),
    "odg": ("graphics", f"<office:drawing>{PAGE}</office:drawing>"),
    "otg": ("graphics-template", f"<office:drawing>{PAGE}</office:drawing>"),
}


def open_document(kind: str, body: str) -> dict[str, str]:
    return {
        "mimetype": ODF + kind,
        "content.xml": f"<office:document-content{ODF_XMLNS}><office:body>{body}</office:body>"
        "</office:document-content>",
        "META-INF/manifest.xml": '<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
        f'<m:file-entry m:full-path="/" m:media-type="{ODF}{kind}"/></m:manifest>',
    }


@pytest.mark.parametrize("declared", ["mimetype", "META-INF/manifest.xml"])
@pytest.mark.parametrize("ending", ODF_KINDS)
def test_templates_and_drawings_of_opendocument_are_read(read, ending, declared):
    members = open_document(*ODF_KINDS[ending])
    kept_members = {name: text for name, text in members.items() if name in (declared, "content.xml")}
    parsed = read(f"model.{ending}", packed(kept_members))
    assert "Words of the template" in parsed.text
    assert not parsed.members
    if ending in ("odg", "otg"):
        assert "Engine room" in parsed.text
        assert len(parsed.pages) == 1


@pytest.mark.parametrize(
    ("ending", "old", "new"),
    [
        ("dotx", "wordprocessingml.document.main", "wordprocessingml.template.main"),
        ("potx", "presentationml.presentation.main", "presentationml.template.main"),
        ("ppsx", "presentationml.presentation.main", "presentationml.slideshow.main"),
        ("xltx", "spreadsheetml.sheet.main", "spreadsheetml.template.main"),
    ],
)
def test_templates_and_shows_of_office_are_read(read, ending, old, new):
    make_file = {"dotx": containers.docx, "xltx": containers.xlsx}.get(ending, slides)
    _, data = make_file("Canarytemplate")
    parsed = read(f"model.{ending}", change_content_type(data, old, new))
    assert "Canarytemplate" in parsed.text
    assert not parsed.members


def slides(word: str) -> containers.File:
    file, deck = io.BytesIO(), Presentation()
    deck.slides.add_slide(deck.slide_layouts[0]).shapes.title.text = word
    deck.save(file)
    return "slides.pptx", file.getvalue()


IWORK_MEMBERS = {
    "Index/Document.iwa": b"\0\1",
    "Metadata/Properties.plist": b"bplist00",
    "preview.jpg": b"\xff\xd8\xff",
}
XPS = "application/vnd.ms-package.xps-fixeddocumentsequence+xml"
MODEL_3D = "application/vnd.ms-package.3dmanufacturing-3dmodel+xml"
REFUSED_PACKAGES = {
    "plan.xps": ("XPS", pack_opc(XPS, {"FixedDocSeq.fdseq": "<a/>"})),
    "part.3mf": ("3MF", pack_opc(MODEL_3D, {"3D/3dmodel.model": "<m/>"})),
    "sales.pbix": ("Power BI", pack_opc("application/x", {"Report/Layout": "{}", "DataModel": "x"})),
    "unheard.qqq": ("Open Packaging", pack_opc("application/x", {"some/part.xml": "<a/>"})),
    "letter.pages": ("Pages", packed(IWORK_MEMBERS)),
    "talk.key": ("Keynote", packed({**IWORK_MEMBERS, "Index/Slide-1.iwa": b"\0"})),
    "formula.odf": ("OpenDocument formula", packed(open_document("formula", ""))),
    "folder.key": ("Keynote", packed({"Talk.key/Index.zip": b"PK", "Talk.key/Metadata/a.plist": b"x"})),
    "letter.sxw": ("SXW", packed({"mimetype": "application/vnd.sun.xml.writer", "content.xml": "<a/>"})),
    "picture.kra": ("Krita", packed({"mimetype": "application/x-krita", "maindoc.xml": "<a/>"})),
    "letter.hwpx": ("HWPX", packed({"mimetype": "application/hwp+zip", "Contents/section0.xml": "<a/>"})),
    "unknown.zip": ("application/x-unheard", packed({"mimetype": "application/x-unheard", "a.xml": "<a/>"})),
    "app.jar": ("Java", packed({"META-INF/MANIFEST.MF": "Manifest-Version: 1.0\n", "A.class": b"\xca\xfe\xba\xbe"})),
    "app.apk": ("Android", packed({"AndroidManifest.xml": b"\3\0", "classes.dex": b"dex\n"})),
    "lib.whl": ("Python", packed({"a.py": "x = 1\n", "a-1.dist-info/WHEEL": "Wheel-Version: 1.0\n"})),
    "map.kmz": ("KMZ", packed({"doc.kml": "<kml/>", "files/a.png": b"\x89PNG"})),
    "screen.sketch": (".sketch", packed({"document.json": "{}", "pages/a.json": "{}"})),
    "report.docx": (".docx", packed({"a.txt": "Words"})),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_PACKAGES)
def test_a_package_of_another_program_is_refused_by_name(read, name):
    subject, data = REFUSED_PACKAGES[name]
    with pytest.raises(Skippable, match=r"(?i)upload|Kinds that are taken") as caught:
        read(name, data)
    assert subject in str(caught.value)


@pytest.mark.parametrize("name", ["letters.zip", "letters", "letters.zip.1", "a.txt"])
def test_a_plain_zip_is_unpacked(read, name):
    members = read(name, packed({"one.txt": "Words", "Index/list.txt": "Words"})).members
    assert [member.path for member in members] == ["one.txt", "Index/list.txt"]


def test_folders_of_an_archive_that_are_packages_are_reported_whole(unpack):
    """Finder packs Pages documents as folders; people pack folders of an unpacked Word document."""
    data = packed(
        {
            "read.txt": "Words",
            **{f"mail/letter.pages/{name}": text for name, text in IWORK_MEMBERS.items()},
            "old/[Content_Types].xml": "<Types/>",
            "old/word/document.xml": "<a/>",
        }
    )
    documents = unpack("all.zip", data)
    errors = {document.filename: document.error for document in documents if document.error}
    assert "all.zip/read.txt" in {document.filename for document in documents if not document.error}
    assert len(documents) == 4
    assert "Pages documents" in next(error for name, error in errors.items() if name.endswith("letter.pages"))
    assert "unpacked" in next(error for name, error in errors.items() if name.endswith("old"))
