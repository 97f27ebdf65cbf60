"""Redirects to another host: a crawl follows the start page only."""

import pytest

from flows import steps
from tests.connectors.web.test_web_client import serving
from tests.flows.crawling import accept, crawl, listing, names, reasons
from tests.flows.crawls.site import Site, answer, forget_settings, linked, urlset, xml


@pytest.fixture
def hosts(allowed, monkeypatch):
    """`x` on 127.0.0.1 redirects to `www` on 127.0.0.2; `other` on 127.0.0.4 is foreign."""
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.1/32,127.0.0.2/32,127.0.0.4/32")
    forget_settings()
    sites = {"x": Site(), "www": Site(), "other": Site()}
    with (
        serving(sites["x"].play, "127.0.0.1") as x,
        serving(sites["www"].play, "127.0.0.2") as www,
        serving(sites["other"].play, "127.0.0.4") as other_server,
    ):
        sites["x"].url, sites["www"].url, sites["other"].url = x.url, www.url, other_server.url
        yield sites


def moved(url):
    return answer(status="301 Moved Permanently", location=url)


def grow(hosts):
    x, www, other_site = hosts["x"], hosts["www"], hosts["other"]
    x.pages = {"/": moved(f"{www.url}/"), "/b": moved(f"{www.url}/b")}
    www.pages = {
        "/": linked("/", ["/a", f"{x.url}/b", f"{other_site.url}/c", "/jump"]),
        "/a": linked("/a", ["/"]),
        "/b": linked("/b", []),
        "/jump": moved(f"{other_site.url}/c"),
    }
    other_site.pages = {"/c": linked("/c", [])}


def test_a_walk_goes_on_where_the_start_page_ended(space, hosts):
    grow(hosts)
    run = crawl(space, "WEBSITE", url=hosts["x"].url)
    www = hosts["www"].url
    assert sorted(names(space, run)) == [f"{www}/", f"{www}/a", f"{www}/b"]
    assert list(reasons(space, run)) == [f"{www}/jump"]
    assert hosts["other"].paths() == []


def test_a_resumed_walk_knows_where_the_start_page_ended(space, hosts):
    grow(hosts)
    hosts["www"].pages["/a"] = answer(status="503 Busy")
    run = accept(space, "WEBSITE", url=hosts["x"].url)
    discovery = listing(space)
    with pytest.raises(steps.Retryable):
        steps.discover(discovery)
    hosts["www"].pages["/a"] = linked("/a", ["/late"])
    hosts["www"].pages["/late"] = linked("/late", [])
    steps.discover(discovery)
    assert f"{hosts['www'].url}/late" in names(space, run)
    assert hosts["www"].paths().count("/") == 1


def test_the_rules_of_the_host_that_was_led_to_bind(space, hosts):
    grow(hosts)
    hosts["www"].pages["/robots.txt"] = answer(b"User-agent: *\nDisallow: /\n", content_type="text/plain")
    run = crawl(space, "WEBSITE", url=hosts["x"].url)
    assert names(space, run) == []
    assert "robots.txt" in reasons(space, run)[f"{hosts['x'].url}/"]
    assert hosts["www"].paths() == []


def test_a_sitemap_on_another_host_does_not_add_that_host(space, hosts):
    www, other_site = hosts["www"], hosts["other"]
    www.pages = {
        "/": linked("/", [f"{other_site.url}/c"]),
        "/hidden": linked("/hidden", []),
        "/robots.txt": answer(f"Sitemap: {other_site.url}/sitemap.xml".encode(), content_type="text/plain"),
    }
    entries = [(f"{www.url}/hidden", ""), (f"{other_site.url}/c", "")]
    other_site.pages = {"/sitemap.xml": xml(urlset(*entries)), "/c": linked("/c", [])}
    run = crawl(space, "WEBSITE", url=f"{www.url}/")
    assert sorted(names(space, run)) == [f"{www.url}/", f"{www.url}/hidden"]
