"""Elements that a browser shows or opens on a click are read; a notice names hidden ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.parsers.parser import document_parser
from retrieval.errors import Skippable
from retrieval.ports import OcrStrategy, Parsed, RawContent, ScrapeOptions

pytestmark = pytest.mark.service

STORY = "<p>It was a fine day, and the pump ran well in the old mill by the river.</p>"
SHOWN_ELEMENTS = {
    "tabs": "<div role=tablist><button role=tab aria-controls=b>Imperial</button></div>"
    "<div role=tabpanel id=b hidden><p>Flow ten gallons.</p></div>",
    "Bootstrap": '<div class="tab-pane" id=b style="display:none">Flow ten gallons.</div>',
    "accordion": "<h3><button aria-expanded=false aria-controls=b>Flow?</button></h3>"
    "<div id=b hidden><p>Flow ten gallons.</p></div>",
    "style sheet": "<style>.c{display:none} #r:checked ~ .c{display:block}</style><input type=radio id=r>"
    "<div class=c>Flow ten gallons.</div>",
    "shadow root": "<my-card><template shadowrootmode=open><p>Flow ten gallons.</p></template></my-card>",
    "srcdoc": '<iframe srcdoc="&lt;p&gt;Flow ten gallons.&lt;/p&gt;"></iframe>',
    "open dialog": "<dialog open><p>Flow ten gallons.</p></dialog>",
    "until found": "<p hidden=until-found>Flow ten gallons.</p>",
    "scripts": "<style>[v-cloak]{display:none}</style><script src=x></script>"
    f"<main v-cloak><p>Flow ten gallons.</p>{STORY * 9}</main>",
}
HIDDEN_ELEMENTS = {
    "attribute": ("<p hidden>Four words of spam.</p>", "1 hidden element (4 words)"),
    "style": ("<p style='display: none'>Four words of spam.</p>" * 2, "2 hidden elements (8 words)"),
    "style sheet": ("<style>.x{display:none}</style><p class=x>Four words of spam.</p>", "1 hidden element (4 words)"),
    "dialog": ("<dialog>Four words of spam.</dialog>", "1 closed dialog (4 words)"),
    "noscript": ("<noscript><p>Four words of spam.</p></noscript>", "1 noscript element (4 words)"),
    "frame": ("<iframe src='https://maps.example.org/spam'></iframe>", "1 embedded page (https://maps.example.org/"),
}


@pytest.fixture(params=["file", "page"])
def read_html(request, tmp_path: Path):
    """Read HTML as an uploaded file or as a page of a website."""

    def read(source: str) -> Parsed:
        data = f"<html><body><h1>Pumps</h1>{source}</body></html>".encode()
        path = tmp_path / "raw"
        path.write_bytes(data)
        page = ScrapeOptions() if request.param == "page" else None
        return document_parser().parse(
            RawContent(path, "pumps.html", "text/html", len(data), page=page), OcrStrategy.BASIC_PARSER
        )

    return read


@pytest.mark.parametrize("kind", SHOWN_ELEMENTS)
def test_elements_that_a_click_opens_are_read(read_html, kind):
    parsed = read_html(STORY + SHOWN_ELEMENTS[kind])
    assert "Flow ten gallons." in parsed.text
    assert "notice" not in parsed.properties


@pytest.mark.parametrize("kind", HIDDEN_ELEMENTS)
def test_a_notice_counts_hidden_elements(read_html, kind):
    source, expected = HIDDEN_ELEMENTS[kind]
    parsed = read_html(STORY + source)
    assert "spam" not in parsed.text
    assert expected in str(parsed.properties["notice"])


@pytest.mark.parametrize(
    "source",
    [
        "<noscript>Please enable JavaScript.</noscript>",
        "<div id=cookie-banner hidden>We use cookies.</div>",
        "<nav hidden><a href=/a>Home and away</a></nav>",
        "<iframe src='https://count.example.org' width=1 height=1></iframe>",
        "<style>@media print{p{display:none}}</style>",
    ],
)
def test_menus_and_requests_to_run_scripts_need_no_notice(read_html, source):
    parsed = read_html(STORY + source)
    assert "fine day" in parsed.text
    assert "notice" not in parsed.properties


def test_the_text_of_a_tab_follows_its_name(read_html):
    assert "Imperial Flow ten gallons." in " ".join(read_html(STORY + SHOWN_ELEMENTS["tabs"]).text.split())


def test_a_frame_set_names_its_pages(read):
    with pytest.raises(Skippable, match=r"frame set .* menu\.html, main\.html"):
        read("a.html", b"<html><frameset><frame src=menu.html><frame src=main.html></frameset></html>")
