"""New texts join a running batch: a stream needs few flow runs and loses none."""

import asyncio

import pytest

from flows import pipeline, run_context
from flows.run_context import RunContext
from retrieval.ingestion import crash_isolation
from retrieval.jobs.queries import batch_append, batches, job_queue
from retrieval.jobs.queries.batches import Superseded
from tests.flows.configured import Configured
from tests.flows.plain_steps import without_prefect
from tests.flows.test_time_slice import open_runs, post, request_listing


@pytest.fixture
def space(db):
    return Configured(db)


@pytest.fixture
def no_short(monkeypatch):
    monkeypatch.setattr(job_queue, "MAX_SHORT_RUNS", 0)


def lease_of(db, space, *, attempt=1):
    """Lease of the namespace's newest batch."""
    batches.form_batches(db, size=1000, batches=8, worker_slots=2)
    (batch,) = (
        waiting_batch
        for waiting_batch in batches.undispatched_batches(db)
        if waiting_batch.namespace == space.scope.namespace
    )
    batches.record_flow_run(db, batch, "run")
    return batches.claim_lease(db, batch.id, attempt, seconds=30)


def forms(db, places=2):
    return batches.form_batches(db, size=1000, batches=8, worker_slots=places)


def test_what_is_sent_while_a_batch_is_at_work_is_done_by_it(db, space, no_short, monkeypatch):
    monkeypatch.setattr(run_context, "APPEND_SECONDS", 0.05)
    late = [["two", "three"], ["four"], []]
    windows = []

    def send_more(step, work):
        if step == "fetch":
            windows.append(len(work.window))
            if late:
                post(db, space.scope, *late.pop(0))

    without_prefect(monkeypatch, db, space.ring, before_step=send_more)
    post(db, space.scope, "one")
    lease = lease_of(db, space)

    run = RunContext(db, space.ring, lease)
    asyncio.run(pipeline.ingest_documents(run))
    assert run.intake.joined == 3
    batches.finish_batch(db, lease)
    assert windows == [1, 2, 1]
    assert not open_runs(space)
    assert set(space.search("about text", top_k=9)) == {"one", "two", "three", "four"}
    assert forms(db) == 0
    assert batch_append.describe_batch(db, lease) == "4 texts in n"


def test_a_batch_grows_to_its_size_and_by_its_own_source_and_scope_alone(db, space, new_scope, no_short):
    post(db, space.scope, "one")
    lease = lease_of(db, space)
    post(db, space.scope, "two", "three", "four")
    post(db, new_scope(), "theirs")
    request_listing(space)
    assert len(batch_append.append_waiting(db, lease, size=3)) == 2
    assert batch_append.append_waiting(db, lease, size=3) == []
    assert len(batch_append.append_waiting(db, lease, size=9)) == 1
    assert batch_append.append_waiting(db, lease, size=9) == []


def test_nothing_joins_a_batch_that_another_worker_has(db, space, no_short):
    post(db, space.scope, "one")
    lease = lease_of(db, space)
    (batch,) = batches.open_batches(db)
    crash_isolation.restart_batch(db, batch)
    post(db, space.scope, "two")
    with pytest.raises(Superseded):
        batch_append.append_waiting(db, lease, size=9)
    (unfinished,) = db.rows("select batch_id from job_runs where finished_at is null order by number desc limit 1")
    assert unfinished["batch_id"] is None
