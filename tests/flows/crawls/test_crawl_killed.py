"""A crawl whose process is killed with SIGKILL, and one that takes its place."""

import base64
import subprocess
import sys
import time
from collections import Counter

import pytest

from retrieval import settings
from retrieval.jobs import batches
from tests.flows.crawling import accept, names
from tests.flows.crawling_child import LEASE_SECONDS
from tests.flows.crawls import test_url_list as lists
from tests.flows.crawls.test_website import wide

allowed, site, space = lists.allowed, lists.site, lists.space
PAGES = 250
PATIENCE = 90


@pytest.fixture
def slowly(site):
    """The site takes its time for a page, so that a crawl can be met in its middle."""
    everything, pages = wide(site, PAGES), dict(site.pages)

    def taking(text):
        def play(_headers):
            time.sleep(0.02)
            return lists.html(text)

        return play

    site.pages = {path: taking(text) for path, text in pages.items()}
    return everything


def child(space, database_url, batch):
    """Another process that works on the batch."""
    command = [sys.executable, "-m", "tests.flows.crawling_child", database_url, batch.id, str(batch.attempt)]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=settings.PROJECT)
    ring = ",".join(f"{name}:{base64.b64encode(key).decode()}" for name, key in space.ring.keys.items())
    started.stdin.write(ring.encode())
    started.stdin.close()
    return started


def test_a_killed_crawl_ends_with_the_same_pages_and_fetches_none_again_that_it_had(space, site, slowly, database_url):
    run = accept(space, "WEBSITE", url=f"{site.url}/p0", maxDepth=5, maxLinks=1000)
    batches.form(space.db, size=64, batches=8)
    (batch,) = batches.undispatched(space.db)
    batches.dispatched(space.db, batch, "run")
    first, deadline = child(space, database_url, batch), time.monotonic() + PATIENCE
    while len(had := {name.removeprefix(site.url) for name in names(space, run)}) < PAGES // 4:
        assert first.poll() is None, "the crawl ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    first.kill()
    assert first.wait(10) == -9
    had |= {name.removeprefix(site.url) for name in names(space, run)}
    asked = len(site.paths())
    assert len(had) < PAGES
    time.sleep(LEASE_SECONDS)
    second = child(space, database_url, batch)
    assert second.wait(PATIENCE) == 0
    assert {name.removeprefix(site.url) for name in names(space, run)} == slowly
    assert len(names(space, run)) == PAGES
    assert not had & set(site.paths()[asked:])
    times = Counter(site.paths())
    assert set(times) == slowly
    assert max(times.values()) <= 2
    assert sum(number > 1 for number in times.values()) < PAGES // 4
