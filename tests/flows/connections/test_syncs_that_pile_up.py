"""Synchronizations of a connection that waited for each other are done by one flow run, in their order."""

from __future__ import annotations

import asyncio

import pytest

from flows import pipeline
from flows.run_context import RunContext
from retrieval.jobs import levers
from retrieval.jobs.levers import Lever
from retrieval.jobs.queries import batches
from tests.flows.plain_steps import without_prefect


@pytest.fixture
def ingest(db, space, monkeypatch):
    """Ingest a batch without artifacts and task runs."""
    without_prefect(monkeypatch, db, space.ring)

    def work(lease):
        run = RunContext(db, space.ring, lease)
        asyncio.run(pipeline.ingest_documents(run))
        run.close_batch()

    return work


def test_what_waited_for_a_synchronization_is_done_in_its_flow_run(space, account, ingest):
    account.put("owls.txt", "Owls hunt mice at night.")
    asked = [space.request() for _ in range(3)]
    lease = space.lease()
    ingest(lease)
    runs = [space.run(run) for run in asked]
    assert [(run.status, run.outcome) for run in runs] == [("COMPLETED", "SUCCEEDED")] * 3
    assert [len(run.completed) for run in runs] == [1, 0, 0], "each lists what changed after the one before it"
    rows = space.db.rows("select distinct batch_id from job_runs where id = any(%(ids)s)", {"ids": asked})
    assert [row["batch_id"] for row in rows] == [lease.batch_id]
    assert batches.open_batches(space.db) == []


def test_a_paused_deployment_keeps_the_next_synchronization(space, account, ingest):
    asked = [space.request() for _ in range(2)]
    lease = space.lease()
    try:
        levers.record_levers(space.db, [Lever("paused", source="BOX")])
        ingest(lease)
    finally:
        levers.record_levers(space.db, [])
    assert [space.run(run).status for run in asked] == ["COMPLETED", "QUEUED"]
