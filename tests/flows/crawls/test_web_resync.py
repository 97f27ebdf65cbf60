"""Resync of web pages: refetch, replace, keep on failure."""

import pytest

from retrieval.filters import DocumentFilter
from retrieval.jobs import resync
from tests.flows.crawling import crawl
from tests.flows.crawls.site import answer, forget_settings, linked, pages, text_of, xml

WAYS = pytest.mark.parametrize(
    ("source", "start"), [("WEBSITE", "/"), pytest.param("SITEMAP", "/sitemap.xml", marks=pytest.mark.slow)]
)


@pytest.fixture
def ingested(space, site):
    """Return a function: ingest the pages and clear the log of requests."""

    def bring(source, start):
        site.pages = {"/": linked("/", ["/owls", "/bats"])}
        site.pages["/owls"] = linked("/owls", []).replace("This is /owls.", "Owls hunt mice at night.")
        site.pages["/bats"] = linked("/bats", [])
        site.pages["/sitemap.xml"] = xml(pages(site, "/", "/owls", "/bats"))
        run = crawl(space, source, ingest=True, url=site.url + start)
        assert len(space.run(run).completed) == 3
        site.calls.clear()

    return bring


def resync_page(space, url):
    """Resync the document; return its job run."""
    chosen = DocumentFilter(external_ids=(url,))
    started = space.call(resync.start_resync(space.db, space.scope, chosen))
    assert [document.status for document in started.documents] == ["QUEUED_FOR_RESYNC"]
    space.work()
    return space.run(started.job_runs[0])


@WAYS
def test_a_changed_page_is_replaced_and_no_other_is_asked_for(space, site, ingested, source, start):
    ingested(source, start)
    url = f"{site.url}/owls"
    site.pages["/owls"] = linked("/owls", []).replace("This is /owls.", "Herons catch frogs in ponds.")
    done = resync_page(space, url)
    assert (done.status, len(done.completed), done.progress["embedded"]) == ("COMPLETED", 1, 1)
    assert space.search("herons and frogs")[0] == url
    assert "mice" not in text_of(space, url)
    assert site.paths() == ["/owls"]
    assert {row["status"] for row in space.documents().values()} == {"SUCCESS"}


@WAYS
def test_a_page_that_is_gone_fails_and_stays_searchable(space, site, ingested, source, start):
    # Only a user or a listing removes a document.
    ingested(source, start)
    url, whole = f"{site.url}/owls", site.pages["/owls"]
    site.pages["/owls"] = answer(status="410 Gone")
    done = resync_page(space, url)
    assert done.status == "COMPLETED"
    assert ["410" in entry.error for entry in done.failed] == [True]
    row = space.documents()[url]
    assert (row["status"], "410" in row["error"]) == ("FAILED", True)
    assert space.search("owls and mice")[0] == url
    assert space.search("owls mice", semantic_weight=0.0, keyword_weight=1.0)[0] == url
    site.pages["/owls"] = whole
    assert len(resync_page(space, url).completed) == 1
    assert space.documents()[url]["status"] == "SUCCESS"


@WAYS
def test_rules_bind_a_resync_as_they_bound_the_crawl(space, site, ingested, source, start):
    ingested(source, start)
    site.pages["/robots.txt"] = answer(b"User-agent: *\nDisallow: /bats\n", content_type="text/plain")
    site.pages["/owls"] = answer(status="302 Found", location="http://127.0.0.1:1/elsewhere")
    forget_settings()
    assert "robots.txt" in resync_page(space, f"{site.url}/bats").failed[0].error
    assert "another host" in resync_page(space, f"{site.url}/owls").failed[0].error
    assert space.search("owls and mice")[0] == f"{site.url}/owls"
