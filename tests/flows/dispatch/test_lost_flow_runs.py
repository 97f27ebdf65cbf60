"""A batch whose suspended flow run is gone from Prefect starts again and holds no other batch back."""

import asyncio
from uuid import uuid4

from prefect.client.orchestration import get_client

from flows.dispatch import batches as dispatched_batches
from flows.dispatch.background_loop import LoopThread
from retrieval.jobs.queries import batches
from tests.flows.configured import Configured


def dispatch(db):
    async def dispatch_once():
        async with get_client() as client:
            await dispatched_batches.dispatch_batches(thread, client, lambda: None, size=64, limit=4)

    thread = LoopThread("dispatch", db)
    try:
        asyncio.run(dispatch_once())
    finally:
        thread.close()


def read_batch(space, job_run):
    return space.db.row(
        "select b.* from batches b join job_runs r on r.batch_id = b.id where r.id = %(run)s", {"run": job_run}
    )


def test_a_suspended_flow_run_that_prefect_lost_is_replaced(db, registered_deployments):
    space, neighbour = Configured(db), Configured(db)
    suspended = space.text("Owls hunt mice.", "owls").job_run_id
    batches.form_batches(db, size=64, batches=8)
    lost = str(uuid4())
    db.execute(
        "update batches set resumes = true, flow_run_id = %(lost)s where id = %(id)s",
        {"lost": lost, "id": read_batch(space, suspended)["id"]},
    )
    later = neighbour.text("Bats hunt moths.", "bats").job_run_id
    dispatch(db)
    assert read_batch(neighbour, later)["dispatched_at"]
    dispatch(db)
    replaced = read_batch(space, suspended)
    assert replaced["dispatched_at"]
    assert replaced["flow_run_id"] != lost
