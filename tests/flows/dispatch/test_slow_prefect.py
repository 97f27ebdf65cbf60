"""A slow Prefect server still gets its flow runs; levers report the delay."""

import asyncio
import base64

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows import context
from flows.dispatch import call_deadline, levers, prefect_client
from flows.dispatch.call_deadline import CallDeadline
from flows.dispatch.dispatcher import Dispatcher
from retrieval import readiness, settings
from retrieval.jobs import levers as recorded_levers
from tests.faults.network import Network
from tests.flows.jobs.test_batches import post

# Of each direction; together longer than the first deadline.
DELAY_SECONDS = 0.4


@pytest.fixture
def slow_prefect(db, prefect_server, registered_deployments, monkeypatch):
    """Delay every answer of Prefect."""
    monkeypatch.setenv("RETRIEVAL_SECRET_KEY", "1:" + base64.b64encode(bytes(32)).decode())
    settings.load_settings.cache_clear()
    monkeypatch.setattr(call_deadline, "MIN_DEADLINE_SECONDS", 0.5)
    monkeypatch.setattr(call_deadline, "MAX_DEADLINE_SECONDS", 4.0)
    deadline = CallDeadline()
    for module in (prefect_client, levers):
        monkeypatch.setattr(module, "deadline", deadline)
    port = int(prefect_server.rpartition(":")[2].partition("/")[0])
    with Network(port) as network, temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{network.port}/api"}):
        network.delay = DELAY_SECONDS
        yield
    recorded_levers.record_levers(db, [])
    monkeypatch.undo()
    for cache in (settings.load_settings, context.load_keys):
        cache.cache_clear()


async def run_dispatcher(db, seconds, is_done):
    """Run the dispatch and lever loops until `is_done` or a timeout."""
    dispatcher, stop = Dispatcher(settings.load_settings(), db), asyncio.Event()
    dispatcher.loops = {name: dispatcher.loops[name] for name in ("dispatch", "reconcile")}
    running = asyncio.create_task(dispatcher.run(stop))
    for _ in range(round(seconds * 10)):
        if is_done():
            break
        await asyncio.sleep(0.1)
    stop.set()
    await running


@pytest.mark.slow
@pytest.mark.usefixtures("slow_prefect")
def test_texts_are_dispatched_while_prefect_answers_late(db, new_scope):
    post(db, new_scope(), "a text")
    effects = []

    def is_done():
        effects[:] = [lever.effect for lever in readiness.read_dispatch(db).levers]
        is_dispatched = db.row("select count(*) as n from batches where flow_run_id is not null")["n"] == 1
        return is_dispatched and any("is slow" in effect for effect in effects)

    asyncio.run(run_dispatcher(db, 30, is_done))
    assert is_done(), effects
    (slow,) = [lever for lever in readiness.read_dispatch(db).levers if "is slow" in lever.effect]
    assert slow.effect.startswith("Prefect's server is slow: its last answer came after")
    assert not slow.blocks_all
    assert not any("does not answer" in effect for effect in effects)
