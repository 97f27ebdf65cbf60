"""A deployment paused in Prefect holds its job runs until resumed."""

import asyncio
import contextlib

import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows import prefect_errors
from flows.deployments import FLOW_NAMES
from flows.dispatch import dispatcher as dispatching
from flows.dispatch.dispatcher import Dispatcher
from retrieval import readiness, settings
from retrieval.jobs import levers
from retrieval.jobs.queries import batches
from tests.flows.jobs.test_batches import post

PAUSED = "Prefect's deployment `ingest-text` is paused"


async def read_levers(db, seconds=2):
    """Read the levers as a dispatcher does, for some seconds."""
    dispatcher = Dispatcher(settings.load_settings(), db)
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(dispatcher.read_levers(dispatcher.threads[dispatching.LEVERS_LOOP]), seconds)
    finally:
        for thread in dispatcher.threads.values():
            thread.close()


@pytest.fixture
def paused(db, registered_deployments):
    """`ingest-text`, paused in Prefect and read by a dispatcher."""

    async def change(action):
        async with get_client() as client:
            deployment = await client.read_deployment_by_name(f"{FLOW_NAMES['TEXT']}/{FLOW_NAMES['TEXT']}")
            await getattr(client, f"{action}_deployment")(deployment.id)
        await read_levers(db)

    asyncio.run(change("pause"))
    yield lambda: asyncio.run(change("resume"))
    asyncio.run(change("resume"))
    levers.record_levers(db, [])


def reasons(db):
    return [lever.effect for lever in readiness.read_dispatch(db).levers]


def test_a_pause_holds_while_prefect_does_not_answer(db, new_scope, paused):
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}), pytest.raises(prefect_errors.SERVER_ERRORS):
        asyncio.run(read_levers(db))
    db.rows("update prefect_levers set recorded_at = now() - interval '10 minutes'")
    post(db, new_scope(), "a text")
    assert batches.form_batches(db, size=64, batches=8) == 0
    assert any(reason.startswith(PAUSED) for reason in reasons(db))
    paused()
    assert batches.form_batches(db, size=64, batches=8) == 1
    assert not any(reason.startswith(PAUSED) for reason in reasons(db))
