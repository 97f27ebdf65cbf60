"""Batches made by a flow run: exclusive, in the order of their connection."""

from __future__ import annotations

import uuid

import pytest

from flows.run_context import RunContext
from retrieval.job_config import Ingestion
from retrieval.jobs import runs
from retrieval.jobs.queries import batches, requested_batches
from tests.flows.configured import Configured

CONNECTION = "conn_06gzppa1c3e5g7j9m2p4r6t8w1"


@pytest.fixture
def space(db):
    return Configured(db)


def accept_listing(space):
    listing = runs.accept_discovery(
        space.db, space.scope, source="NOTION", config={}, ingestion=Ingestion(), connection_id=CONNECTION
    )
    return space.call(listing).job_run_id


def make_batch(space, job_run, size=1):
    """Make the batch of a flow run for its job run."""
    flow_run = str(uuid.uuid4())
    space.call(requested_batches.make_batch(space.db, job_run, flow_run, size=size, seconds=60))
    return space.call(requested_batches.find_by_flow_run(space.db, flow_run))


def test_the_dispatcher_takes_up_no_batch_that_a_flow_run_made(space):
    batch = make_batch(space, space.text("Owls hunt at night.", "owls").job_run_id, size=64)
    waiting = space.text("Mice sleep by day.", "mice").job_run_id
    assert batches.form_batches(space.db, size=64, batches=4) == 1
    (formed,) = batches.undispatched_batches(space.db)
    assert formed.job_runs == (waiting,)
    assert batches.claim_lease(space.db, batch.id, batch.attempt, seconds=60)
    assert batches.claim_lease(space.db, batch.id, batch.attempt, seconds=60) is None


def test_a_flow_run_that_another_replaced_has_no_attempt_left(space):
    job_run = space.text("Owls hunt at night.", "owls").job_run_id
    batch = make_batch(space, job_run)
    newest_batch = space.call(requested_batches.find_by_job_run(space.db, job_run, str(uuid.uuid4())))
    assert (newest_batch.id, newest_batch.attempt) == (batch.id, 0)
    assert batches.claim_lease(space.db, newest_batch.id, newest_batch.attempt, seconds=60) is None


def test_a_request_waits_for_the_earlier_job_run_of_its_connection(space):
    earlier, requested = accept_listing(space), accept_listing(space)
    batch = make_batch(space, requested)
    lease = batches.claim_lease(space.db, batch.id, batch.attempt, seconds=60)
    run = RunContext(space.db, space.ring, lease)
    assert run.is_early
    assert not run.should_continue()
    assert batches.return_runs(space.db, lease, suspended=True) == 1
    space.db.execute("update job_runs set finished_at = now() where id = %(run)s", {"run": earlier})
    assert batches.form_batches(space.db, size=64, batches=4) == 1
    (resumed,) = batches.undispatched_batches(space.db)
    assert (resumed.id, resumed.job_runs) == (batch.id, (requested,))
    lease = batches.claim_lease(space.db, batch.id, batch.attempt, seconds=60)
    assert RunContext(space.db, space.ring, lease).should_continue()
