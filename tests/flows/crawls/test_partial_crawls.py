"""Incomplete crawls remove no existing page."""

import pytest

from connectors.web.crawl.walk import MAX_PAGE_TRIES
from flows import steps
from retrieval.errors import Retryable
from tests.flows.crawling import accept, listing
from tests.flows.crawls.site import answer, forget_settings, html, page, pages, xml
from tests.flows.crawls.test_page_removals import BY_WORDS, PATHS, fill, is_searchable, link
from tests.nightly import nightly_except

DOWN = answer(status="503 Unavailable")
SIGN_IN = page("", title="Sign in", tail="<form><input type=password></form>")


def robots(site, *lines):
    site.pages["/robots.txt"] = answer("\n".join(["User-agent: *", *lines, ""]).encode(), content_type="text/plain")
    forget_settings()


def ingest(space, site, source="WEBSITE", start="/", **config):
    """Retry a crawl while the site is down, as a flow run does."""
    run = accept(space, source, url=site.url + start, **config)
    discovery = listing(space)
    for _ in range(MAX_PAGE_TRIES + 2):
        try:
            steps.discover(discovery)
        except Retryable as error:
            reason = error
            continue
        break
    else:
        discovery.fail_all(reason)
    space.take(discovery.lease)
    return space.run(run)


def refuse(site, path, fault):
    if fault == "robots":
        robots(site, f"Disallow: {path}")
    else:
        site.pages[path] = {"down": DOWN, "sign-in": SIGN_IN, "forbidden": answer(status="403 Forbidden")}[fault]


@pytest.mark.parametrize("fault", nightly_except(["down", "sign-in", "robots"], "robots"))
def test_pages_behind_a_page_whose_links_cannot_be_read_stay(space, site, fault):
    fill(site)
    site.pages["/rare"] = page("All rare animals.", links=["/lynx"])
    site.pages["/lynx"] = page("Everything that is known of lynx in this valley.", title="lynx")
    link(site, *PATHS, "/rare")
    ingest(space, site)
    refuse(site, "/rare", fault)
    for _ in range(2):
        assert ingest(space, site).progress["removed"] == 0
    assert is_searchable(space, "lynx")


@pytest.mark.parametrize("fault", nightly_except(["down", "forbidden"], "forbidden"))
def test_pages_stay_while_the_start_page_cannot_be_read(space, site, fault):
    site.pages["/owls"] = page("Everything that is known of owls in this valley.", title="owls")
    site.pages["/"] = page("All animals of the valley.", links=["/owls"])
    ingest(space, site)
    refuse(site, "/", fault)
    for _ in range(2):
        assert ingest(space, site).progress["removed"] == 0
    assert is_searchable(space, "owls")


@pytest.mark.parametrize("fault", nightly_except(["down", "no sitemap", "robots"], "no sitemap"))
def test_pages_of_a_sitemap_that_cannot_be_read_stay(space, site, fault):
    fill(site)
    link(site, *PATHS[1:])
    site.pages["/map.xml"] = xml(pages(site, *PATHS))
    robots(site, f"Sitemap: {site.url}/map.xml")
    ingest(space, site)
    assert is_searchable(space, "owls")
    if fault == "robots":
        robots(site, f"Sitemap: {site.url}/map.xml", "Disallow: /owls")
    else:
        site.pages["/map.xml"] = DOWN if fault == "down" else html("We are back soon.")
    for _ in range(2):
        assert ingest(space, site).progress["removed"] == 0
    assert is_searchable(space, "owls")


def test_pages_of_a_sitemap_stay_when_a_crawl_leaves_it_out(space, site):
    fill(site)
    link(site, *PATHS[1:])
    site.pages["/map.xml"] = xml(pages(site, *PATHS))
    robots(site, f"Sitemap: {site.url}/map.xml")
    ingest(space, site)
    for _ in range(2):
        assert ingest(space, site, useSitemap=False).progress["removed"] == 0
    assert is_searchable(space, "owls")


def test_pages_stay_that_a_resumed_crawl_found_beyond_its_depth(space, site):
    fill(site)
    site.pages["/owls"] = page("Everything that is known of owls in this valley.", title="owls", links=["/eggs"])
    site.pages["/eggs"] = page("Everything that is known of eggs in this valley.", title="eggs", links=["/shells"])
    site.pages["/shells"] = page("Everything that is known of shells in this valley.", title="shells")
    ingest(space, site)
    site.pages["/toads"] = DOWN
    for _ in range(2):
        answers = iter([DOWN] * 3)
        toads = page("Everything that is known of toads in this valley.", title="toads")
        site.pages["/toads"] = lambda _, answers=answers, toads=toads: next(answers, html(toads))
        assert ingest(space, site, maxDepth=2).progress["removed"] == 0
    assert is_searchable(space, "shells")


def test_a_page_stays_while_the_page_that_it_moved_to_cannot_be_ingested(space, site):
    fill(site)
    ingest(space, site)
    site.pages["/birds/owls"] = answer(b"%PDF-1.4 broken", content_type="application/pdf")
    site.pages["/owls"] = answer(status="301 Moved", location="/birds/owls")
    for _ in range(2):
        run = ingest(space, site)
        assert [failed.name for failed in run.failed] == [f"{site.url}/birds/owls"]
    assert is_searchable(space, "owls")
    site.pages["/birds/owls"] = page("Everything that is known of owls in this valley.", title="owls")
    assert ingest(space, site).progress["removed"] == 1
    assert space.search("owls", **BY_WORDS) == [f"{site.url}/birds/owls"]


def test_a_page_that_robots_refuses_stays_with_its_sitemap(space, site):
    fill(site)
    ingest(space, site, "SITEMAP", "/sitemap.xml")
    robots(site, "Disallow: /owls")
    for _ in range(2):
        assert ingest(space, site, "SITEMAP", "/sitemap.xml").progress["removed"] == 0
    assert is_searchable(space, "owls")


def test_pages_behind_a_page_beyond_the_limit_stay(space, site):
    fill(site)
    site.pages["/rare"] = page("All rare animals.", links=["/lynx"])
    site.pages["/lynx"] = page("Everything that is known of lynx in this valley.", title="lynx")
    link(site, *PATHS, "/rare")
    ingest(space, site)
    for _ in range(2):
        assert ingest(space, site, maxLinks=5).progress["removed"] == 0
    assert is_searchable(space, "lynx")


def test_a_crawl_that_is_resumed_after_its_last_page_counts_one_miss(space, site):
    fill(site)
    ingest(space, site)
    link(site, *PATHS[1:])
    del site.pages["/owls"]
    run = accept(space, "WEBSITE", url=f"{site.url}/")
    discovery = listing(space)
    should_continue = iter([True, True, False])
    discovery.should_continue = lambda: next(should_continue, True)
    site.calls.clear()
    for _ in range(2):
        steps.discover(discovery)
    space.take(discovery.lease)
    assert site.paths().count("/owls") == 2
    assert space.run(run).progress["removed"] == 0
    assert is_searchable(space, "owls")
