"""A flow run that somebody suspends in Prefect; one that is over in a moment is not asked about it."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import suppress
from contextvars import copy_context

import httpx
import pytest
from prefect import flow, flow_engine, task
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.exceptions import Pause
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings
from prefect.states import Suspended

from flows.prefect_internals import engine, suspension

pytestmark = [
    pytest.mark.decision("H405"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
WORKED: list[int] = []


@task(persist_result=False)
def step(number):
    """Takes a moment."""
    time.sleep(0.02)
    WORKED.append(number)


@flow(persist_result=False)
async def through(steps: int):
    """So many steps."""
    for number in range(steps):
        done = step(number)
        assert done is None


@pytest.fixture
def later(monkeypatch, prefect_server):
    """As in a worker's child."""
    assert prefect_server
    monkeypatch.setattr(flow_engine, "observe_flow_run_suspension", flow_engine.observe_flow_run_suspension)
    suspension.look_later()
    WORKED.clear()
    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        yield


def made(steps):
    """A flow run of a deployment, as a worker has it."""
    with get_client(sync_client=True) as client:
        flow_id = client.create_flow(through)
        deployment = client.create_deployment(flow_id, name=f"suspended-{uuid.uuid4().hex[:8]}")
        return client.create_flow_run_from_deployment(deployment, parameters={"steps": steps})


def executed(run):
    with engine.Engine() as runs, suppress(Pause):
        runs.execute(through, run, engine.run_logger(run))
    with get_client(sync_client=True) as client:
        return client.read_flow_run(run.id).state


def test_a_short_run_is_not_asked_about(later, monkeypatch):
    reads, send_async = [], httpx.AsyncClient.send

    async def counted(self, request, **options):
        if request.method == "GET" and "/flow_runs/" in request.url.path:
            reads.append(request.url.path)
        return await send_async(self, request, **options)

    run = made(2)
    monkeypatch.setattr(httpx.AsyncClient, "send", counted)
    assert executed(run).is_completed()
    assert (WORKED, reads) == ([0, 1], [])


def test_a_longer_run_ends_when_it_is_suspended(later, monkeypatch):
    monkeypatch.setattr(suspension, "LATER_SECONDS", 0.1)
    run = made(400)

    def suspend():
        while len(WORKED) < 10:
            time.sleep(0.01)
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(run.id, Suspended(timeout_seconds=600), force=True)

    beside = threading.Thread(target=copy_context().run, args=(suspend,))
    beside.start()
    ended = executed(run)
    beside.join()
    assert (ended.type, ended.name) == (StateType.PAUSED, "Suspended")
    assert len(WORKED) < 400
