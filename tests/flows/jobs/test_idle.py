"""The dispatcher while nothing is asked of the service."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from flows import dispatch
from flows.dispatch import Dispatcher
from retrieval import settings
from retrieval.database import listening
from retrieval.webhooks import endpoints
from retrieval.webhooks.endpoints import Reach
from tests.flows.configured import Configured


@pytest.fixture
def asked(db, monkeypatch):
    """Questions to Prefect, by name; the loops' pauses are short, those of an idle service are not."""
    seen = []

    def question(name, answer):
        async def ask(*_args, **_options):
            seen.append(name)
            return answer

        return ask

    @asynccontextmanager
    async def nobody():
        yield None

    monkeypatch.setattr(dispatch, "get_client", nobody)
    monkeypatch.setattr(dispatch.prefect_client, "count_workers", question("workers", 1))
    monkeypatch.setattr(dispatch.reconcile, "reconcile_batches", question("flow runs", 0))
    monkeypatch.setattr(dispatch.schedules, "reconcile_schedules", question("schedules", 0))
    monkeypatch.setattr(dispatch, "RECONCILE_SECONDS", 0.01)
    monkeypatch.setattr(dispatch, "SCHEDULE_SECONDS", 0.01)
    return seen


@asynccontextmanager
async def going(db, name):
    """One loop of a dispatcher."""
    made = Dispatcher(settings.load_settings(), db)
    task = asyncio.create_task(made.loops[name](made.threads[name]))
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for thread in made.threads.values():
            thread.close()


def test_prefect_is_asked_once_until_a_batch_is_made(db, asked):
    async def through():
        async with going(db, "reconcile") as made:
            await asyncio.sleep(0.5)
            idle = asked.count("workers")
            made.busy.set()
            await asyncio.sleep(0.5)
            return idle, asked.count("workers")

    assert asyncio.run(through()) == (1, 2)


def test_prefect_is_asked_again_and_again_while_a_batch_is_open(db, asked):
    Configured(db).text("about owls", "owls")
    dispatch.batches.form_batches(db, size=64, batches=8)

    async def through():
        async with going(db, "reconcile"):
            await asyncio.sleep(0.5)

    asyncio.run(through())
    assert asked.count("flow runs") > 3


def test_schedules_are_compared_when_ours_have_changed(db, asked, monkeypatch):
    ours = {}
    monkeypatch.setattr(dispatch.connections_by_schedule, "wanted_schedules", lambda _db: dict(ours))

    async def through():
        async with going(db, "schedule"):
            await asyncio.sleep(0.4)
            idle = asked.count("schedules")
            ours["con_1"] = 60
            await asyncio.sleep(0.4)
            return idle, asked.count("schedules")

    assert asyncio.run(through()) == (1, 2)


def test_whoever_listens_to_the_database_hears_at_once_and_does_nothing_meanwhile(db, monkeypatch):
    waits = []

    async def through():
        loop = asyncio.get_running_loop()
        add = loop.add_reader
        monkeypatch.setattr(loop, "add_reader", lambda *given: waits.append(1) or add(*given))
        async with await listening.connect_listener(db.url) as connection:
            await connection.execute("listen told_in_a_test")
            waits.clear()
            async for _ in connection.notifies(timeout=1):
                pytest.fail("nobody has told anything")
            idle = len(waits)
            loop.call_later(0.1, db.rows, "notify told_in_a_test")
            began = time.monotonic()
            heard = [notice async for notice in connection.notifies(timeout=30, stop_after=1)]
            return idle, len(heard), time.monotonic() - began

    idle, heard, seconds = asyncio.run(through())
    assert (idle, heard) == (1, 1)
    assert seconds < 5


@pytest.fixture
def looks(monkeypatch):
    """How often the dispatcher looks for what waits. Where work is open, a hundred times a second."""
    seen = []

    async def dispatched(*_args, **_options):
        seen.append("dispatch")
        return 0

    async def evaluated(*_args):
        return None

    monkeypatch.setattr(dispatch, "dispatch_batches", dispatched)
    monkeypatch.setattr(dispatch, "start_evaluations", evaluated)
    monkeypatch.setattr(dispatch, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(dispatch, "PACE_SECONDS", 0.0)
    return seen


def test_what_waits_is_looked_for_rarely_while_nothing_is_open_and_at_once_when_told(db, asked, looks):
    assert asked == []

    async def through():
        async with going(db, "dispatch") as made:
            await asyncio.sleep(0.5)
            idle = len(looks)
            made.wake.set()
            await asyncio.sleep(0.3)
            told = len(looks)
            await asyncio.to_thread(Configured(db).text, "about owls", "owls")
            made.wake.set()
            await asyncio.sleep(0.5)
            return idle, told, len(looks)

    idle, told, busy = asyncio.run(through())
    assert (idle, told) == (1, 2)
    assert busy > 5


def test_deliveries_are_looked_for_rarely_while_there_is_no_webhook(db, asked):
    assert asked == []
    db.rows("delete from webhooks")
    made = Dispatcher(settings.load_settings(), db)
    try:
        assert made._until_next(db) == dispatch.QUIET_SECONDS
        space = Configured(db)
        reach = Reach(space.scope.organization)
        space.call(endpoints.create(db, space.ring, reach, url="https://example.com/", events=["*"], description=None))
        assert made._until_next(db) == dispatch.LOOK_SECONDS
        space.text("about owls", "owls")
        dispatch.batches.form_batches(db, size=64, batches=8)
        assert made._until_next(db) == dispatch.LISTENED_SECONDS
    finally:
        for thread in made.threads.values():
            thread.close()
