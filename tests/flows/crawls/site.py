"""A site on loopback with pages, lists and sitemaps; one-line helpers ingest it."""

from __future__ import annotations

import gzip

from connectors import registry
from connectors.web.builtin import client, robots
from retrieval import settings
from retrieval.job_config import Ingestion
from retrieval.jobs import runs
from tests import registry_instances
from tests.connectors.web.test_web_client import answer

PAGE = """<!doctype html><html lang="en"><head><title>Tides</title><meta name="description" content="About the sea">
<link rel="canonical" href="/tides"></head><body><nav>Menu words</nav><main><h1>Tides</h1><p>The spring tide follows
the full moon.</p><p class="ad">Buy a sofa.</p></main></body></html>"""


class Site:
    """Pages by path: bytes are HTML, lists are raw responses, the rest is 404."""

    def __init__(self):
        self.pages = {}
        self.calls = []

    def play(self, path, headers):
        self.calls.append((path, headers))
        page_here = self.pages.get(path)
        if page_here is None:
            return answer(status="404 Not Found")
        return (
            page_here(headers) if callable(page_here) else page_here if isinstance(page_here, list) else html(page_here)
        )

    def paths(self):
        return [path for path, _ in self.calls if path != "/robots.txt"]


def html(text, **headers):
    return answer(text.encode(), content_type="text/html; charset=utf-8", **headers)


def forget_settings():
    settings.load_settings.cache_clear()
    client.shared_client.cache_clear()
    robots.shared_robots.cache_clear()
    registry_instances.forget_instances()


def ingest_urls(space, *urls, **config):
    url_config = {"urls": list(urls), **config}
    receipt = space.call(runs.accept_urls(space.db, space.scope, urls=urls, config=url_config, ingestion=Ingestion()))
    space.work()
    return space.run(receipt.job_run_id)


def text_of(space, external_id):
    row = space.db.row(
        "select parsed_key from documents d join partitions p on p.id = d.partition_id"
        " where p.namespace_id = %(id)s and external_id = %(external)s",
        {"id": space.scope.namespace, "external": external_id},
    )
    with registry.make_file_store(space.config).open(row["parsed_key"]) as stream:
        return stream.read().decode()


XMLNS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def urlset(*entries):
    inner = "".join(
        f"<url><loc>{url}</loc>{f'<lastmod>{when}</lastmod>' if when else ''}</url>" for url, when in entries
    )
    return f'<?xml version="1.0" encoding="UTF-8"?><urlset {XMLNS}>{inner}</urlset>'


def pages(site, *paths):
    return urlset(*((f"{site.url}{path}", "") for path in paths))


def index(*urls):
    inner = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return f"<sitemapindex {XMLNS}>{inner}</sitemapindex>"


def xml(text, *, packed=False):
    data = text.encode()
    return answer(gzip.compress(data) if packed else data, content_type="application/xml")


TREE = {
    "/": ["/a/1", "/b/1", "/c"],
    "/a/1": ["/a/2", "/"],
    "/a/2": ["/a/3"],
    "/a/3": [],
    "/b/1": ["/a/4"],
    "/a/4": [],
    "/c": ["/c#part", "http://elsewhere.example/"],
}


def linked(path, links, head=""):
    anchors = "".join(f'<a href="{link}">{link}</a>' for link in links)
    body = f"<main><p>This is {path}.</p>{anchors}</main>"
    return f"<html><head><title>{path}</title>{head}</head><body>{body}</body></html>"


def grow(site, tree=TREE):
    site.pages = {path: linked(path, links) for path, links in tree.items()}


def wide(site, pages):
    links = {f"/p{number}": [f"/p{number * 3 + step}" for step in (1, 2, 3)] for number in range(pages)}
    tree = {path: [link for link in targets if link in links] for path, targets in links.items()}
    grow(site, tree)
    return set(tree)


SENTENCES = (
    "Owls hunt mice at night over the fields near the river.",
    "Bats hunt moths in the dark over the ponds of the park.",
    "Seals dive for fish in the cold water of the northern sea.",
    "Herons stand in the shallow water and wait for frogs.",
    "Foxes follow the hedges and listen for voles in the snow.",
    "Storks build their nests on the chimneys of the old town.",
)


def page(text, title="Animals", links=(), head="", tail=""):
    anchors = "".join(f'<a href="{link}">Read more</a>' for link in links)
    body = f"<h1>{title}</h1><p>{text}</p>{anchors}{tail}"
    return f"<html><head><title>{title}</title>{head}</head><body>{body}</body></html>"
