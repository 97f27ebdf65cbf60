"""The automation on failed flow runs, in a real Prefect server with a real worker and a receiver on loopback."""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager

import pytest
from prefect.client.orchestration import get_client

from local import automations
from tests.flows import workshop
from tests.flows.crawling import accept
from tests.flows.worker.test_worker import eventually, stop
from tests.standins.faults import Handler, served


@contextmanager
def receiving():
    """Incoming webhook of a chat service: URL and posted texts."""
    texts = []

    class Endpoint(Handler):
        def do_POST(self):  # noqa: N802
            texts.append(json.loads(self.read_body())["text"])
            self.reply(200, b"ok")

    with served(Endpoint) as port:
        yield f"http://127.0.0.1:{port}/services/secret-token", texts


async def read_automations(name):
    async with get_client() as client:
        return await client.read_automations_by_name(name)


async def delete_automations(names):
    async with get_client() as client:
        for name in names:
            for automation in await client.read_automations_by_name(name):
                await client.delete_automation(automation.id)


@pytest.fixture
def shop(db, monkeypatch, prefect_server, prefect_server_environment, tmp_path):
    assert prefect_server
    with workshop.opened(
        db, monkeypatch, prefect_server_environment, tmp_path, grace_seconds=0, webScraperConfig={"provider": "BUILTIN"}
    ) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_failed_runs_reach_the_webhook_and_interrupted_ones_do_not(shop, slow_site):
    with receiving() as (url, texts):
        names = asyncio.run(automations.create_automations(url))
        try:
            crawl = accept(shop.space, "WEBSITE", url=f"{slow_site.url}/p0", maxDepth=3, maxLinks=20)
            worker = shop.pool.start_workers()
            shop.until(lambda: shop.is_worked_on(crawl))
            interrupted = shop.flow_run(crawl)
            stop(worker)
            assert shop.pool.run(interrupted.id).state_name in {"Crashed", "Interrupted"}
            shop.pool.start_workers()
            assert shop.until(lambda: shop.done(crawl), 120).outcome == "SUCCEEDED"

            broken = shop.space.file("broken.pdf", b"%PDF-1.7 nothing of the kind", "application/pdf").job_run_id
            assert shop.until(lambda: shop.done(broken)).outcome == "FAILED"
            both = [
                shop.space.file("damaged.pdf", b"%PDF-1.7 nothing of the kind", "application/pdf").job_run_id,
                shop.space.file("fine.txt", b"Harbour seals dive.", "text/plain").job_run_id,
            ]
            shop.until(lambda: all(shop.done(run) for run in both))
            eventually(lambda: len(texts) >= 2, 30, lambda: f"{texts}")
        finally:
            asyncio.run(delete_automations(names))
    failed, partly = texts
    assert failed.startswith("ingest-file Failed: 1 document: 1 failed. broken.pdf")
    assert "damaged" in failed
    assert str(shop.flow_run(broken).id) in failed
    assert partly.startswith("ingest-file CompletedWithFailures: 2 documents: 1 failed. damaged.pdf")


def test_a_second_registration_changes_the_url_of_the_one_automation(prefect_server):
    with receiving() as (url, _):
        names = asyncio.run(automations.create_automations("http://127.0.0.1:1/old"))
        (first,) = asyncio.run(read_automations(names[0]))
        asyncio.run(automations.create_automations(url))
        (second,) = asyncio.run(read_automations(names[0]))
        asyncio.run(delete_automations(names))
    assert first.id == second.id
    assert "secret-token" not in second.model_dump_json()
