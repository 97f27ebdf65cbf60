"""Text, metadata and links of web pages."""

import socket

import pytest

from connectors.http import html
from connectors.parsers import parser as documents
from connectors.web.crawl import page as pages
from retrieval.errors import Skippable
from retrieval.ports import OcrStrategy, RawContent, ScrapeOptions

URL = "https://docs.example.org/guide/start.html"
SITE_HTML = """<!doctype html><html lang="en-GB"><head><meta charset="utf-8"><title>Getting
 started</title><link rel="canonical" href="/guide/start"><meta name="description" content="How to begin.">
<script>var secret = "script text";</script><style>p { color: red }</style></head><body>
<header><nav><a href="/">Home</a> <a href="/menu">Menu words</a></nav></header>
<main><h1>Getting started</h1><p>Install the <a href="/tool">tool</a> first; it needs about ten minutes.</p>
<h2>Options</h2><table><tr><th>Name</th><th>Use</th></tr><tr><td>part_number</td><td>counts</td></tr></table>
<pre><code class="language-sh">tool --run
tool --stop</code></pre><ul><li>one</li><li>two</li></ul><div class="ad">Buy a sofa now</div>
<p>%s</p></main><aside>Related articles</aside><footer>Imprint of the firm</footer></body></html>""" % (
    "The rest explains how the tool is kept up to date. " * 5
)


@pytest.fixture(scope="module")
def parser():
    return documents.document_parser()


@pytest.fixture
def parse(parser, tmp_path):
    """Return a function to parse bytes as a web page with the given selectors."""

    def read(data, media_type="text/html", **selectors):
        path = tmp_path / "page"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        options = ScrapeOptions(**selectors)
        return parser.parse(
            RawContent(path, URL, media_type, path.stat().st_size, page=options), OcrStrategy.BASIC_PARSER
        )

    return read


def test_the_main_part_is_taken_as_markdown(parse):
    parsed = parse(SITE_HTML)
    assert parsed.text.startswith("# Getting started")
    for kept_text in (
        "Install the tool first",
        "## Options",
        "| part_number | counts |",
        "tool --run\ntool --stop",
        "- one",
    ):
        assert kept_text in parsed.text
    for dropped_text in ("script text", "color: red", "Menu words", "Related articles", "Imprint", "https://", "](/"):
        assert dropped_text not in parsed.text


def test_the_page_says_what_it_is(parse):
    parsed = parse(SITE_HTML)
    assert parsed.title == "Getting started"
    assert parsed.properties == {
        "mimeType": "text/html",
        "fileSize": len(SITE_HTML.encode()),
        "language": "en-GB",
        "canonicalUrl": "https://docs.example.org/guide/start",
        "description": "How to begin.",
    }


def test_selectors_that_name_nothing_say_so(parse):
    with pytest.raises(Skippable, match="includeSelectors"):
        parse(SITE_HTML, include=(".no-such-class",))
    with pytest.raises(Skippable, match="scrapeOptions"):
        parse(SITE_HTML, exclude=("p[",))
    with pytest.raises(Skippable, match="no text"):
        parse("<html><body><script>all()</script><div id=app></div></body></html>")


def test_a_page_without_a_marked_main_part_loses_its_furniture(parse):
    text = "A long story about rivers and their floods, told by one who lived there for years. " * 6
    parsed = parse(f"<body><div class=x><nav>Menu words</nav><div><h1>Rivers</h1><p>{text}</p></div></div></body>")
    assert "lived there for years" in parsed.text
    assert "Menu words" not in parsed.text
    assert parsed.title == "Rivers"


def test_what_a_page_hides_is_not_its_text(parse):
    text = "<p>A long story about rivers and their floods, told by one who lived there for years.</p>"
    hidden = "<p hidden>Kept for members of the club, who know it already.</p>"
    for page in (
        f"<div>{text}{hidden}</div>",
        f"<main>{text * 4}{hidden}</main>",
        f"<div>{text * 6}{hidden}{text}</div>",
    ):
        visible_text = parse(f"<body><nav>Menu</nav>{page}</body>").text
        assert "lived there for years" in visible_text
        assert "members of the club" not in visible_text


MENU = "".join(f'<li><a href="/p{number}">Menu entry {number}</a></li>' for number in range(40))
MENUS = {
    "nav": f"<nav><ul>{MENU}</ul></nav>",
    "div": f'<div class="menu"><ul>{MENU}</ul></div>',
    "bare links": "".join(f'<a href="/p{number}">Menu entry {number}</a> | ' for number in range(40)).join(
        ("<div>", "</div>")
    ),
    "table": f"<table><tr>{MENU.replace('<li>', '<td>').replace('</li>', '</td>')}</tr></table>",
}
SENTENCES = ("The office is closed on Mondays.", "Ring the bell at the back.", "Parcels go to the mill.")
COOKIES = (
    '<div id="cookie-banner"><p>We use cookies to make this site work and to measure how it is used.</p>'
    "<button>Accept all</button><a href='/privacy'>Privacy</a></div>"
)
BODIES = {
    "main": "<main><h1>Opening hours</h1>{}</main>",
    "role=main": '<div role="main"><h1>Opening hours</h1>{}</div>',
    "article": "<article><h1>Opening hours</h1>{}</article>",
    "main with article": "<main><article><h1>Opening hours</h1>{}</article></main>",
    "div": "<div class=content><h1>Opening hours</h1>{}</div>",
    "div without heading": "<div class=content>{}</div>",
    "bare paragraphs": "{}",
    "empty main": "<main></main><div>{}</div>",
}


@pytest.mark.parametrize("body", BODIES)
def test_a_short_page_is_its_sentences_and_not_its_menu(body, parse):
    footer = "<footer><p>Imprint of the firm, all rights reserved.</p></footer>"
    for menu in MENUS.values():
        for count, banner in ((1, COOKIES), (1, ""), (3, COOKIES)):
            content = BODIES[body].format("".join(f"<p>{sentence}</p>" for sentence in SENTENCES[:count]))
            text = parse(f"<html><body>{banner}<div class=wrap>{menu}{content}</div>{footer}</body></html>").text
            assert [sentence for sentence in SENTENCES[:count] if sentence not in text] == [], (menu, banner)
            assert [word for word in ("Menu entry", "cookies", "Imprint") if word in text] == [], (menu, banner)


@pytest.mark.parametrize("menu", MENUS)
def test_all_articles_of_a_page_are_taken(menu, parse):
    articles = "".join(f"<article><h2>News {n}</h2><p>{text}</p></article>" for n, text in enumerate(SENTENCES))
    for page in (f"{MENUS[menu]}{articles}", f"<main>{MENUS[menu]}{articles}</main>"):
        text = parse(f"<body>{page}</body>").text
        assert [sentence for sentence in SENTENCES if sentence not in text] == []
        assert "Menu entry" not in text


def test_a_page_that_is_a_list_of_links_keeps_them(parse):
    for page in (f"<ul>{MENU}</ul>", f"<main><h1>Index</h1><ul>{MENU}</ul></main>"):
        assert "Menu entry 39" in parse(f"<body>{page}</body>").text


def test_a_page_leads_where_its_links_lead():
    page = pages.read_page(
        b"""<base href="/deep/"><a href="a">1</a><a href="a#part">again</a><a href="../up?x=1 2#y">2</a>
        <a href="//other.example/x">3</a><a href="javascript:x()">4</a><a href="mailto:a@b.example">5</a><a>6</a>
        <a href="http://[bad">7</a><a href="  /sp ace  ">8</a><a rel="nofollow ugc" href="/spam">9</a>
        <map><area href="map.html"></map><a href="file:///etc/passwd">10</a><a href="">11</a>""",
        URL,
    )
    assert page.links == (
        "https://docs.example.org/deep/a",
        "https://docs.example.org/up?x=1%202",
        "https://other.example/x",
        "https://docs.example.org/sp%20ace",
        "https://docs.example.org/deep/map.html",
    )


@pytest.mark.parametrize(
    ("header", "heard"),
    [
        ("noindex", {"noindex"}),
        ("NoIndex, nofollow", {"noindex", "nofollow"}),
        ("unavailable_after: 25 Jun 2030 15:00:00 PST", set()),
        ("googlebot: noindex, nofollow", set()),
        ("googlebot: nofollow, retrieval: none", {"noindex", "nofollow"}),
        ("*: noindex", {"noindex"}),
    ],
)
def test_a_header_is_heard_where_it_speaks_to_us(header, heard):
    assert html.read_robots(header, "Retrieval") == heard


def test_reading_a_page_fetches_nothing_that_it_names(parse):
    with socket.create_server(("127.0.0.1", 0)) as witness:
        witness.setblocking(False)
        at = f"http://127.0.0.1:{witness.getsockname()[1]}"
        parse(
            f"""<!DOCTYPE html SYSTEM "{at}/d.dtd"><html><head><base href="{at}/"><link rel=icon href="{at}/i">
            <meta http-equiv=refresh content="0;url={at}/r"><script src="{at}/s.js"></script></head><body><main>
            <img src="{at}/i.png"><iframe src="{at}/f"></iframe><object data="{at}/o"></object>{"Words of it. " * 40}
            <svg><image href="{at}/v"/></svg></main></body></html>"""
        )
        with pytest.raises(BlockingIOError):
            witness.accept()


@pytest.mark.shared
def test_a_reference_keeps_every_function_it_documents(parse, shared_data):
    # Guessing the main text loses every fourth signature of this page; the marked main part has all.
    data = (shared_data / "site" / "api.html").read_bytes()
    text = parse(data).text
    names = [node.attributes["id"].rpartition(".")[2] for node in html.parse_page(data).css("dt.sig[id]")]
    assert len(names) > 200
    assert [name for name in names if name not in text] == []
