"""A slow Prefect server still gets its flow runs; levers report the delay."""

import asyncio
import contextlib
import threading
import time

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows import register
from flows.dispatch import call_deadline, levers, prefect_client
from flows.dispatch.call_deadline import CallDeadline
from flows.dispatch.dispatcher import Dispatcher
from retrieval import readiness, settings
from retrieval.jobs import levers as recorded_levers
from tests.flows.jobs.test_batches import post

DELAY_SECONDS = 8.0


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


@pytest.fixture(params=[pytest.param(scale, marks=pytest.mark.slow) for scale in (0.1, 1.0)])
def slow_prefect(request, db, prefect_server, monkeypatch):
    """Address of a slow Prefect; in CI a tenth of all times."""
    scale = request.param
    asyncio.run(register.register_deployments())
    monkeypatch.setattr(call_deadline, "MIN_DEADLINE_SECONDS", 5.0 * scale)
    monkeypatch.setattr(call_deadline, "MAX_DEADLINE_SECONDS", 40.0 * scale)
    deadline = CallDeadline()
    for module in (prefect_client, levers):
        monkeypatch.setattr(module, "deadline", deadline)
    port = int(prefect_server.rpartition(":")[2].partition("/")[0])
    with SlowProxy(port, DELAY_SECONDS * scale) as url, temporary_settings({PREFECT_API_URL: url}):
        yield scale
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


def test_texts_are_dispatched_while_prefect_answers_late(db, new_scope, slow_prefect):
    post(db, new_scope(), "a text")
    effects = []

    def is_done():
        effects[:] = [lever.effect for lever in readiness.read_dispatch(db).levers]
        is_dispatched = db.row("select count(*) as n from batches where flow_run_id is not null")["n"] == 1
        return is_dispatched and any("is slow" in effect for effect in effects)

    asyncio.run(run_dispatcher(db, 90 * slow_prefect + 20, is_done))
    assert is_done(), effects
    (slow,) = [lever for lever in readiness.read_dispatch(db).levers if "is slow" in lever.effect]
    assert slow.effect.startswith("Prefect's server is slow: its last answer came after")
    assert not slow.blocks_all
    assert not any("does not answer" in effect for effect in effects)


async def answer_after(seconds):
    await asyncio.sleep(seconds)


async def miss(deadline):
    with pytest.raises(TimeoutError):
        await deadline.wait_for(answer_after(60))


@pytest.fixture
def deadline(monkeypatch):
    """A deadline of hundredths of the usual seconds."""
    monkeypatch.setattr(call_deadline, "MIN_DEADLINE_SECONDS", 0.05)
    monkeypatch.setattr(call_deadline, "MAX_DEADLINE_SECONDS", 0.4)
    return CallDeadline()


def test_the_deadline_doubles_with_each_timeout_and_is_remembered(deadline):
    async def call():
        allowed = []
        for _ in range(5):
            allowed.append(deadline.seconds)
            await miss(deadline)
        return allowed

    assert asyncio.run(call()) == [0.05, 0.1, 0.2, 0.4, 0.4]


def test_calls_that_miss_one_deadline_double_it_once(deadline):
    async def call():
        await asyncio.gather(*(miss(deadline) for _ in range(5)))

    asyncio.run(call())
    assert deadline.seconds == 0.1


def test_fast_answers_shorten_the_deadline(deadline):
    async def call():
        await miss(deadline)
        await miss(deadline)
        for _ in range(2 * call_deadline.FAST_ANSWER_COUNT):
            await deadline.wait_for(answer_after(0))

    asyncio.run(call())
    assert deadline.seconds == 0.05


def test_a_slow_answer_is_known_until_a_fast_one_or_a_long_silence(deadline):
    async def call(*seconds):
        for pause in seconds:
            await deadline.wait_for(answer_after(pause))

    deadline.seconds = 0.4
    asyncio.run(call(0.1))
    assert deadline.slow_seconds == pytest.approx(0.1, abs=0.05)
    assert "is slow" in levers.describe_slowness(deadline.slow_seconds).effect
    asyncio.run(miss(deadline))
    assert deadline.slow_seconds is None
    asyncio.run(call(0.1, 0))
    assert deadline.slow_seconds is None
