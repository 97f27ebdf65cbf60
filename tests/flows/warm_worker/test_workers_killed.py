"""Workers that are stopped and killed again and again during a long crawl and a slow batch: nothing fails by it."""

import json
import os
import random
import signal
import time
from contextlib import suppress

import pytest

from tests.e2e import test_crawl_kills as crawls
from tests.e2e.test_crawl_kills import PAGES, family
from tests.flows import workshop
from tests.flows.crawling import accept
from tests.flows.warm_worker.test_worker import stop
from tests.standins import embedding_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
site = crawls.site
ENDS = ["TERM", "TERM", "KILL", "ALL"] * 5
"""Ten SIGTERMs, ten SIGKILLs: of the worker alone, and of all its processes, as when a machine goes."""
WORKERS = 3
"""One for the batch, one for the crawl, and one that takes over while the next comes up."""
TEXTS = 12
WORDS = 800
PAGE_SECONDS = 4.0
"""That the site takes for a page while workers are killed."""
TAKEN_SECONDS = 240
"""Within which a living worker has a batch again: a site that resets connections, as this one does beside other tests,
may be left alone for some time first."""
NEIGHBOURS = 5
MINILM = {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"}


@pytest.fixture
def shop(db, monkeypatch, prefect_server, prefect_server_environment, tmp_path):
    assert prefect_server
    with workshop.opened(
        db,
        monkeypatch,
        prefect_server_environment,
        tmp_path,
        grace_seconds=0.2,
        embeddingModelConfig=MINILM,
        webScraperConfig={"provider": "BUILTIN"},
    ) as made:
        yield made


def text_of(number, words):
    chosen = random.Random(number)
    return " ".join(f"word{chosen.randrange(5000)} of the text {number}." for _ in range(words))


def kill(worker, how):
    if how == "TERM":
        stop(worker)
        return
    for pid in family(worker.pid) if how == "ALL" else [worker.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    worker.wait(10)


def start(shop):
    """A worker that comes up while others work."""
    shop.pool._start_worker(len(shop.pool.workers), 1)


def at_work(shop, run):
    """The worker whose child holds the lease of the job run's batch."""
    child = shop.child(run) if shop.is_worked_on(run) else None
    living = [worker for worker in shop.pool.workers if worker.poll() is None]
    return next((worker for worker in living if child in family(worker.pid)), None)


def test_ten_sigterms_and_ten_sigkills_of_workers_fail_nothing(shop, site, monkeypatch):
    monkeypatch.setattr(crawls, "SECONDS", PAGE_SECONDS)
    texts = [shop.space.text(text_of(number, WORDS), f"text {number}").job_run_id for number in range(TEXTS)]
    crawl = accept(shop.space, "WEBSITE", url=f"{site.url}/p0", maxDepth=5, maxLinks=1000)
    for _ in range(WORKERS):
        start(shop)
    moments = random.Random(20)
    for number, how in enumerate(ENDS):
        going = [run for run in (texts[-1], crawl) if not shop.done(run)]
        assert going, f"it was over after {number} workers"
        run = going[number % len(going)]
        shop.until(lambda run=run: at_work(shop, run), TAKEN_SECONDS)
        time.sleep(moments.uniform(0, 2.5))
        worker = shop.until(lambda run=run: at_work(shop, run), TAKEN_SECONDS)
        kill(worker, how)
        if number < len(ENDS) - 1:
            start(shop)
    crawls.SECONDS = 0.0
    ended = shop.until(lambda: all(map(shop.done, [*texts, crawl])) and [*map(shop.done, [*texts, crawl])], 300)
    assert [run.failed for run in ended] == [[]] * (TEXTS + 1)
    assert [len(run.completed) for run in ended] == [1] * TEXTS + [PAGES]


@pytest.fixture
def vendor():
    """It never answers a request that has the poison in it: whoever embeds it is at that until it is killed."""
    with embedding_server.running("OPENAI", holds=lambda texts: any("poison" in text for text in texts)) as found:
        yield found


@pytest.fixture
def poisoned(db, monkeypatch, prefect_server, prefect_server_environment, tmp_path, vendor):
    assert prefect_server
    endpoints = {"RETRIEVAL_ENDPOINTS": json.dumps({"OPENAI": {"base_url": vendor.base_url}})}
    environment = prefect_server_environment | endpoints
    with workshop.opened(db, monkeypatch, environment, tmp_path, embeddingModelConfig=vendor.config()) as made:
        yield made


def test_a_document_that_kills_its_child_three_times_fails_alone(poisoned, vendor):
    shop = poisoned
    poison = shop.space.text("This is poison.", "poison")
    texts = [shop.space.text(f"This is text {number}.", f"text {number}") for number in range(NEIGHBOURS)]
    runs = [poison.job_run_id, *(text.job_run_id for text in texts)]
    shop.pool.start_workers()
    for kills in range(workshop.ATTEMPTS):
        child = shop.until(lambda kills=kills: vendor.held > kills and shop.child(poison.job_run_id))
        assert not shop.done(poison.job_run_id)
        os.kill(child, signal.SIGKILL)
        dead = shop.batch(poison.job_run_id)["attempt"]
        shop.until(lambda dead=dead: shop.batch(poison.job_run_id)["attempt"] > dead)
    shop.until(lambda: all(shop.done(run) for run in runs), 150)
    assert [len(shop.done(run).failed) for run in runs] == [1] + [0] * NEIGHBOURS
    assert [len(shop.done(run).completed) for run in runs] == [0] + [1] * NEIGHBOURS
    assert vendor.held == workshop.ATTEMPTS
