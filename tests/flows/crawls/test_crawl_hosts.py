"""Addresses that lead to another host of the site: the crawl follows where the start page ended, and nowhere else."""

import socket

import pytest

from flows import steps
from retrieval.errors import Skippable
from retrieval.filters import DocumentFilter
from tests.connectors.web.test_web_client import serving
from tests.flows.crawling import accept, crawl, listing, names, reasons
from tests.flows.crawls import test_url_list as lists
from tests.flows.crawls.test_sitemap import urlset, xml
from tests.flows.crawls.test_url_list import Site, answer
from tests.flows.crawls.test_website import linked

space, allowed = lists.space, lists.allowed


@pytest.fixture
def hosts(allowed, monkeypatch):
    """`x` on 127.0.0.1 leads its visitors to `www` on 127.0.0.2; `other` on 127.0.0.4 has nothing to do with them."""
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.1/32,127.0.0.2/32,127.0.0.4/32")
    lists._forget()
    made = {"x": Site(), "www": Site(), "other": Site()}
    with (
        serving(made["x"].play, "127.0.0.1") as x,
        serving(made["www"].play, "127.0.0.2") as www,
        serving(made["other"].play, "127.0.0.4") as other,
    ):
        made["x"].url, made["www"].url, made["other"].url = x.url, www.url, other.url
        yield made


def moved(url):
    return answer(status="301 Moved Permanently", location=url)


def grow(hosts):
    x, www, other = hosts["x"], hosts["www"], hosts["other"]
    x.pages = {"/": moved(f"{www.url}/"), "/b": moved(f"{www.url}/b")}
    www.pages = {
        "/": linked("/", ["/a", f"{x.url}/b", f"{other.url}/c", "/jump"]),
        "/a": linked("/a", ["/"]),
        "/b": linked("/b", []),
        "/jump": moved(f"{other.url}/c"),
    }
    other.pages = {"/c": linked("/c", [])}


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
    found = listing(space)
    with pytest.raises(steps.Retryable):
        steps.discover(found)
    hosts["www"].pages["/a"] = linked("/a", ["/late"])
    hosts["www"].pages["/late"] = linked("/late", [])
    steps.discover(found)
    assert f"{hosts['www'].url}/late" in names(space, run)
    assert hosts["www"].paths().count("/") == 1


def test_a_slash_or_a_path_that_is_added_is_no_trouble(space, hosts):
    x = hosts["x"]
    x.pages = {"/docs": moved("/docs/"), "/docs/": moved("/docs/en/"), "/docs/en/": linked("/docs/en/", ["one", "/"])}
    x.pages |= {"/docs/en/one": linked("one", []), "/": linked("/", [])}
    run = crawl(space, "WEBSITE", url=f"{x.url}/docs")
    assert [name.removeprefix(x.url) for name in names(space, run)] == ["/docs/en/", "/docs/en/one", "/"]


def test_the_rules_of_the_host_that_was_led_to_bind(space, hosts):
    grow(hosts)
    hosts["www"].pages["/robots.txt"] = answer(b"User-agent: *\nDisallow: /\n", content_type="text/plain")
    run = crawl(space, "WEBSITE", url=hosts["x"].url)
    assert names(space, run) == []
    assert "robots.txt" in reasons(space, run)[f"{hosts['x'].url}/"]
    assert hosts["www"].paths() == []


def test_a_start_page_that_leads_inside_is_not_followed(space, hosts):
    with socket.create_server(("127.0.0.9", 0)) as witness:
        witness.setblocking(False)
        hosts["x"].pages = {"/": moved(f"http://127.0.0.9:{witness.getsockname()[1]}/")}
        run = crawl(space, "WEBSITE", url=hosts["x"].url)
        hosts["x"].pages["/sitemap.xml"] = hosts["x"].pages["/"]
        accept(space, "SITEMAP", url=f"{hosts['x'].url}/sitemap.xml")
        with pytest.raises(Skippable, match="RETRIEVAL_FETCH_ALLOW"):
            steps.discover(listing(space))
        assert names(space, run) == []
        assert "RETRIEVAL_FETCH_ALLOW" in reasons(space, run)[f"{hosts['x'].url}/"]
        with pytest.raises(BlockingIOError):
            witness.accept()


def test_a_sitemap_that_lies_on_the_other_host_names_pages_of_both(space, hosts):
    grow(hosts)
    x, www, other = hosts["x"], hosts["www"], hosts["other"]
    x.pages["/sitemap.xml"] = moved(f"{www.url}/sitemap.xml")
    x.pages["/d"] = linked("/d", [])
    entries = (f"{www.url}/a", f"{x.url}/d", f"{other.url}/c")
    www.pages["/sitemap.xml"] = xml(urlset(*((url, "") for url in entries)))
    run = crawl(space, "SITEMAP", ingest=True, url=f"{x.url}/sitemap.xml")
    assert names(space, run) == [f"{www.url}/a", f"{x.url}/d"]
    done = space.run(run)
    assert (len(done.completed), done.progress["skipped"]) == (2, 1)
    assert other.paths() == []


@pytest.mark.parametrize("source", ["WEBSITE", "SITEMAP"])
def test_pages_of_the_other_host_can_be_fetched_anew(space, hosts, source):
    from retrieval.jobs import resync

    grow(hosts)
    www = hosts["www"]
    hosts["x"].pages["/sitemap.xml"] = moved(f"{www.url}/sitemap.xml")
    www.pages["/sitemap.xml"] = xml(urlset((f"{www.url}/a", "")))
    start = "/" if source == "WEBSITE" else "/sitemap.xml"
    crawl(space, source, ingest=True, url=hosts["x"].url + start)
    www.pages["/a"] = linked("/a", []).replace("This is /a.", "Owls hunt mice at night.")
    chosen = DocumentFilter(external_ids=(f"{www.url}/a",))
    started = space.call(resync.start_resync(space.db, space.scope, chosen))
    space.work()
    assert [entry.error for entry in space.run(started.job_runs[0]).failed] == []
    assert space.search("owls and mice")[0] == f"{www.url}/a"
