"""Whole third-party sites on loopback against an independent crawler."""

import threading
from collections import deque
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
from selectolax.lexbor import LexborHTMLParser

from tests.flows.crawling import crawl, names, reasons
from tests.flows.crawls import test_url_list as lists

allowed, space = lists.allowed, lists.space
PYTHON_DOC = Path("/usr/share/doc/python3.11/html")
# The port in the shared sitemap index.
SITEMAP_PORT = 18771


@pytest.fixture(autouse=True)
def _many_at_once(monkeypatch, allowed):
    monkeypatch.setenv("RETRIEVAL_FETCH_HOST_LIMIT", "16")
    lists.forget_settings()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_args):
        """A request is no news."""


@contextmanager
def served(folder, port=0):
    with ThreadingHTTPServer(("127.0.0.1", port), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def walked(folder, start, depth):
    """Paths of linked HTML files, read from disk by separate code."""
    depths, queue = {start: 0}, deque([start])
    while queue:
        path_now = queue.popleft()
        if depths[path_now] == depth:
            continue
        page = LexborHTMLParser((folder / path_now[1:]).read_bytes())
        for node in page.css("a[href]"):
            parts = urlsplit(urljoin(f"http://site{path_now}", node.attributes["href"] or ""))
            path = parts.path or "/"
            path = f"{path}index.html" if path.endswith("/") else path
            if parts.netloc == "site" and path not in depths and (folder / path[1:]).is_file():
                depths[path] = depths[path_now] + 1
                if path.endswith(".html"):
                    queue.append(path)
    return depths


def ingested_paths(space, url, run):
    return [name.removeprefix(url) for name in names(space, run)]


@pytest.mark.shared
@pytest.mark.parametrize(("depth", "pages"), [(1, 6), (2, 25), (3, 25)])
def test_the_shared_site_is_walked_as_deep_as_asked(space, shared_data, depth, pages):
    folder = shared_data / "site"
    with served(folder) as url:
        run = crawl(space, "WEBSITE", url=f"{url}/license.html", maxDepth=depth, maxLinks=1000)
        kept_pages = ingested_paths(space, url, run)
    assert len(kept_pages) == pages
    assert set(kept_pages) == {path for path in walked(folder, "/license.html", depth) if path.endswith(".html")}
    missing = reasons(space, run)  # links into another manual, which does not lie there
    assert all("/library/" in url and "404" in reason for url, reason in missing.items()), missing


@pytest.mark.shared
def test_the_shared_sitemap_names_27_pages(space, shared_data):
    with served(shared_data / "site", SITEMAP_PORT) as url:
        run = crawl(space, "SITEMAP", url=f"{url}/sitemap-index.xml")
        through_index = ingested_paths(space, url, run)
        directly = ingested_paths(space, url, crawl(space, "SITEMAP", url=f"{url}/sitemap.xml"))
    assert len(set(through_index)) == len(through_index) == 27
    assert set(directly) == set(through_index)


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "pages"), [(1, 28), (2, 426), (3, 526)])
def test_a_larger_site_is_walked_as_an_independent_crawler_walks_it(space, depth, pages):
    if not PYTHON_DOC.is_dir():
        pytest.skip("the larger site is not there: apt-get install python3.11-doc")
    with served(PYTHON_DOC) as url:
        start = "/tutorial/index.html"
        run = crawl(space, "WEBSITE", url=f"{url}{start}", maxDepth=depth, maxLinks=5000)
        html_paths = {path for path in ingested_paths(space, url, run) if path.endswith(".html")}
    assert html_paths == {path for path in walked(PYTHON_DOC, start, depth) if path.endswith(".html")}
    assert len(html_paths) == pages
