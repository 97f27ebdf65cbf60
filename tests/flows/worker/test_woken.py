"""A worker with a poll interval of two minutes wakes for new work and keeps a slot for short runs."""

import pytest

from tests.flows import workshop
from tests.flows.crawling import accept


@pytest.fixture
def shop(db, monkeypatch, prefect_server, prefect_server_environment, tmp_path):
    assert prefect_server
    environment = prefect_server_environment | {"PREFECT_WORKER_QUERY_SECONDS": "120"}
    with workshop.opened(db, monkeypatch, environment, tmp_path, webScraperConfig={"provider": "BUILTIN"}) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_text_is_ingested_while_a_crawl_holds_the_only_place_and_nobody_polls(shop, slow_site):
    shop.pool.start_workers(limit=1)
    crawl = accept(shop.space, "WEBSITE", url=f"{slow_site.url}/p0", maxDepth=5, maxLinks=1000)
    shop.until(lambda: shop.is_worked_on(crawl), 100)
    text = shop.space.text("Owls hunt mice at night.", "owls").job_run_id
    shop.until(lambda: shop.done(text), 100)
    assert not shop.done(crawl)
