"""Tasks of an ingestion in Prefect: order, tags, failed documents."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import time

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, LogFilter, LogFilterFlowRunId
from prefect.client.schemas.sorting import LogSort

from flows import context, sources, step_outcome, steps
from flows.steps import Work
from retrieval.errors import Retryable, Unavailable
from retrieval.ingestion.queries import step_outcomes
from retrieval.job_config import Ingestion
from retrieval.jobs import runs
from retrieval.jobs.breaker_watch import Circuits
from retrieval.jobs.queries import batches
from tests.flows.configured import Configured
from tests.flows.conftest import PREFECT
from tests.flows.crawling import accept
from tests.flows.crawls.site import PAGE

pytestmark = [
    pytest.mark.usefixtures("prefect_server"),
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning"
    ),  # Prefect's client leaves its sockets
]


# Flow runs look for new limits in this interval.
NO_LIMIT_SECONDS = 5.5
BROKEN = b"%PDF-1.7\nnothing else"
SECRET = "token=SECRET"


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


async def task_runs(state, count=5):
    """Task runs of a flow run, at least `count`."""
    run = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
    async with get_client() as client:
        for _ in range(100):  # Prefect stores task runs from events, shortly after they end
            runs = await client.read_task_runs(flow_run_filter=run)
            if len(runs) >= count and all(run.state.is_final() for run in runs):
                break
            await asyncio.sleep(0.1)
    return sorted(runs, key=lambda run: run.start_time)


def predecessors(run):
    return {task_input.id for inputs in run.task_inputs.values() for task_input in inputs}


async def logs_of(flow_run_id):
    """Log lines of a flow run and its tasks."""
    of_run = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[flow_run_id]))
    async with get_client() as client:
        for _ in range(100):  # Prefect's client sends logs some moments later
            lines = await client.read_logs(of_run, limit=200, sort=LogSort.TIMESTAMP_ASC)
            if any(line.task_run_id is None and "Finished in state" in line.message for line in lines):
                break
            await asyncio.sleep(0.1)
    return "\n".join(line.message for line in lines)


def ingest(db, flow, steps=5):
    """Final state of the flow run, its task runs by step, and its log."""
    (batch,) = dispatch(db)

    async def run():
        state = await flow(batch.id, batch.attempt, return_state=True)
        ran = await task_runs(state, steps)
        return state, {run.name.split()[0]: run for run in ran}, await logs_of(state.state_details.flow_run_id)

    result = asyncio.run(run())
    gc.collect()
    return result


def state_of(run):
    return run.state.type.value, run.state.name, run.state.message


@pytest.fixture
def space(db, monkeypatch):
    return serve(db, monkeypatch, Configured(db))


def test_a_step_whose_documents_all_fail_is_failed_and_not_retried(space, db, monkeypatch):
    monkeypatch.setattr(step_outcomes, "MAX_FAILURES", 3)
    for name in ("broken.pdf", "broken2.pdf", "broken3.pdf", "broken4.pdf"):
        space.file(name, BROKEN + name.encode(), "application/pdf")
    state, by_step, _ = ingest(db, sources.ingest_file, steps=2)
    assert state.name == "Failed"
    kind, name, message = state_of(by_step["parse"])
    assert (kind, name, by_step["parse"].run_count) == ("FAILED", "Failed", 1)
    assert message.startswith("4 of 4 failed: broken.pdf (")
    assert message.endswith(") and 1 more")
    assert "chunk" not in by_step


def test_a_step_some_of_whose_documents_fail_is_completed_with_failures(space, db):
    space.file("owls.txt", b"Owls hunt mice at night.")
    space.file("broken2.pdf", BROKEN, "application/pdf")
    space.file("foxes.txt", b"Foxes sleep by day.")
    state, by_step, _ = ingest(db, sources.ingest_file)
    assert state.name == "CompletedWithFailures"
    kind, name, message = state_of(by_step["parse"])
    assert (kind, name) == ("COMPLETED", "CompletedWithFailures")
    assert message.startswith("1 of 3 failed: broken2.pdf (")
    assert {step: state_of(run)[1] for step, run in by_step.items() if step != "parse"} == dict.fromkeys(
        ("fetch", "chunk", "embed", "upsert"), "Completed"
    )
    assert by_step["parse"].id in predecessors(by_step["chunk"])


def test_a_dead_page_fails_in_fetch_and_no_query_string_is_shown(db, monkeypatch, site):
    space = serve(db, monkeypatch, Configured(db, webScraperConfig={"provider": "BUILTIN"}))
    site.pages["/tides"] = PAGE
    urls = [f"{site.url}/tides", f"{site.url}/gone?{SECRET}"]
    space.call(runs.accept_urls(db, space.scope, urls=urls, config={"urls": urls}, ingestion=Ingestion()))
    state, by_step, lines = ingest(db, sources.ingest_urls)
    assert state.name == "CompletedWithFailures"
    kind, name, message = state_of(by_step["fetch"])
    assert (kind, name) == ("COMPLETED", "CompletedWithFailures")
    assert message.startswith(f"1 of 2 failed: {site.url}/gone (")
    assert SECRET not in lines
    assert SECRET not in message


def test_a_listing_that_fails_is_a_failed_task_with_the_reason(db, monkeypatch, site):
    space = serve(db, monkeypatch, Configured(db, webScraperConfig={"provider": "BUILTIN"}))
    accept(space, "SITEMAP", url=f"{site.url}/sitemap.xml?{SECRET}")
    state, by_step, lines = ingest(db, sources.ingest_sitemap, steps=1)
    assert state.name == "Failed"
    kind, name, message = state_of(by_step["discover"])
    assert (kind, name) == ("FAILED", "Failed")
    assert message == "The site answers 404: there is no such page."
    assert SECRET not in lines + message


@pytest.mark.slow
def test_a_step_that_gives_up_after_its_retries_says_so_without_a_traceback(space, db, monkeypatch):
    calls = []

    def refuse(*_arguments, **_named):
        calls.append(1)
        raise Retryable(f"The store at https://vectors.example/upsert?{SECRET} answered 503.")

    monkeypatch.setattr(steps.upserting, "upsert_documents", refuse)
    space.text("Owls hunt mice at night.", "owls.txt")
    state, by_step, lines = ingest(db, sources.ingest_text)
    assert state.name == "Failed"
    assert len(calls) == 5
    kind, name, message = state_of(by_step["upsert"])
    assert (kind, name) == ("FAILED", "Failed")
    assert message == "1 of 1 failed: owls.txt (The store at https://vectors.example/upsert answered 503)"
    assert "It was tried 5 times; retry when the cause is gone." in lines
    assert SECRET not in lines
    assert "Traceback" not in lines


def test_a_step_that_waits_for_a_vendor_fails_no_document(db, monkeypatch):
    space = Configured(db)
    monkeypatch.setattr(step_outcome, "get_run_logger", lambda: logging.getLogger("flow run"))

    def refuse(*_arguments):
        raise Unavailable("OpenAI does not answer; it is asked again in 30 s.", after=30, key="openai")

    monkeypatch.setattr(steps.embedding, "embed_documents", refuse)
    space.text("Owls hunt mice at night.", "owls.txt")
    lease = space.lease()
    ((window,),) = [steps.run_documents.list_windows(db, lease, documents=64, size=1 << 20)]
    work = Work(db, space.ring, lease, window, circuits=Circuits(db, lease))
    for step in (steps.fetch, steps.parse, steps.chunk):
        step(work)
    state = steps.embed(work)
    assert (state.name, state.message) == ("Waiting", "OpenAI does not answer; it is asked again in 30 s.")
    assert state.data.wait_seconds == 0
    assert steps.run_documents.list_open(db, window) == window


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
    assert [run.tags for run in runs] == [[]] * 5


@pytest.fixture
def one_embed(prefect_server_environment):
    """Equivalent of `prefect concurrency-limit create embed 1`."""

    def prefect(*arguments):
        command = [PREFECT, "concurrency-limit", *arguments]
        subprocess.run(command, env=prefect_server_environment, check=True, capture_output=True)

    prefect("create", "embed", "1")
    time.sleep(NO_LIMIT_SECONDS)
    yield
    prefect("delete", "embed")


@pytest.mark.slow
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

    async def ingest_and_list():
        states = await ingest()
        return states, await task_runs(states[0])

    states, runs = asyncio.run(asyncio.wait_for(ingest_and_list(), 60))
    gc.collect()
    assert [state.name for state in states] == ["Completed", "Completed"]
    assert [run.tags for run in runs] == [["embed"] if run.name.startswith("embed") else [] for run in runs]
    (first, second) = sorted(spans)
    assert second[0] >= first[1]
