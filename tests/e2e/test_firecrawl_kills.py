"""Firecrawl through the real processes: the polling worker is killed, a job run cancelled, the key stays hidden."""

import json
import os
import signal
import time

import pytest

from tests.e2e.test_crawl_kills import kept, patiently
from tests.standins import faults, firecrawl
from tests.standins.scraped import Seen

SITE = "https://93.184.216.34"
PAGES = 60


def page(number):
    links = [number * 3 + step for step in (1, 2, 3) if number * 3 + step < PAGES]
    anchors = "".join(f'<a href="/p{link}">{link}</a>' for link in links)
    return Seen(f"<html><title>Page {number}</title><main><p>Here is the word w{number}x.</p>{anchors}</main></html>")


@pytest.fixture
def crawler():
    web = {f"{SITE}/p{number}": page(number) for number in range(PAGES)}
    with firecrawl.running(web=web, always=[faults.slow(0.3)]) as found:
        yield found


def begin(service, **config):
    body = {"namespaceId": service.namespace, "ingestConfig": {"source": "WEBSITE", "config": config}}
    return service.ok(service.client.post("/v1/ingest/website", json=body))["ingestJobRunId"]


def until(true, seconds=60):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_worker_is_followed_by_one_that_pays_nothing_twice(new_service, crawler):
    service = new_service(
        endpoints=json.dumps({"FIRECRAWL": {"base_url": crawler.base_url}}), lease_seconds="6", fetch_robots="false"
    )
    chosen = {"webScraperConfig": {"provider": "FIRECRAWL", "apiKey": crawler.key}}
    service.ok(service.client.patch(f"/v1/namespaces/{service.namespace}", json=chosen))
    run = begin(service, url=f"{SITE}/p0", maxDepth=5, maxLinks=1000)
    until(lambda: len(kept(service)) >= PAGES // 4)
    service.expects_kills()
    os.killpg(service.pid("worker"), signal.SIGKILL)
    assert len(kept(service)) < PAGES, "the crawl was over before the worker was killed"
    (done,) = patiently(lambda: service.wait(run, seconds=300))
    assert kept(service) == set(crawler.web)
    assert (done["progress"]["found"], done["progress"]["failed"], done["progress"]["skipped"]) == (PAGES, 0, 0)
    assert (crawler.starts(), crawler.given_up) == (1, [])
    (hit, *_) = service.search("w41x", topK=3, hybridConfig={"semanticWeight": 0, "keywordWeight": 1})
    assert hit["document"]["name"] == f"{SITE}/p41"

    crawler.endless = True
    second = begin(service, url=f"{SITE}/p0", maxDepth=5, maxLinks=1000)
    until(lambda: crawler.starts() == 2)
    where = {"namespaceId": service.namespace}
    service.ok(service.client.post(f"/v1/ingest-job-runs/{second}/cancel", params=where, json=where))
    until(lambda: crawler.given_up == ["crawl-2"])
    service.wait(second)
    files = [path for path in service.home.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in files if crawler.key.encode() in path.read_bytes()]
