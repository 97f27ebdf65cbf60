"""What a Prefect user sees of an ingestion: a chain of tasks, named by documents and tagged by step and source."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import time

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

from flows import context, sources, steps
from retrieval.jobs.queries import batches
from tests.flows.configured import Configured
from tests.flows.conftest import PREFECT
from tests.flows.crawling import accept
from tests.flows.crawls import test_url_list as lists

pytestmark = [
    pytest.mark.usefixtures("prefect_server"),
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning"
    ),  # Prefect's client leaves its sockets
]


allowed, site = lists.allowed, lists.site


@pytest.fixture
def space(db, monkeypatch):
    return serve(db, monkeypatch, Configured(db))


def serve(db, monkeypatch, space):
    """Give the flows of this process the test's database and keys."""
    monkeypatch.setattr(context, "open_database", lambda: db)
    monkeypatch.setattr(context, "load_keys", lambda: space.ring)
    return space


def dispatch(db):
    batches.form_batches(db, size=64, batches=8)
    waiting = batches.undispatched_batches(db)
    for batch in waiting:
        batches.record_flow_run(db, batch, "run")
    return waiting


async def task_runs(state):
    run = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
    async with get_client() as client:
        for _ in range(100):  # Prefect stores task runs from events, shortly after they end
            runs = await client.read_task_runs(flow_run_filter=run)
            if len(runs) >= 5 and all(run.state.is_final() for run in runs):
                break
            await asyncio.sleep(0.1)
    return sorted(runs, key=lambda run: run.start_time)


def predecessors(run):
    return {taken.id for inputs in run.task_inputs.values() for taken in inputs}


def test_each_task_takes_the_result_of_the_one_before_it(space, db):
    space.text("Owls hunt mice at night.", "owls.txt")
    space.text("Foxes sleep by day.", "foxes.txt")
    (batch,) = dispatch(db)

    async def ingest():
        return await task_runs(await sources.ingest_text(batch.id, batch.attempt, return_state=True))

    runs = asyncio.run(ingest())
    gc.collect()
    assert [run.name for run in runs] == [
        f"{step} owls.txt and 1 more" for step in ("fetch", "parse", "chunk", "embed", "upsert")
    ]
    assert [predecessors(run) for run in runs] == [set(), *({run.id} for run in runs[:-1])]
    assert all({run.name.split()[0], "text"} <= set(run.tags) for run in runs)


def test_the_listing_of_a_site_comes_before_its_pages(db, monkeypatch, allowed, site):
    space = serve(db, monkeypatch, Configured(db, webScraperConfig={"provider": "BUILTIN"}))
    site.pages["/tides"] = lists.PAGE
    accept(space, "WEBSITE", url=f"{site.url}/tides", maxDepth=1, maxLinks=10)
    (batch,) = dispatch(db)

    async def ingest():
        return await task_runs(await sources.ingest_website(batch.id, batch.attempt, return_state=True))

    runs = asyncio.run(ingest())
    gc.collect()
    assert [run.name.split()[0] for run in runs] == ["discover", "fetch", "parse", "chunk", "embed", "upsert"]
    assert [predecessors(run) for run in runs] == [set(), *({run.id} for run in runs[:-1])]
    assert all("website" in run.tags for run in runs)


@pytest.fixture
def one_embed(prefect_server_environment):
    """`prefect concurrency-limit create embed 1`, as an operator types it."""

    def prefect(*arguments):
        command = [PREFECT, "concurrency-limit", *arguments]
        subprocess.run(command, env=prefect_server_environment, check=True, capture_output=True)

    prefect("create", "embed", "1")
    yield
    prefect("delete", "embed")


def test_a_concurrency_limit_of_the_tag_holds_back_a_second_embed(db, monkeypatch, one_embed):
    ring = serve(db, monkeypatch, Configured(db)).ring
    monkeypatch.setattr("tests.flows.configured.KeyRing.parse", lambda _text: ring)
    spaces = [Configured(db), Configured(db)]
    for space in spaces:
        space.text("Owls hunt mice at night.", "owls.txt")
    waiting = dispatch(db)
    embed_documents, spans = steps.embedding.embed_documents, []

    def slowly(*arguments):
        began = time.monotonic()
        time.sleep(1)
        embed_documents(*arguments)
        spans.append((began, time.monotonic()))

    monkeypatch.setattr(steps.embedding, "embed_documents", slowly)

    async def ingest():
        return await asyncio.gather(
            *(sources.ingest_text(batch.id, batch.attempt, return_state=True) for batch in waiting)
        )

    states = asyncio.run(asyncio.wait_for(ingest(), 60))
    gc.collect()
    assert [state.name for state in states] == ["Completed", "Completed"]
    (first, second) = sorted(spans)
    assert second[0] >= first[1]
