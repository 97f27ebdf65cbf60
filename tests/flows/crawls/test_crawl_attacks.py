"""Attack URLs in every place of a request or a site are never dialled.

The site may be fetched from 127.0.0.3; sockets are watched.
"""

import socket
from html import escape

import pytest

from connectors import registry
from connectors.files.s3 import store as s3
from connectors.vectors.pinecone import store as pinecone
from connectors.web.builtin import client, robots
from retrieval.errors import StepError
from retrieval.job_config import Ingestion
from retrieval.jobs import runs
from retrieval.ports import DiscoveryRequest
from retrieval.settings import Settings
from tests.connectors.web.test_web_client import serving
from tests.flows.crawling import crawl, names
from tests.flows.crawls.site import (
    Site,
    answer,
    forget_settings,
    html,
    index,
    ingest_urls,
    linked,
    urlset,
    xml,
)
from tests.retrieval.network.test_fetch_guard import ATTACKS

HERE = "127.0.0.3"
# Browsers drop the tab and add a scheme: a public address.
PUBLIC = {"http://8.8.8.8\t/", "//8.8.8.8/"}
SENDABLE = [url for url in ATTACKS if "\r" not in url and url not in PUBLIC]


@pytest.fixture
def dialled(monkeypatch):
    """Addresses dialled by Python code of this process."""
    addresses, connect = set(), socket.socket.connect

    def watched(self, address):
        if self.family != socket.AF_UNIX:
            addresses.add(address[:2])
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", watched)
    return addresses


@pytest.fixture
def site(allowed, monkeypatch, dialled):
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", f"{HERE}/32")
    forget_settings()
    site = Site()
    with serving(site.play, HERE) as server:
        site.url = server.url
        site.address = (HERE, server.port)
        yield site


def leading(url):
    """Redirect response."""
    return answer(status="302 Found", location=url.encode().decode("latin-1"))


def jumps(site):
    """Paths of the site, each with a redirect to an attack."""
    for number, url in enumerate(SENDABLE):
        site.pages[f"/jump{number}"] = leading(url)
    return [f"{site.url}/jump{number}" for number in range(len(SENDABLE))]


def list_urls(space, source, url):
    """URLs found by a listing from there."""
    source_reader = registry.make_source(source, space.config, space.db, space.ring)
    request = DiscoveryRequest(space.scope, source, {"url": url}, None, "none")
    try:
        return [item for page in source_reader.discover(request, None) for item in page.items if not item.error]
    except StepError:
        return []


@pytest.mark.parametrize("source", ["WEBSITE", "SITEMAP"])
def test_no_attack_as_a_start_is_dialled(space, site, dialled, source):
    for url in SENDABLE:
        assert list_urls(space, source, url) == []
    assert dialled == set()


@pytest.mark.parametrize("source", ["WEBSITE", "SITEMAP"])
def test_no_attack_that_a_start_leads_to_is_dialled(space, site, dialled, source):
    """The final host of a start is checked before it is dialled."""
    for url in jumps(site):
        assert list_urls(space, source, url) == []
    assert dialled == {site.address}
    assert {f"/jump{number}" for number in range(len(SENDABLE))} <= set(site.paths())


def test_no_attack_of_a_list_is_dialled(space, site, dialled):
    urls = [*SENDABLE, *jumps(site)]
    config = {"urls": urls}
    receipt = space.call(runs.accept_urls(space.db, space.scope, urls=urls, config=config, ingestion=Ingestion()))
    space.work()
    assert space.run(receipt.job_run_id).completed == []
    assert dialled == {site.address}


@pytest.mark.parametrize("body_kind", [urlset, index], ids=["pages", "sitemaps"])
def test_no_attack_that_a_sitemap_names_is_dialled(space, site, dialled, body_kind):
    urls = [escape(url) for url in [*SENDABLE, *jumps(site)]]
    body = urlset(*((url, "") for url in urls)) if body_kind is urlset else index(*urls)
    site.pages["/sitemap.xml"] = xml(body)
    run = crawl(space, "SITEMAP", ingest=True, url=f"{site.url}/sitemap.xml")
    assert space.run(run).completed == []
    assert dialled == {site.address}
    assert {f"/jump{number}" for number in range(len(SENDABLE))} <= set(site.paths())


def test_no_attack_in_a_page_is_dialled(space, site, dialled):
    """As link, redirect, base, canonical, refresh, picture, script or frame."""
    urls = [*SENDABLE, *jumps(site)]
    tags = ('<link rel="canonical" href="{}">', '<base href="{}">', '<meta http-equiv="refresh" content="0;url={}">')
    tags += (
        '<img src="{}">',
        '<script src="{}"></script>',
        '<iframe src="{}"></iframe>',
        '<link rel="next" href="{}">',
    )
    for number, url in enumerate(SENDABLE):
        head = tags[number % len(tags)].format(escape(url))
        site.pages[f"/page{number}"] = html(linked(f"page {number}", ["relative"], head))
    pages = [f"/page{number}" for number in range(len(SENDABLE))]
    site.pages["/"] = html(linked("/", [*map(escape, urls), *pages]))
    run = crawl(space, "WEBSITE", url=f"{site.url}/", maxLinks=1000)
    assert set(names(space, run)) == {f"{site.url}/", *(site.url + page for page in pages)}
    assert dialled == {site.address}


def test_no_attack_that_robots_txt_leads_to_is_dialled(site, dialled):
    for url in SENDABLE:
        site.pages["/robots.txt"] = leading(url)
        assert robots.Robots(client.shared_client()).rules(f"{site.url}/").allowed(f"{site.url}/")
    assert dialled == {site.address}
    assert [path for path, _ in site.calls].count("/robots.txt") >= len(SENDABLE)


@pytest.mark.parametrize("source", ["URLS_LIST", "WEBSITE", "SITEMAP"])
def test_each_source_reads_robots_txt_by_the_same_guard(space, site, dialled, source):
    site.pages = {"/": linked("/", []), "/sitemap.xml": xml(urlset((f"{site.url}/", "")))}
    site.pages["/robots.txt"] = leading("http://127.0.0.1:1025/robots.txt")
    if source == "URLS_LIST":
        assert len(ingest_urls(space, f"{site.url}/").completed) == 1
    else:
        assert len(list_urls(space, source, site.url + ("/" if source == "WEBSITE" else "/sitemap.xml"))) == 1
    assert dialled == {site.address}
    assert [path for path, _ in site.calls].count("/robots.txt") == 1


def test_no_attack_that_robots_txt_names_is_dialled(space, site, dialled):
    lines = "".join(f"Sitemap: {url}\n" for url in SENDABLE)
    site.pages = {"/": linked("/", [])}
    site.pages["/robots.txt"] = answer(f"User-agent: *\nAllow: /\n{lines}".encode(), content_type="text/plain")
    crawl(space, "WEBSITE", url=f"{site.url}/")
    assert dialled == {site.address}


@pytest.mark.parametrize("urls", [SENDABLE[::8], pytest.param(SENDABLE, marks=pytest.mark.slow)], ids=["some", "all"])
def test_no_attack_as_a_namespaces_endpoint_is_dialled(db, dialled, monkeypatch, urls):
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "")
    forget_settings()
    options = Settings(_env_file=None, fetch_allow="")
    keys = {"accessKeyId": "k", "secretAccessKey": "s"}
    bucket = {"type": "S3_COMPATIBLE", "bucket": "of-ours", "region": "eu-central-1", "credentials": keys}
    for url in urls:
        with pytest.raises(StepError):
            s3.make({**bucket, "endpoint": url}, options).check()
        with pytest.raises(StepError):
            pinecone.make({"indexHost": url, "apiKey": "k"}, db, "ns_1", 16).check()
    assert dialled == set()
