"""Synchronizations of a connection that waited for each other are done by one flow run, in their order."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from flows import context, pipeline, report, tasks
from retrieval.jobs import levers
from retrieval.jobs.levers import Lever
from retrieval.jobs.queries import batches
from tests.flows.test_time_slice import _no_bar


@contextlib.asynccontextmanager
async def _no_listing(*_):
    yield


@pytest.fixture
def without_prefect(db, space, monkeypatch):
    """The flow's body without artifacts and task runs."""
    monkeypatch.setattr(context, "open_database", lambda: db)
    monkeypatch.setattr(context, "load_keys", lambda: space.ring)
    monkeypatch.setattr(report, "ProgressBar", _no_bar)
    monkeypatch.setattr(report, "report_listing", _no_listing)
    monkeypatch.setattr(tasks, "name_task", lambda task, _name: task.fn)


def test_what_waited_for_a_synchronization_is_done_in_its_flow_run(space, account, without_prefect):
    account.put("owls.txt", "Owls hunt mice at night.")
    asked = [space.request() for _ in range(3)]
    lease = space.lease()
    asyncio.run(pipeline._ingest(lease))
    runs = [space.run(run) for run in asked]
    assert [(run.status, run.outcome) for run in runs] == [("COMPLETED", "SUCCEEDED")] * 3
    assert [len(run.completed) for run in runs] == [1, 0, 0], "each lists what changed after the one before it"
    rows = space.db.rows("select distinct batch_id from job_runs where id = any(%(ids)s)", {"ids": asked})
    assert [row["batch_id"] for row in rows] == [lease.batch_id]
    assert batches.open_batches(space.db) == []


def test_a_paused_deployment_keeps_the_next_synchronization(space, account, without_prefect):
    asked = [space.request() for _ in range(2)]
    lease = space.lease()
    try:
        levers.record_levers(space.db, [Lever("paused", source="BOX")])
        asyncio.run(pipeline._ingest(lease))
    finally:
        levers.record_levers(space.db, [])
    assert [space.run(run).status for run in asked] == ["COMPLETED", "QUEUED"]
