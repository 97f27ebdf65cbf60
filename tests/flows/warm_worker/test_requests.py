"""What a flow run costs Prefect's server in requests: each is one that a text waits for."""

from __future__ import annotations

import asyncio
import gc
import uuid

import httpx
import pytest
from prefect import flow, flow_engine, task
from prefect.client.orchestration import get_client
from prefect.events.worker import EventsWorker
from prefect.exceptions import Pause
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, Settings, temporary_settings
from prefect.states import Suspended
from prefect.workers.base import BaseVariables, BaseWorkerResult

from flows import server_clock
from flows.prefect_internals import engine, suspension
from flows.prefect_internals.worker import ClaimingWorker, ForkedConfiguration

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""Prefect's own threads may leave a socket for events to the end of the process. What ours leave, `unclosed` finds."""


@task(persist_result=False)
def step():
    """Does nothing."""


@flow(persist_result=False)
async def nothing():
    """One task, as the service's steps are run."""
    done = await asyncio.to_thread(step)
    assert done is None


@flow(persist_result=False)
async def leaving():
    """Leaves something behind that would go on for ever."""
    LEFT.append(asyncio.create_task(asyncio.sleep(3600)))


LEFT: list[asyncio.Task[None]] = []


@flow(persist_result=False)
async def suspended(run_id: str):
    """Is suspended in the middle, and goes on."""
    suspension.suspend(uuid.UUID(run_id), Suspended(timeout_seconds=600))
    done = await asyncio.to_thread(step)
    assert done is None


@pytest.fixture
def as_in_a_child(monkeypatch):
    """What a worker's fork server does once."""
    monkeypatch.setattr(flow_engine, "observe_flow_run_suspension", flow_engine.observe_flow_run_suspension)
    suspension.leave_to_the_worker()


@pytest.fixture
def requests(monkeypatch, prefect_server, as_in_a_child):
    """Every request of this process to Prefect's server, but for logs: method, and the path without ids."""
    assert prefect_server
    seen, send, send_async = [], httpx.Client.send, httpx.AsyncClient.send

    def note(request):
        parts = [part for part in request.url.path.split("/") if part and "-" not in part]
        seen.append(f"{request.method} {'/'.join(parts[1:])}")

    def counted(self, request, **options):
        note(request)
        return send(self, request, **options)

    async def counted_async(self, request, **options):
        note(request)
        return await send_async(self, request, **options)

    monkeypatch.setattr(httpx.Client, "send", counted)
    monkeypatch.setattr(httpx.AsyncClient, "send", counted_async)
    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        yield seen
        EventsWorker.drain_all(timeout=10, at_exit=False)  # else its thread would ask on, and keep its socket


async def until(condition):
    """Looks again and again."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("not within 10 s")


def made(what):
    """A flow run of a deployment, as a worker takes it from its pool."""
    with get_client(sync_client=True) as client:
        deployment = client.create_deployment(client.create_flow(what), name="counted")
        return client.create_flow_run_from_deployment(deployment)


def state_names(run):
    with get_client(sync_client=True) as client:
        found = client.read_flow_run(run.id)
        return found.flow_version, [state.name for state in client.read_flow_run_states(run.id)]


def test_a_child_asks_for_the_two_states_and_notes_the_version_beside(requests):
    with engine.Engine() as runs:
        for _ in range(2):  # by the second one Prefect knows the deployment, which it names in events
            run = made(nothing)
            requests.clear()
            runs.execute(nothing, run, engine.run_logger(run))
    assert sorted(requests) == ["PATCH flow_runs", "POST flow_runs/set_state", "POST flow_runs/set_state"]
    assert state_names(run) == (nothing.version, ["Scheduled", "Running", "Completed"])


def test_nothing_of_a_run_goes_on_after_it(requests):
    assert requests == []
    with engine.Engine() as runs:
        for what in (leaving, nothing):
            run = made(what)
            runs.execute(what, run, engine.run_logger(run))
            assert all(task.cancelled() for task in LEFT)
    assert LEFT


def unclosed():
    """Connections whose event loop has ended."""
    transports = [one for one in gc.get_objects() if isinstance(one, asyncio.Transport)]
    return [one for one in transports if getattr(one, "_sock", None) is not None and one._loop.is_closed()]


def test_a_run_that_is_suspended_leaves_no_connection_open(requests):
    run = made(suspended)
    run.parameters = {"run_id": str(run.id)}
    with engine.Engine() as runs:
        with pytest.raises(Pause):
            runs.execute(suspended, run, engine.run_logger(run))
        assert unclosed() == []
        assert requests
        runs.execute(nothing, made(nothing), engine.run_logger(run))


class _Worker(ClaimingWorker[ForkedConfiguration, BaseVariables, BaseWorkerResult]):
    """Begins what it takes, and that is all."""

    type = "counted-in-a-test"
    job_configuration = ForkedConfiguration

    async def run(self, flow_run, configuration, task_status=None):
        if task_status is not None:
            task_status.started("here")
        self.begun.append((flow_run.id, configuration.name))
        return BaseWorkerResult(identifier="here", status_code=0)


def test_a_worker_takes_a_run_with_three_requests_before_it_begins(requests, monkeypatch):
    written = []
    monkeypatch.setattr(server_clock, "AGAIN_SECONDS", 3600.0)  # asked every 20 s else, whatever is taken
    monkeypatch.setattr(Settings, "to_environment_variables", lambda *_args, **_options: written.append(1) or {})

    async def through():
        pool = f"pool-{uuid.uuid4().hex[:8]}"
        async with _Worker(pool, limit=4) as worker, get_client() as client:
            worker.begun = []
            flow_id = await client.create_flow(nothing)
            deployment = await client.create_deployment(flow_id, name=pool, work_pool_name=pool)
            for number in range(1, 3):
                run = await client.create_flow_run_from_deployment(deployment)
                requests.clear()
                await worker.get_and_submit_flow_runs()
                await until(lambda number=number: len(worker.begun) == number)
                before = list(requests)
            await until(lambda: not worker.submitting and len(requests) >= 5)
            everything = list(requests)
            await asyncio.sleep(1)  # the labels are on their way
            return before, everything, await client.read_flow_run(run.id)

    before, everything, run = asyncio.run(through())
    needed = ["POST work_pools/get_scheduled_flow_runs", "GET deployments", "POST flow_runs/set_state"]
    assert [one for one in before if one in needed] == needed
    assert sorted(set(everything) - set(needed)) == ["PATCH flow_runs", "PATCH flow_runs/labels"]
    assert len(everything) == 5
    assert run.labels["prefect.worker.type"] == _Worker.type
    assert run.infrastructure_pid == "here"
    assert written == [], "its settings are not written out for a process that has them"
