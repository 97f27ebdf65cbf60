"""What the dispatcher and Prefect's server do while nothing is asked of the service."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from prefect.server.api import background_workers

from flows import dispatch
from flows.dispatch import Dispatcher
from flows.prefect_internals import server
from retrieval import settings
from tests.flows.configured import Configured

pytestmark = pytest.mark.decision("H193")


@pytest.fixture
def asked(db, monkeypatch):
    """Questions to Prefect, by name; the loops' pauses are short, those of an idle service are not."""
    db.rows("update job_runs set finished_at = now() where finished_at is null")
    db.rows("update batches set finished_at = now() where finished_at is null")
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
    monkeypatch.setattr(dispatch.prefect_client, "workers", question("workers", 1))
    monkeypatch.setattr(dispatch.prefect_client, "closed", question("queues", set()))
    monkeypatch.setattr(dispatch.reconcile, "once", question("flow runs", 0))
    monkeypatch.setattr(dispatch.schedules, "reconcile", question("schedules", 0))
    monkeypatch.setattr(dispatch, "RECONCILE_SECONDS", 0.01)
    monkeypatch.setattr(dispatch, "SCHEDULE_SECONDS", 0.01)
    return seen


@asynccontextmanager
async def going(db, name):
    """One loop of a dispatcher."""
    made = Dispatcher(settings.load(), db)
    task = asyncio.create_task(made.loops[name](made.lanes[name]))
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for lane in made.lanes.values():
            lane.close()


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
    dispatch.batches.form(db, size=64, batches=8)

    async def through():
        async with going(db, "reconcile"):
            await asyncio.sleep(0.5)

    asyncio.run(through())
    assert asked.count("flow runs") > 3


def test_schedules_are_compared_when_ours_have_changed(db, asked, monkeypatch):
    ours = {}
    monkeypatch.setattr(dispatch.connections_by_schedule, "wanted", lambda _db: dict(ours))

    async def through():
        async with going(db, "schedule"):
            await asyncio.sleep(0.4)
            idle = asked.count("schedules")
            ours["con_1"] = 60
            await asyncio.sleep(0.4)
            return idle, asked.count("schedules")

    assert asyncio.run(through()) == (1, 2)


def test_prefects_server_looks_for_background_tasks_once_a_second(monkeypatch):
    monkeypatch.setattr(background_workers, "Worker", background_workers.Worker)
    server.look_rarely()
    made = background_workers.Worker(None)
    assert (made.minimum_check_interval, made.scheduling_resolution) == (timedelta(seconds=1), timedelta(seconds=1))
