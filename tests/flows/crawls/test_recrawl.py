"""Repeated crawls: an unchanged page costs one conditional request, no parsing, no embedding."""

import hashlib

import pytest

from flows import steps
from tests.flows.crawling import accept, crawl, listing, names, reasons
from tests.flows.crawls.site import answer, html, linked, urlset, xml

TREE = {"/": ["/a", "/b"], "/a": ["/deep"], "/b": [], "/deep": []}
MODIFIED = "Wed, 21 Oct 2026 07:28:00 GMT"


class Marked:
    """Page with an ETag or a date; `sent` counts full responses."""

    def __init__(self, text, header="etag"):
        self.text = text
        self.header = header
        self.sent = 0

    def __call__(self, headers):
        mark = f'"{hashlib.sha256(self.text.encode()).hexdigest()[:8]}"' if self.header == "etag" else MODIFIED
        mark_sent = headers.get("if-none-match" if self.header == "etag" else "if-modified-since")
        if mark_sent == mark:
            return answer(status="304 Not Modified")
        self.sent += 1
        return html(self.text, **{self.header: mark})


def grow(site, header="etag"):
    site.pages = {path: Marked(linked(path, links), header) for path, links in TREE.items()}


def times_sent(site):
    return {path: page.sent for path, page in site.pages.items() if isinstance(page, Marked)}


def did(space, run):
    """Counts of documents by step."""
    done = space.run(run)
    assert done.status == "COMPLETED"
    assert reasons(space, run) == {}
    return {name: done.progress[name] for name in ("found", "parsed", "embedded")} | {"done": len(done.completed)}


def generations(space):
    return {name: row["active_generation"] for name, row in space.documents().items()}


NOTHING_NEW = {"found": 4, "parsed": 0, "embedded": 0, "done": 4}


@pytest.mark.parametrize("header", ["etag", "last_modified"])
def test_an_unchanged_website_is_asked_for_its_marks_and_walked_as_before(space, site, header):
    grow(site, header)
    crawl(space, "WEBSITE", ingest=True, url=f"{site.url}/")
    generations_before = generations(space)
    site.calls.clear()
    for _ in range(2):
        recrawl = crawl(space, "WEBSITE", ingest=True, url=f"{site.url}/")
        assert did(space, recrawl) == NOTHING_NEW
    assert times_sent(site) == dict.fromkeys(TREE, 1)
    assert sorted(site.paths()) == sorted([*TREE, *TREE])
    assert generations(space) == generations_before


def test_a_page_that_changed_is_ingested_and_the_others_are_not(space, site):
    grow(site)
    crawl(space, "WEBSITE", ingest=True, url=f"{site.url}/")
    site.pages["/a"].text = linked("/a", ["/deep", "/new"]).replace("This is /a.", "Owls hunt mice at night.")
    site.pages["/new"] = Marked(linked("/new", []))
    recrawl = crawl(space, "WEBSITE", ingest=True, url=f"{site.url}/")
    assert did(space, recrawl) == {"found": 5, "parsed": 2, "embedded": 2, "done": 5}
    assert times_sent(site) == {"/": 1, "/a": 2, "/b": 1, "/deep": 1, "/new": 1}
    assert space.search("owls and mice")[0] == f"{site.url}/a"


def test_a_removed_page_comes_back_whole(space, site):
    grow(site)
    crawl(space, "WEBSITE", ingest=True, url=f"{site.url}/")
    row = space.db.row("select id from documents where external_id = %(url)s", {"url": f"{site.url}/a"})
    space.delete(row["id"])
    crawl(space, "WEBSITE", ingest=True, url=f"{site.url}/")
    assert times_sent(site) == {"/": 1, "/a": 2, "/b": 1, "/deep": 1}
    assert f"{site.url}/a" in space.search("This is /a")


@pytest.mark.parametrize("kind", ["etag", "last_modified", "none"])
def test_an_unchanged_sitemap_page_costs_no_more(space, site, kind):
    if kind == "none":
        site.pages = {path: linked(path, links) for path, links in TREE.items()}
    else:
        grow(site, kind)
    site.pages["/sitemap.xml"] = xml(urlset(*((f"{site.url}{path}", "") for path in TREE)))
    crawl(space, "SITEMAP", ingest=True, url=f"{site.url}/sitemap.xml")
    recrawl = crawl(space, "SITEMAP", ingest=True, url=f"{site.url}/sitemap.xml")
    assert did(space, recrawl) == NOTHING_NEW
    assert set(times_sent(site).values()) <= {1}


def test_a_crawl_of_unchanged_pages_can_die_and_go_on(space, site):
    grow(site)
    crawl(space, "WEBSITE", ingest=True, url=f"{site.url}/")
    run = accept(space, "WEBSITE", url=f"{site.url}/")
    discovery = listing(space)
    whole, site.pages["/deep"] = site.pages["/deep"], answer(status="503 Busy")
    with pytest.raises(steps.Retryable):
        steps.discover(discovery)
    site.pages["/deep"] = whole
    steps.discover(discovery)
    space.take(discovery.lease)
    assert sorted(names(space, run)) == sorted(f"{site.url}{path}" for path in TREE)
    assert times_sent(site) == dict.fromkeys(TREE, 1)
