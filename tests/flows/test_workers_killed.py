"""Workers that are stopped and killed again and again during a long crawl and a slow batch: nothing fails by it."""

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
from tests.flows.test_worker import stop

pytestmark = [pytest.mark.slow, pytest.mark.by_hand]
ROUNDS = 10
site = crawls.site
TEXTS = 12
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


def long_text(number):
    words = random.Random(number)
    return " ".join(f"word{words.randrange(5000)} of the text {number}." for _ in range(2500))


def kill(worker, how):
    """`TERM`, as a supervisor does; `KILL` of the worker; `ALL` of its processes, as when a machine goes."""
    if how == "TERM":
        stop(worker)
        return
    for pid in family(worker.pid) if how == "ALL" else [worker.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    worker.wait(10)


def start(pool):
    """A worker that comes up while the last one still works."""
    pool._start_worker(len(pool.workers), 2)
    return pool.workers[-1]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.decision("H71")
def test_ten_sigterms_and_ten_sigkills_of_workers_fail_nothing(shop, site):
    texts = [shop.space.text(long_text(number), f"text {number}").job_run_id for number in range(TEXTS)]
    crawl = accept(shop.space, "WEBSITE", url=f"{site.url}/p0", maxDepth=5, maxLinks=1000)
    runs = [*texts, crawl]
    worker = start(shop.pool)
    for how in ["TERM", "KILL", "TERM", "ALL"] * (ROUNDS // 2):
        shop.until(lambda: any(shop.is_worked_on(run) for run in runs), 120)
        after = start(shop.pool)
        time.sleep(random.Random(how).uniform(0.3, 1.0))
        assert not all(shop.done(run) for run in runs), "everything was done before the last worker was killed"
        kill(worker, how)
        worker = after
    ended = shop.until(lambda: all(shop.done(run) for run in runs) and [shop.done(run) for run in runs], 300)
    assert [run.failed for run in ended] == [[]] * len(runs)
    assert [len(run.completed) for run in ended] == [1] * TEXTS + [PAGES]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.decision("H71")
def test_a_document_that_kills_its_child_three_times_fails_alone(shop):
    texts = [shop.space.text(long_text(number), f"text {number}") for number in range(NEIGHBOURS + 1)]
    poison, kills = texts[0], 0
    shop.pool.start_workers()
    while kills < workshop.ATTEMPTS:
        shop.until(lambda: shop.is_worked_on(poison.job_run_id))
        assert not shop.done(poison.job_run_id), f"it is done after {kills} kills"
        if not is_embedding(shop, poison):
            time.sleep(0.05)
            continue
        child = int((shop.flow_run(poison.job_run_id).infrastructure_pid or ":0").rpartition(":")[2])
        os.kill(child, signal.SIGKILL)
        kills, dead = kills + 1, shop.batch(poison.job_run_id)["attempt"]
        shop.until(lambda dead=dead: shop.batch(poison.job_run_id)["attempt"] > dead)
    runs = [one.job_run_id for one in texts]
    shop.until(lambda: all(shop.done(run) for run in runs), 150)
    assert [len(shop.done(run).failed) for run in runs] == [1] + [0] * NEIGHBOURS
    assert [len(shop.done(run).completed) for run in runs] == [0] + [1] * NEIGHBOURS


def is_embedding(shop, poison):
    """Whether the document is being embedded now: together with others, or alone."""
    rows = shop.db.rows(
        "select 1 from run_documents d join job_runs r on r.id = d.job_run_id join batches b on b.id = r.batch_id"
        " where d.document_id = %(id)s and d.stage = 'chunked' and d.status = 'PROCESSING'"
        " and (b.at_work = d.document_id or (b.at_work is null and d.blame = 0))",
        {"id": poison.document_id},
    )
    return bool(rows)
