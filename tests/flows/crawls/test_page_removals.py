"""Pages missing from their site: removal, confirmation, notices."""

import pytest

from tests.flows.crawling import crawl
from tests.flows.crawls.site import answer, ingest_urls, page, pages, xml
from tests.nightly import nightly_except

ANIMALS = ["owls", "bats", "seals", "herons", "foxes", "storks", "voles", "newts", "larks", "otters", "swifts", "toads"]
PATHS = [f"/{name}" for name in ANIMALS]
GONE, MISSING = answer(status="410 Gone"), answer(status="404 Not Found")
BY_WORDS = {"semantic_weight": 0.0, "keyword_weight": 1.0}


def fill(site, paths=PATHS):
    site.pages = {
        path: page(f"Everything that is known of {path[1:]} in this valley.", title=path[1:]) for path in paths
    }
    link(site, *paths)


def link(site, *paths):
    site.pages["/"] = page("All animals of the valley.", links=paths)
    site.pages["/sitemap.xml"] = xml(pages(site, *paths))


@pytest.fixture(params=nightly_except(["WEBSITE", "SITEMAP", "URLS_LIST"], "WEBSITE"))
def ingest(space, site, request):
    """Return a function: ingest the site by one source and return the run."""

    def once():
        if request.param == "URLS_LIST":
            return ingest_urls(space, *(f"{site.url}{path}" for path in PATHS))
        start = "/" if request.param == "WEBSITE" else "/sitemap.xml"
        return space.run(crawl(space, request.param, ingest=True, url=site.url + start))

    once.source = request.param
    return once


def is_searchable(space, name):
    return bool(space.search(name, **BY_WORDS))


def removals(run):
    return {notice.reason: notice.count for notice in run.notices if "removed" in notice.reason}


def test_a_page_that_is_gone_leaves_at_once_and_a_missing_one_with_the_second_run(space, site, ingest):
    fill(site)
    ingest()
    site.pages["/owls"], site.pages["/bats"] = GONE, MISSING
    second = ingest()
    assert second.progress["removed"] == 1
    assert removals(second) == {f"1 page was removed. The site answers 410: the page is gone. {site.url}/owls": 1}
    assert (is_searchable(space, "owls"), is_searchable(space, "bats"), is_searchable(space, "seals")) == (
        False,
        True,
        True,
    )
    third = ingest()
    assert third.progress["removed"] == 1
    assert "404" in "".join(removals(third))
    assert (is_searchable(space, "bats"), is_searchable(space, "seals")) == (False, True)


def test_a_missing_page_that_is_back_begins_anew(space, site, ingest):
    fill(site)
    ingest()
    whole = site.pages["/bats"]
    for answered in (MISSING, whole, MISSING):
        site.pages["/bats"] = answered
        assert ingest().progress["removed"] == 0
    assert is_searchable(space, "bats")


def test_more_than_a_fifth_waits_for_a_person(space, site, ingest):
    fill(site)
    ingest()
    for path in PATHS[:4]:
        site.pages[path] = GONE
    run = ingest()
    assert (run.progress["removed"], run.progress["awaitingConfirmation"]) == (0, 4)
    assert any("confirmDeletions" in notice.reason for notice in run.notices)
    assert is_searchable(space, "owls")
    fill(site)
    assert ingest().progress["awaitingConfirmation"] == 0
    assert is_searchable(space, "owls")


@pytest.mark.parametrize("ingest", ["SITEMAP"], indirect=True)
def test_a_page_that_nothing_names_leaves_with_the_second_run(space, site, ingest):
    fill(site)
    ingest()
    link(site, *PATHS[1:])
    assert ingest().progress["removed"] == 0
    run = ingest()
    assert run.progress["removed"] == 1
    assert is_searchable(space, "bats")
    assert not is_searchable(space, "owls")


@pytest.mark.parametrize("is_linked", [True, False])
@pytest.mark.parametrize("ingest", ["WEBSITE"], indirect=True)
def test_a_page_that_moved_becomes_its_target(space, site, ingest, is_linked):
    fill(site)
    ingest()
    site.pages["/birds/owls"] = site.pages["/owls"]
    site.pages["/owls"] = answer(status="301 Moved", location="/birds/owls")
    if not is_linked:
        link(site, *PATHS[1:])
    run = ingest()
    assert run.progress["removed"] == 1
    assert space.search("owls", **BY_WORDS) == [f"{site.url}/birds/owls"]
    assert ingest().progress["removed"] == 0


@pytest.mark.parametrize("ingest", ["WEBSITE"], indirect=True)
def test_a_page_that_became_an_error_page_leaves_with_the_second_run(space, site, ingest):
    fill(site)
    ingest()
    site.pages["/owls"] = page("Sorry, this article is no longer available.", title="Page not found")
    assert ingest().progress["removed"] == 0
    assert ingest().progress["removed"] == 1
    assert not is_searchable(space, "owls")


@pytest.mark.parametrize("is_linked", [True, False])
@pytest.mark.parametrize("ingest", ["WEBSITE"], indirect=True)
def test_a_page_that_leads_elsewhere_for_now_leaves_with_the_second_run(space, site, ingest, is_linked):
    fill(site)
    ingest()
    whole = site.pages["/owls"]
    if not is_linked:
        link(site, *PATHS[1:])
    for answered, removed in ((answer(status="302 Found", location="/"), 0), (whole, 0)) if is_linked else ():
        site.pages["/owls"] = answered
        assert ingest().progress["removed"] == removed
    site.pages["/owls"] = answer(status="302 Found", location="/")
    assert ingest().progress["removed"] == 0
    assert is_searchable(space, "owls")
    assert ingest().progress["removed"] == 1
    assert not is_searchable(space, "owls")
