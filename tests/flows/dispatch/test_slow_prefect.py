"""A slow Prefect server still gets its flow runs; levers report the delay."""

import asyncio
import contextlib
import threading
import time

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.dispatch import call_deadline, levers, prefect_client
from flows.dispatch.call_deadline import CallDeadline
from flows.dispatch.dispatcher import Dispatcher
from retrieval import readiness, settings
from retrieval.jobs import levers as recorded_levers
from tests.flows.jobs.test_batches import post

# Longer than the first deadline.
DELAY_SECONDS = 0.8


class SlowProxy:
    """Proxy on loopback with responses delayed by `seconds`."""

    def __init__(self, port, seconds):
        self.port, self.seconds = port, seconds
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)

    def __enter__(self):
        self.thread.start()
        self.server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self.serve, "127.0.0.1", 0), self.loop
        ).result()
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/api"

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self.close(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    async def close(self):
        self.server.close()
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def serve(self, reader, writer):
        upstream, requests = await asyncio.open_connection("127.0.0.1", self.port)
        answer_at = [0.0]

        async def pass_requests():
            while data := await reader.read(1 << 16):
                answer_at[0] = time.monotonic() + self.seconds
                requests.write(data)

        async def pass_answers():
            while data := await upstream.read(1 << 16):
                await asyncio.sleep(answer_at[0] - time.monotonic())
                writer.write(data)

        with contextlib.suppress(OSError):
            try:
                passing = [asyncio.create_task(pass_requests()), asyncio.create_task(pass_answers())]
                await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
                for task in passing:
                    task.cancel()
            finally:
                requests.close()
                writer.close()


@pytest.fixture
def slow_prefect(db, prefect_server, registered_deployments, monkeypatch):
    """Delay every answer of Prefect."""
    monkeypatch.setattr(call_deadline, "MIN_DEADLINE_SECONDS", 0.5)
    monkeypatch.setattr(call_deadline, "MAX_DEADLINE_SECONDS", 4.0)
    deadline = CallDeadline()
    for module in (prefect_client, levers):
        monkeypatch.setattr(module, "deadline", deadline)
    port = int(prefect_server.rpartition(":")[2].partition("/")[0])
    with SlowProxy(port, DELAY_SECONDS) as url, temporary_settings({PREFECT_API_URL: url}):
        yield
    recorded_levers.record_levers(db, [])


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
