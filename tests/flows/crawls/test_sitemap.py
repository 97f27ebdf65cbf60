"""Sitemaps on loopback: listed and excluded URLs, hostile files."""

import gzip

import pytest

from flows import steps
from retrieval.errors import Skippable
from tests.flows.crawling import accept, crawl, listing, names
from tests.flows.crawls.site import PAGE, answer, index, pages, urlset, xml


def list_of(space, site, run):
    return [name.removeprefix(site.url) for name in names(space, run)]


def test_indexes_and_packed_sitemaps_are_followed_and_loops_end(space, site):
    site.pages = {
        "/sitemap.xml": xml(index(f"{site.url}/a.xml", f"{site.url}/b.xml.gz", f"{site.url}/sitemap.xml")),
        "/a.xml": xml(pages(site, "/1", "/2", "/1#part")),
        "/b.xml.gz": xml(index(f"{site.url}/a.xml", f"{site.url}/c.xml.gz"), packed=True),
        "/c.xml.gz": xml(pages(site, "/3", "/2"), packed=True),
    }
    run = crawl(space, "SITEMAP", url=f"{site.url}/sitemap.xml")
    assert list_of(space, site, run) == ["/1", "/2", "/3"]
    assert sorted(site.paths()) == ["/a.xml", "/b.xml.gz", "/c.xml.gz", "/sitemap.xml"]


def test_other_hosts_paths_and_robots_are_skipped_with_their_reasons(space, site):
    site.pages = {
        "/robots.txt": answer(b"User-agent: *\nDisallow: /private\n", content_type="text/plain"),
        "/sitemap.xml": xml(
            urlset(
                ("http://elsewhere.example/x", ""),
                *((f"{site.url}{path}", "") for path in ("/in/1", "/in/old", "/out", "/private/in/")),
            )
        ),
    }
    run = crawl(space, "SITEMAP", url=f"{site.url}/sitemap.xml", includePaths=["/in/"], excludePaths=["old"])
    assert list_of(space, site, run) == ["/in/1"]
    progress = space.run(run).progress
    assert progress["skipped"] == 4
    assert sorted(progress["skippedReasons"].values()) == [1, 1, 1, 1]


def test_sitemaps_as_people_make_them_are_read(space, site):
    site.pages = {
        "/sitemap.xml": xml("\n \n" + index("/sub/list.txt", f"{site.url}/lines.txt", "/sub/relative.xml")),
        "/sub/list.txt": answer(f"\ufeff{site.url}/1\r\n\r\n{site.url}/2".encode(), content_type="text/plain"),
        "/lines.txt": answer(f"{site.url}/3\r{site.url}/1\rno address\r".encode(), content_type="text/plain"),
        "/sub/relative.xml": xml(urlset(("/4?a=1&amp;b=2", ""))),
    }
    run = crawl(space, "SITEMAP", url=f"{site.url}/sitemap.xml")
    assert list_of(space, site, run) == ["/1", "/2", "/3", "/4?a=1&b=2"]
    assert space.run(run).progress["skipped"] == 1


def test_the_same_lastmod_is_not_fetched_again(space, site):
    def serve(when):
        entries = [(f"{site.url}/a", when), (f"{site.url}/b", "2026-01-01"), (f"{site.url}/c", "")]
        site.pages["/sitemap.xml"] = xml(urlset(*entries))
        site.calls.clear()

    site.pages = {f"/{name}": PAGE.replace("Tides", name) for name in "abc"}
    serve("2026-01-01")
    crawl(space, "SITEMAP", ingest=True, url=f"{site.url}/sitemap.xml")
    assert sorted(site.paths()) == ["/a", "/b", "/c", "/sitemap.xml"]
    site.pages["/a"] = PAGE.replace("moon", "autumn storms")
    serve("2026-02-02")
    run = crawl(space, "SITEMAP", ingest=True, url=f"{site.url}/sitemap.xml")
    assert sorted(site.paths()) == ["/a", "/c", "/sitemap.xml"]
    assert len(space.run(run).completed) == 3
    assert space.search("autumn storms")[0] == f"{site.url}/a"
    serve("2026-02-02")
    crawl(space, "SITEMAP", ingest=True, url=f"{site.url}/sitemap.xml")
    assert sorted(site.paths()) == ["/c", "/sitemap.xml"]


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
OUTSIDE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (f"{BOMB}<urlset><url><loc>&b;</loc></url></urlset>", "document type"),
        (f"{OUTSIDE}<urlset><url><loc>&a;</loc></url></urlset>", "document type"),
        ("<urlset><url><loc>", "well-formed"),
        ("no xml at all", "well-formed"),
        ("<html><body><p>A page.</p></body></html>", "no sitemap at the address"),
        ("<!DOCTYPE html><html><body><br></body></html>", "no sitemap at the address"),
        ("<urlset>" + "<a>" * 100, "nested"),
    ],
)
def test_a_file_that_is_no_sitemap_is_one_failed_entry(space, site, body, reason):
    site.pages = {"/sitemap.xml": xml(body)}
    accept(space, "SITEMAP", url=f"{site.url}/sitemap.xml")
    with pytest.raises(Skippable, match=reason):
        steps.discover(listing(space))


def test_a_packed_sitemap_that_grows_without_end_is_refused(space, site):
    packed = gzip.compress(b"<urlset>" + b" " * (70 << 20))
    site.pages = {"/sitemap.xml": answer(packed, content_type="application/gzip")}
    accept(space, "SITEMAP", url=f"{site.url}/sitemap.xml")
    with pytest.raises(Skippable, match="64 MiB"):
        steps.discover(listing(space))
