"""A website's crawl completes after a kill of its worker, without a second request for a page."""

import os
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

PAGES = 240
# Response time of a page.
SECONDS = 0.1


class Site(ThreadingHTTPServer):
    """Pages 0 to PAGES - 1, each with links to three more; counts requests."""

    def __init__(self):
        self.calls = Counter()
        super().__init__(("127.0.0.1", 0), Pages)
        self.url = f"http://127.0.0.1:{self.server_port}"


class Pages(BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(SECONDS)
        name = self.path.removeprefix("/p")
        is_known = name.isdigit() and int(name) < PAGES
        body = page(int(name)).encode() if is_known else b""
        self.server.calls[self.path] += 1
        self.send_response(200 if is_known else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args):
        """A request is no news."""


def page(number):
    links = [number * 3 + step for step in (1, 2, 3) if number * 3 + step < PAGES]
    anchors = "".join(f'<a href="/p{link}">{link}</a>' for link in [*links, number // 3])
    return f"<html><title>Page {number}</title><main><p>Here is the word w{number}x.</p>{anchors}</main></html>"


@pytest.fixture
def site():
    with Site() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def patiently(ask):
    """Retry the request while the API restarts."""
    for _ in range(120):
        try:
            return ask()
        except (httpx.HTTPError, AssertionError):
            time.sleep(0.5)
    return ask()


def ingested_pages(service):
    return {document["externalId"] for document in service.documents()}


def family(pid):
    """Pids of the process and its descendants."""
    parents = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(file.parent.name)] = int(file.read_text().rpartition(")")[2].split()[1])
    pids = [pid]
    for above in pids:
        pids += [child for child, parent in parents.items() if parent == above]
    return pids


@pytest.mark.slow
def test_a_crawl_whose_worker_is_killed_goes_on_where_it_was(new_service, site):
    service = new_service(fetch_allow="127.0.0.1/32", fetch_host_delay="0", lease_seconds="6")
    service.expects_kills()
    config = {"url": f"{site.url}/p0", "maxDepth": 5, "maxLinks": 1000}
    body = {"namespaceId": service.namespace, "ingestConfig": {"source": "WEBSITE", "config": config}}
    run = service.ok(service.client.post("/v1/ingest/website", json=body))["ingestJobRunId"]
    deadline = time.monotonic() + 240
    while len(pages_before := ingested_pages(service)) < PAGES // 4:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for pid in family(service.pid("worker")):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    in_the_middle = sum(site.calls.values())
    assert in_the_middle < PAGES, "the crawl was over before the worker was killed"
    (done,) = patiently(lambda: service.wait(run, seconds=300))
    assert ingested_pages(service) == {f"{site.url}/p{number}" for number in range(PAGES)}
    assert (done["progress"]["found"], done["progress"]["failed"]) == (PAGES, 0)
    twice = {path for path, times in site.calls.items() if times > 1} - {"/robots.txt"}
    assert not {url.removeprefix(site.url) for url in pages_before} & twice
    assert max(site.calls.values()) == 2
    assert len(twice) < PAGES // 4
    (hit, *_) = service.search("w211x", topK=3, hybridConfig={"semanticWeight": 0, "keywordWeight": 1})
    assert hit["document"]["name"] == f"{site.url}/p211"
