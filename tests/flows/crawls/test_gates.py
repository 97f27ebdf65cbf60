"""Paginated news, cookie walls, and limits of a crawl."""

import pytest

from retrieval.jobs import web_pages
from tests.connectors.web.test_web_client import serving
from tests.flows.crawling import crawl, names, reasons
from tests.flows.crawls.site import answer, forget_settings, html, ingest_urls, linked, pages, urlset, xml

REFRESH = '<html><head><meta http-equiv="refresh" content="{}; url={}"></head><body>One moment …</body></html>'
SCRIPT = "<html><head><script>{}</script></head><body></body></html>"


def paths(space, site, run):
    return sorted(name.removeprefix(site.url) for name in names(space, run))


@pytest.mark.parametrize(
    "gate",
    [
        REFRESH.format(0, "/en/"),
        REFRESH.format("3", "en/"),
        SCRIPT.format("window.location.href = '/en/';"),
        SCRIPT.format('location.replace("/en/")'),
    ],
)
def test_a_page_that_leads_on_is_followed_and_is_no_document(space, site, gate):
    site.pages = {"/": gate, "/en/": linked("/en/", ["/en/owls"]), "/en/owls": linked("/en/owls", [])}
    run = crawl(space, "WEBSITE", ingest=True, url=f"{site.url}/")
    assert paths(space, site, run) == ["/en/", "/en/owls"]
    assert reasons(space, run) == {}


def test_cookies_last_for_a_crawl_and_no_longer(space, site):
    def guarded(path, text):
        def serve(headers):
            if "visitor=" in headers.get("cookie", ""):
                return html(text)
            return answer(status="302 Found", location=path, set_cookie="visitor=7; Path=/")

        return serve

    site.pages = {
        "/": guarded("/", linked("/", ["/owls", "/bats"])),
        "/owls": guarded("/owls", linked("/owls", [])),
        "/bats": guarded("/bats", linked("/bats", [])),
    }
    for _ in range(2):
        site.calls.clear()
        run = crawl(space, "WEBSITE", url=f"{site.url}/")
        assert paths(space, site, run) == ["/", "/bats", "/owls"]
        assert site.paths().count("/") == 2
        assert len(site.paths()) == 4
    assert ingest_urls(space, f"{site.url}/owls").failed == []


def chain(site, length):
    """News pages, each with a link to older ones."""
    site.pages = {f"/news/{number}": linked(f"/news/{number}", [f"/news/{number + 1}"]) for number in range(length)}
    site.pages["/"] = linked("/", ["/news/0"])


def test_what_lies_deeper_than_the_depth_is_counted_with_what_to_set(space, site):
    chain(site, 8)
    run = crawl(space, "WEBSITE", ingest=True, url=f"{site.url}/", maxDepth=5)
    assert len(names(space, run)) == 6
    (notice,) = space.run(run).notices
    assert (notice.count, "maxDepth" in notice.reason) == (1, True)


def test_what_lies_beyond_the_limit_is_counted_with_what_to_set(space, site):
    site.pages = {f"/p{number}": linked(f"/p{number}", []) for number in range(9)}
    site.pages["/"] = linked("/", list(site.pages))
    run = crawl(space, "WEBSITE", ingest=True, url=f"{site.url}/", maxLinks=4)
    assert len(names(space, run)) == 4
    (notice,) = space.run(run).notices
    assert notice.count == 6
    assert "set maxLinks to 10" in notice.reason


@pytest.mark.parametrize(("config", "page_count"), [({}, 21), ({"useSitemap": False}, 6), ({"maxLinks": 9}, 9)])
def test_pages_of_the_sitemaps_that_robots_names_are_ingested_too(space, site, config, page_count):
    chain(site, 20)
    site.pages["/map.xml"] = xml(pages(site, *[path for path in site.pages if path != "/"]))
    robots = f"User-agent: *\nDisallow:\nSitemap: {site.url}/map.xml\n"
    site.pages["/robots.txt"] = answer(robots.encode(), content_type="text/plain")
    forget_settings()
    run = crawl(space, "WEBSITE", ingest=True, url=f"{site.url}/", maxDepth=5, **config)
    assert len(names(space, run)) == page_count
    assert ("maxLinks" in "".join(notice.reason for notice in space.run(run).notices)) == ("maxLinks" in config)


def test_a_sitemap_of_another_host_fails_with_the_reason(space, site):
    site.pages["/sitemap.xml"] = xml(urlset(*((f"https://other.example/{number}", "") for number in range(3))))
    run = space.run(crawl(space, "SITEMAP", ingest=True, url=f"{site.url}/sitemap.xml"))
    assert run.outcome == "FAILED"
    assert "All 3 pages of the sitemap lie on another host" in run.failed[0].error


FORM = '<form><input name="user"><input type="password" name="secret"><button>Sign in</button></form>'
OWLS = "Owls hunt mice at night."


@pytest.mark.parametrize("listed_by", ["URLS_LIST", "SITEMAP"])
def test_a_listed_page_that_is_a_gate_is_no_document(space, site, listed_by):
    missing = "<html><head><title>Page not found</title></head><body><p>There is nothing here.</p></body></html>"
    site.pages = {
        "/owls": f"<html><head><title>Owls</title></head><body><p>{OWLS}</p></body></html>",
        "/members": answer(status="302 Found", location="/login?next=/members"),
        "/login?next=/members": f"<html><head><title>Sign in</title></head><body><p>Your name.</p>{FORM}</body></html>",
    }
    listed = ["/owls", "/members", "/lost"]
    play = site.play
    site.play = lambda path, headers: play(path, headers) if path in site.pages else html(missing)
    with serving(site.play) as server:
        site.url = server.url
        if listed_by == "SITEMAP":
            site.pages |= {"/robots.txt": answer(b""), "/sitemap.xml": xml(pages(site, *listed))}
            run = space.run(crawl(space, "SITEMAP", ingest=True, url=f"{site.url}/sitemap.xml"))
        else:
            run = ingest_urls(space, *(f"{site.url}{path}" for path in listed))
        errors = {entry.name.removeprefix(site.url): entry.error for entry in run.failed}
    assert errors == {"/members": web_pages.SIGN_IN_REASON, "/lost": web_pages.MISSING_REASON}
    assert space.search("owls and mice") == [f"{site.url}/owls"]
