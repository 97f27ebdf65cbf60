"""Feeds of RSS and Atom: formats, people, dates, links, pages behind summaries, conditional requests."""

from __future__ import annotations

import hashlib
import json

import pytest

from connectors import registry
from retrieval.errors import Fatal, Skippable
from retrieval.settings import Settings
from tests.connectors.sources.reading import Tokens
from tests.standins import faults
from tests.standins.account import Served, serving

LONG = "Owls hunt at night. " * 60


class Site(Served):
    """A website with feeds and pages by path; answers have an ETag (RFC 9110, section 8.8.3)."""

    connector = "FEED"

    def __init__(self):
        super().__init__()
        self.files, self.statuses = {}, []

    @property
    def config(self):
        return {"url": f"{self.base}/feed.xml"}

    @property
    def settings(self):
        return Settings(_env_file=None, fetch_allow="127.0.0.0/8", fetch_host_delay=0)

    def is_open(self, path):
        return True

    def put(self, data, path="/feed.xml", media_type="application/xml"):
        self.files[path] = (data.encode() if isinstance(data, str) else data, media_type)

    def answer(self, handler, method, path, query, body):
        data, media_type = self.files.get(path, (b"", ""))
        tag = f'"{hashlib.sha256(data).hexdigest()[:8]}"'
        status = 404 if not media_type else 304 if handler.headers.get("if-none-match") == tag else 200
        self.statuses.append(status)
        handler.reply(status, data if status == 200 else b"", {"Content-Type": media_type, "ETag": tag})


@pytest.fixture
def site():
    with serving(Site()) as served:
        yield served


def rss(*entries, head=""):
    items = "".join(f"<item>{entry}</item>" for entry in entries)
    return f"""<?xml version="1.0"?><rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"
        xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"
        xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>Birds</title>{head}{items}</channel></rss>"""


def read(site, cursor=None):
    """Return items and texts of a listing by title, and its last page."""
    connector = registry.make_connector("FEED", {}, site.settings)
    items, texts = {}, {}
    for page in connector.iter_changes(Tokens(site), cursor):
        assert not page.whole
        for item in page.items:
            items[item.properties["title"]] = item
            texts[item.properties["title"]] = item.content and item.content.path.read_text()
    return items, texts, page


def fetch(site, item, to):
    return registry.make_connector("FEED", {}, site.settings).fetch(Tokens(site), item, to / "file")


FORMATS = {
    "RSS 0.91": '<rss version="0.91"><channel><title>T</title><item><title>{title}</title><link>{link}</link>'
    "<description>{text}</description></item></channel></rss>",
    "RSS 1.0": '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">'
    '<channel rdf:about="{link}"><title>T</title></channel><item rdf:about="{link}"><title>{title}</title>'
    "<link>{link}</link><description>{text}</description></item></rdf:RDF>",
    "RSS 2.0": '<rss version="2.0"><channel><title>T</title><item><title>{title}</title><guid>{link}</guid>'
    "<description>{text}</description></item></channel></rss>",
    "Atom": '<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><entry><id>urn:1</id><title>{title}</title>'
    '<link href="{link}"/><content type="text">{text}</content></entry></feed>',
}


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1", "utf-16"])
@pytest.mark.parametrize("form", FORMATS)
def test_each_format_is_read_in_each_encoding(site, form, encoding):
    filled = FORMATS[form].format(
        title="Käuze & Eulen".replace("&", "&amp;"), link=f"{site.base}/1", text=LONG + "Größe"
    )
    site.put(f'<?xml version="1.0" encoding="{encoding}"?>{filled}'.encode(encoding))
    items, texts, last = read(site)
    assert list(items) == ["Käuze & Eulen"]
    assert items["Käuze & Eulen"].properties["url"] == f"{site.base}/1"
    assert "<h1>Käuze &amp; Eulen</h1>" in texts["Käuze & Eulen"]
    assert "Größe" in texts["Käuze & Eulen"]
    assert last.done


def test_an_entry_has_people_dates_categories_and_absolute_links(site):
    site.put(
        f"""<feed xmlns="http://www.w3.org/2005/Atom" xml:base="{site.base}/blog/"><title>T</title>
        <author><name>Ada Berg</name></author>
        <entry xml:base="2026/"><id>urn:1</id><title type="html">&lt;b&gt;Owls&lt;/b&gt; at night</title>
          <link href="owls"/><published>2026-11-27T08:00:00+01:00</published><updated>2026-11-28T08:00:00Z</updated>
          <author><name>Bob Lund</name></author><author><name>Eve</name></author>
          <category term="birds" label="Birds"/>
          <content type="html">&lt;p&gt;{LONG}
            &lt;a href="more"&gt;more&lt;/a&gt;&lt;script&gt;x()&lt;/script&gt;</content>
        </entry><entry><id>urn:2</id><title>By the feed</title><content>short</content></entry></feed>"""
    )
    items, texts, _ = read(site)
    item, text = items["Owls at night"], texts["Owls at night"]
    assert item.external_id == f"{site.base}/feed.xml#urn:1"
    assert item.properties == {
        "title": "Owls at night",
        "path": "Owls at night",
        "url": f"{site.base}/blog/2026/owls",
        "createdAt": "2026-11-27T07:00:00Z",
        "modifiedAt": "2026-11-28T08:00:00Z",
        "owner": "Bob Lund, Eve",
    }
    about = "Author: Bob Lund, Eve<br>Published: 27 November 2026<br>Updated: 28 November 2026<br>Categories: Birds"
    assert about in text
    assert f'href="{site.base}/blog/2026/more"' in text
    assert "x()" not in text
    assert "Author: Ada Berg" in texts["By the feed"]


def test_the_page_behind_a_summary_is_read(site, tmp_path):
    site.put("<html><body><article><p>The whole text.</p></article></body></html>", "/1", "text/html")
    site.put(
        rss(
            f"<title>Short</title><link>{site.base}/1</link><description>Owls hunt.</description>",
            f"<title>Cut</title><link>{site.base}/2</link><description>{LONG} [&#8230;]</description>",
            f"<description>A note without a title.</description><link>{site.base}/3</link>",
            f"<title>Whole</title><link>{site.base}/4</link><content:encoded>Full.</content:encoded>",
        )
    )
    items, texts, _ = read(site)
    assert texts["Short"] is texts["Cut"] is None
    assert "A note without a title." in texts["A note without a title."]
    assert "Full." in texts["Whole"]
    page = fetch(site, items["Short"], tmp_path)
    assert "The whole text." in page.path.read_text()
    assert (page.name, page.page is not None) == (f"{site.base}/1", True)
    assert page.properties["title"] == "Short"
    # A page that refuses is no loss: the feed's own text is read.
    assert "[…]" in fetch(site, items["Cut"], tmp_path).path.read_text()


def test_entries_that_leave_the_feed_stay_and_changed_ones_have_another_version(site, tmp_path):
    entries = {name: f"<guid>{name}</guid><description>{name} text</description>" for name in ("a", "b")}
    site.put(rss(*entries.values()))
    items, _, last = read(site)
    assert len(items) == 2
    assert read(site, last.cursor)[0] == {}
    assert site.statuses == [200, 304]
    site.put(rss("<guid>b</guid><description>b text</description><title>b</title>"))
    changed, _, last = read(site, last.cursor)
    assert [item.external_id for item in changed.values()] == [items["b text"].external_id]
    assert changed["b"].version != items["b text"].version
    connector = registry.make_connector("FEED", {}, site.settings)
    assert not connector.is_deleted(Tokens(site), items["a text"].external_id)
    assert [entry.name for entry in connector.browse(Tokens(site), None, None).entries] == ["b"]
    with pytest.raises(Skippable, match="no longer shows"):
        fetch(site, items["a text"], tmp_path)


def test_older_pages_are_read_first_and_later_only_as_far_as_entries_are_new(site):
    def put(count):
        keys = list(range(count, 0, -1))
        for page, start in enumerate(range(0, count, 2)):
            following = f"/{page + 1}" if start + 2 < count else ""
            head = f'<atom:link rel="next" href="{following}"/>' if following else ""
            entries = [f"<guid>{key}</guid><description>n {key}</description>" for key in keys[start : start + 2]]
            site.put(rss(*entries, head=head), f"/{page}" if page else "/feed.xml")

    put(6)
    items, _, last = read(site)
    assert list(items) == [f"n {key}" for key in range(6, 0, -1)]
    put(9)
    site.requests.clear()
    items, _, last = read(site, last.cursor)
    assert {"n 9", "n 8", "n 7"} <= set(items)
    assert [request for request in site.requests if "robots" not in request] == ["GET /feed.xml", "GET /1"]
    connector, names = registry.make_connector("FEED", {}, site.settings), []
    cursor, done = None, False
    while not done:  # each page in another process
        page = next(connector.iter_changes(Tokens(site), cursor))
        names += [item.name for item in page.items]
        cursor, done = page.cursor, page.done
    assert names == [f"n {key}" for key in range(9, 0, -1)]
    site.put(rss(head='<atom:link rel="next" href="/feed.xml"/>'))
    with pytest.raises(Exception, match="circle"):
        read(site)


def test_a_feed_that_breaks_off_is_read_again(site):
    whole = rss(*(f"<guid>{key}</guid><description>n {key}</description>" for key in range(3)))
    site.put(whole[: whole.index("n 2")])
    items, _, last = read(site)
    assert {"n 0", "n 1"} <= set(items)
    assert json.loads(last.cursor)["version"] == ""
    site.put(whole)
    assert "n 2" in read(site, last.cursor)[0]


def test_refusals_say_what_to_do(site):
    with pytest.raises(Fatal, match="feed cannot be read"):
        read(site)
    site.put("<html><body>No feed.</body></html>", media_type="text/html")
    with pytest.raises(Fatal, match="send the address of the feed"):
        read(site)
    site.fault = lambda _request: faults.status(401)
    with pytest.raises(Fatal, match="401") as refused:
        read(site)
    assert "SECRET" not in str(refused.value)
    for config, name in (
        ({"url": "ftp://a.example/feed"}, "url"),
        ({"url": "http://169.254.169.254/feed"}, "url"),
        ({**site.config, "credentials": {"token": "x"}}, "credentials"),
        ({**site.config, "fullListingMinutes": 60}, "fullListingMinutes"),
    ):
        with pytest.raises(ValueError, match=r".") as refusal:
            registry.read_config("FEED", config, site.settings)
        assert refusal.value.args[0] == name


def test_entities_of_a_feed_read_no_files_and_do_not_grow(site):
    bomb = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    site.put(
        f'<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY e0 "x"><!ENTITY f SYSTEM "file:///etc/passwd">{bomb}]>'
        '<rss version="2.0"><channel><item><guid>a</guid>'
        "<description>d &f; &e11; end</description></item></channel></rss>"
    )
    _, texts, _ = read(site)
    assert all("root:" not in text and len(text) < 1000 for text in texts.values())
