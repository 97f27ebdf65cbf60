"""Sites with one text at many addresses: soft 404 pages and application shells."""

import pytest

from tests.flows.crawling import crawl
from tests.flows.crawls import site as sites
from tests.flows.crawls.site import html, ingest_urls, xml
from tests.nightly import nightly_except

PATHS = [f"/page-{number}" for number in range(40)]
TEXTS = ("We are sorry: this page does not exist any more.", "Owls hunt mice at night, and seals dive for fish.")
SHELL = """<!doctype html><html><head><title>Shop</title><script type="module" src="/app.js"></script></head><body>
<noscript><p>You need <a href="/help">JavaScript</a>.</p></noscript><div id="root">{}</div></body></html>"""


def page(text, nonce):
    return html(f'<html><head><meta name="csrf" content="{nonce}"></head><body><p>{text}</p></body></html>')


def fill(site, source, pages):
    """Serve pages under the paths; return a configuration of `source` for all."""
    site.pages = dict(zip(PATHS, pages, strict=False))
    urls = [f"{site.url}{path}" for path in site.pages]
    if source == "URLS_LIST":
        return {"urls": urls}
    if source == "SITEMAP":
        site.pages["/sitemap.xml"] = xml(sites.pages(site, *site.pages))
        return {"url": f"{site.url}/sitemap.xml"}
    links = "".join(f'<a href="{url}">{url}</a>' for url in urls)
    site.pages["/"] = html(f"<html><body><main><p>All our pages are listed here.</p>{links}</main></body></html>")
    return {"url": f"{site.url}/"}


def ingest(space, source, config):
    if source == "URLS_LIST":
        return ingest_urls(space, *config["urls"])
    return space.run(crawl(space, source, ingest=True, **config))


@pytest.mark.parametrize("source", nightly_except(["URLS_LIST", "SITEMAP", "WEBSITE"], "WEBSITE"))
def test_pages_of_two_texts_are_reported_with_their_number_and_an_example_at_each_run(space, site, source):
    config = fill(site, source, [page(TEXTS[number % 2], nonce=number) for number in range(40)])
    for run in (ingest(space, source, config), ingest(space, source, config)):
        copies, *missing = run.notices
        count = {"WEBSITE": 19, "SITEMAP": 38, "URLS_LIST": 40}[source]
        assert copies.count == count
        assert f"{count} pages have the same content as another page" in copies.reason
        assert source != "URLS_LIST" or f"such as {site.url}/page-0:" in copies.reason
        assert [notice.count for notice in missing] == ([19] if source == "WEBSITE" else [])


@pytest.mark.parametrize("source", nightly_except(["URLS_LIST", "SITEMAP", "WEBSITE"], "SITEMAP"))
def test_application_shells_are_named_with_what_reads_them(space, site, source):
    config = fill(site, source, [html(SHELL.format("Loading …"))] * 3)
    run = ingest(space, source, config)
    shells, copies = run.notices
    for words in ("application shell", "webScraperConfig", "FIRECRAWL"):
        assert words in shells.reason
    assert f"such as {site.url}/page-0" in shells.reason
    assert (shells.count, copies.count) == ((3, 3) if source == "URLS_LIST" else (1, 2))


def test_a_shell_without_any_text_fails_with_the_same_advice_and_short_pages_are_no_shells(space, site):
    short = '<html><script src="/count.js"></script><p>Closed on Mondays. <a href="/">Home</a></p></html>'
    site.pages = {"/shell": html(SHELL.format("")), "/short": html(short)}
    run = ingest_urls(space, f"{site.url}/shell", f"{site.url}/short")
    (failed,) = run.failed
    assert "application shell" in failed.error
    assert "webScraperConfig" in failed.error
    assert run.notices == []
