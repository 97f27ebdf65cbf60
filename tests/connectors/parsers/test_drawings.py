"""SVG drawings and mind maps are read as their viewers show them."""

# ruff: noqa: E501 - markup of other programs

from __future__ import annotations

import pytest

from retrieval.errors import Skippable
from tests.connectors.parsers.conftest import Read


def svg(body: str, head: str = "") -> bytes:
    xmlns = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return f"<?xml version='1.0'?>{head}<svg {xmlns} width='400' height='300'>{body}</svg>".encode()


def text(x: int, y: int, words: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" {more}>{words}</text>'


def copy(number: int) -> str:
    return f'<use xlink:href="#l{number}"/>'


def test_a_drawing_is_its_title_description_and_visible_texts(read: Read) -> None:
    hidden = text(9, 9, "Draft", 'style="display:none"') + f'<g class="off">{text(9, 9, "Old")}</g>'
    unused = f"<defs>{text(0, 0, 'Spare')}</defs><style>.off, .x {{ display: none }}</style><metadata>CC0</metadata>"
    stamp = f'<symbol id="s">{text(0, 0, "Exit")}</symbol><use xlink:href="#s" x="20" y="290"/>'
    parsed = read(
        "a.svg", svg(f"<title>Level 2</title><desc>Rooms</desc>{unused}{hidden}{stamp}{text(20, 40, 'Store')}")
    )
    assert parsed.text == "# Level 2\n\nRooms\n\nStore\nExit\n"
    assert (parsed.title, parsed.properties["mimeType"]) == ("Level 2", "image/svg+xml")


@pytest.mark.parametrize(
    "attribute", ['visibility="hidden"', 'display="none"', 'opacity="0"', 'style="opacity: 0.0;"', 'style="visibility:hidden"']
)  # fmt: skip
def test_hidden_texts_are_left_out(read: Read, attribute: str) -> None:
    group = f"<g {attribute}>{text(9, 40, 'Old')}</g>"
    assert read("a.svg", svg(text(9, 9, "New") + text(9, 20, "Draft", attribute) + group)).text == "New\n"


def test_turned_and_scaled_texts_are_read_where_they_stand(read: Read) -> None:
    turned = f'<g transform="rotate(-90)">{text(-100, 200, "Outlet")}{text(-100, 20, "Inlet")}</g>'
    scaled = f'<g transform="scale(2)">{text(9, 10, "Store")}</g>'
    assert read("a.svg", svg(turned + scaled)).text == "Store\nInlet | Outlet\n"


def test_slides_are_read_one_after_the_other(read: Read) -> None:
    first, second = (f'<g class="Slide">{text(x, 20, words)}</g>' for x, words in ((200, "First"), (9, "Second")))
    assert read("a.svg", svg(f'<g visibility="hidden"><g>{first}</g><g>{second}</g></g>')).text == "First\n\nSecond\n"


def test_pictures_of_a_drawing_are_named_as_not_read(read: Read) -> None:
    parsed = read("a.svg", svg(text(9, 9, "Plan") + '<image href="data:image/png;base64,iVBORw0KGgo="/>'))
    assert parsed.properties["notice"] == "Not read: pictures within the drawing."


def test_texts_are_read_row_by_row(read: Read) -> None:
    moved = f'<g transform="translate(0,-200)">{text(20, 240, "Inlet")}</g>'
    assert read("a.svg", svg(text(90, 92, "9 bar") + text(20, 90, "Outlet") + moved)).text == "Inlet\nOutlet | 9 bar\n"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('<text x="0" y="9"><tspan x="0">keep</tspan><tspan x="0" dy="1.2em">clear</tspan></text>', "keep clear"),
        ('<text x="0" y="9" font-size="10"><tspan x="0">Va</tspan><tspan x="10.6">lve</tspan></text>', "Valve"),
        ('<text x="0" y="9">CO<tspan baseline-shift="sub">2</tspan></text>', "CO_(2)"),
        ('<text x="0" y="9">m<tspan style="baseline-shift:super">2</tspan></text>', "m^(2)"),
        (f"<switch><g systemLanguage='de'>{text(0, 9, 'Pumpe')}</g>{text(0, 9, 'Pump')}{text(0, 9, 'no')}</switch>", "Pump"),
        ('<foreignObject x="0" y="0"><div xmlns="http://www.w3.org/1999/xhtml">Boiler<br/>9 bar</div></foreignObject>', "Boiler 9 bar"),
    ],
)  # fmt: skip
def test_parts_of_a_text_are_joined_as_they_stand(read: Read, body: str, words: str) -> None:
    assert read("a.svg", svg(body)).text == f"{words}\n"


def test_a_drawing_of_shapes_is_refused_with_a_remedy(read: Read) -> None:
    with pytest.raises(Skippable, match=r"SVG drawing consists of shapes\. Export it as PNG"):
        read("a.svg", svg("<defs><text>no</text></defs><path d='M0 0'/>"))


def test_copies_of_copies_end(read: Read) -> None:
    first = f'<g id="l0">{text(0, 9, "Tile")}</g>'
    layers = "".join(f'<g id="l{n}">{copy(n - 1) * 10}</g>' for n in range(1, 9))
    loop = f'<g id="a">{text(0, 99, "Loop")}<use xlink:href="#b" x="9"/></g><g id="b"><use xlink:href="#a" y="50"/></g>'
    assert read("a.svg", svg(first + layers + loop)).text.startswith("Tile\n")
    assert read("a.svg", svg(loop)).text.count("Loop") <= 2


@pytest.mark.slow
def test_copies_beyond_the_limit_are_named_and_the_own_texts_are_all_read(read: Read) -> None:
    tiles = "".join(f'<g id="l{n}">{copy(n - 1) * 10}</g>' for n in range(1, 9))
    parsed = read("a.svg", svg(f'<g id="l0">{text(0, 9, "Tile")}</g>{tiles}'))
    assert parsed.properties["notice"] == "Not read: copies of parts of the drawing beyond 100,000."
    rows = "".join(f'<text x="0" y="{20 * number}">w</text>' for number in range(100_001))
    assert "Last" in read("a.svg", svg(rows + text(0, 9_999_999, "Last"))).text


def test_a_drawing_reads_no_other_file(read: Read) -> None:
    parsed = read("a.svg", svg(text(0, 9, "Crane &x;"), '<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/hostname">]>'))
    assert parsed.text == "Crane\n"
    assert "file:///etc/hostname" in parsed.properties["notice"]


MAP = b"""<map version="1.0.1"><!-- Freeplane --><node TEXT="Harbour" ID="a"><hook NAME="MapStyle"><map_styles><stylenode
TEXT="x"/></map_styles></hook><node TEXT="Boats" ID="b"><node LINK="https://example.org/rope" TEXT="Rope"><node TEXT="Knots"/>
<arrowlink DESTINATION="c" MIDDLE_LABEL="for"/></node><attribute NAME="Count" VALUE="12"/></node><node TEXT="&lt;html&gt;&lt;img src=&quot;pier.png&quot;&gt;"/>
<node ID="c"><richcontent TYPE="NODE"><html><head/><body><p>Piers</p></body></html></richcontent><richcontent TYPE="NOTE"><html><body>
<p>Built <b>1901</b></p></body></html></richcontent></node></node></map>"""


@pytest.mark.parametrize("name", ["harbour.mm", "harbour.xml", "harbour"])
def test_a_mind_map_is_an_outline_with_notes_values_and_links(read: Read, name: str) -> None:
    parsed = read(name, MAP)
    assert parsed.text == (
        "# Harbour\n\n## Boats\n\nCount: 12\n\n- [Rope](https://example.org/rope)\n  \u2192 Piers (for)\n  - Knots\n"
        "- Piers\n  Note: Built 1901\n"
    )
    assert parsed.properties["notice"] == "Not read: pictures (1): pier.png."
    assert (parsed.title, parsed.properties["mimeType"]) == ("Harbour", "application/x-freemind")


def test_details_formulas_older_notes_and_encrypted_topics_of_a_mind_map(read: Read) -> None:
    parsed = read(
        "harbour.mm",
        b"""<map version="1.0.1"><node TEXT="Harbour"><node TEXT="Crane" LINK="#z"><richcontent TYPE="DETAILS"><html><body>
<p>Of 40 t</p></body></html></richcontent><hook NAME="accessories/plugins/NodeNote.properties"><text>Oiled</text></hook><hook
EQUATION="F=mg"/><hook NAME="ExternalObject" URI="crane.png"/></node><node ID="z" TEXT="Safe" ENCRYPTED_CONTENT="x"/></node></map>""",
    )
    lines = ["# Harbour", "", "- Crane \u2192 Safe", "  Of 40 t", "  Note: Oiled", "  $$F=mg$$", "- Safe"]
    assert parsed.text.splitlines() == lines
    assert parsed.properties["notice"] == "Not read: pictures (1): crane.png. Not read: encrypted topics (1)."


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("<p>North <b>pi</b>er</p><p>and quay</p>", "North pier and quay"),
        ("<p>North <b>pier</b></p> <p style='display:none'>x</p>", "North pier"),
        ("North <p>pier</p> built", "North pier built"),
        ("<p>Depth<sup>2</sup> <s>old</s></p>", "Depth^(2) ~~old~~"),
        ("<ul><li>North</li><li>Pier</li></ul>", "- North - Pier"),
    ],
)
def test_pages_in_topics_of_a_mind_map_are_read_as_pages(read: Read, page: str, words: str) -> None:
    topic = f'<node><richcontent TYPE="NODE"><html><head/><body>{page}</body></html></richcontent></node>'
    assert read("a.mm", f'<map version="1.0.1">{topic}</map>'.encode()).text == f"# {words}\n"


def test_a_program_with_the_ending_of_a_mind_map_is_text(read: Read) -> None:
    assert read("main.mm", b"#import <UIKit/UIKit.h>\nint main() {}\n").text.startswith("#import")
