"""A refusing Prefect is reported as refusing, and what it lost holds nothing back."""

import asyncio
from contextlib import contextmanager
from uuid import uuid4

import httpx
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows import prefect_errors
from flows.dispatch import batches as dispatched_batches
from flows.dispatch import dispatcher as dispatching
from flows.dispatch.background_loop import LoopThread
from flows.dispatch.dispatcher import Dispatcher
from retrieval import readiness, settings
from retrieval.jobs import levers
from retrieval.jobs.queries import batches
from tests.connectors.web.test_web_client import answer, serving
from tests.flows.configured import Configured
from tests.standins.faults import Handler, served

REFUSED = "Prefect refuses the credentials"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("401 Unauthorized", REFUSED),
        ("418 I'm a teapot", "Prefect's server answers with an error (418)"),
        ("404 Not Found", "Prefect does not know the work pool"),
        (None, "Prefect's server does not answer"),
    ],
)
def test_the_lever_says_how_prefect_answers(db, status, words):
    async def read(url):
        dispatcher = Dispatcher(settings.load_settings(), db)
        try:
            with temporary_settings({PREFECT_API_URL: url}), pytest.raises(prefect_errors.SERVER_ERRORS):
                await dispatcher.read_levers(dispatcher.threads[dispatching.LEVERS_LOOP])
        finally:
            for thread in dispatcher.threads.values():
                thread.close()

    with serving(lambda _path, _headers: answer(b"{}", status or "200 OK", content_type="application/json")) as server:
        url = f"{server.url}/api"
        if status is not None:
            asyncio.run(read(url))
    if status is None:
        asyncio.run(read(url))
    (lever,) = readiness.read_dispatch(db).levers
    assert lever.effect.startswith(words)
    assert lever.blocks_all
    levers.record_levers(db, [])


def dispatch(db, failed_batches=None):
    failed_batches = set() if failed_batches is None else failed_batches

    async def dispatch_once():
        async with get_client() as client:
            await dispatched_batches.dispatch_batches(
                thread, client, lambda: None, size=64, limit=4, failed_batches=failed_batches
            )

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


@contextmanager
def refusing_prefect(prefect_server, refused_names):
    """Answer 500 to requests that name one of these batches; pass others on to Prefect."""

    class Proxy(Handler):
        def do_GET(self):  # noqa: N802
            self.forward()

        def do_POST(self):  # noqa: N802
            self.forward()

        def forward(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if any(name in body for name in refused_names):
                self.reply(500, b"{}", {"Content-Type": "application/json"})
                return
            answered = httpx.request(
                self.command,
                prefect_server.removesuffix("/api") + self.path,
                content=body,
                headers={"Content-Type": "application/json"},
            )
            self.reply(answered.status_code, answered.content, {"Content-Type": "application/json"})

    with served(Proxy) as port, temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{port}/api"}):
        yield


def test_batches_that_prefect_fails_to_start_hold_no_others_back(db, prefect_server, registered_deployments):
    """Two of them, the oldest: the first pass ends at the second one, the next pass tries them last."""
    refused, neighbour = [Configured(db), Configured(db)], Configured(db)
    first = [space.text("Owls hunt mice.", "owls").job_run_id for space in refused]
    batches.form_batches(db, size=64, batches=8)
    later = neighbour.text("Bats hunt moths.", "bats").job_run_id
    refused_names = [read_batch(space, run)["id"].encode() for space, run in zip(refused, first, strict=True)]
    failed_batches = set()

    with refusing_prefect(prefect_server, refused_names):
        for _ in range(2):
            with pytest.raises(prefect_errors.SERVER_ERRORS):
                dispatch(db, failed_batches)
    assert read_batch(neighbour, later)["dispatched_at"]
    assert not any(read_batch(space, run)["dispatched_at"] for space, run in zip(refused, first, strict=True))
    dispatch(db, failed_batches)
    assert all(read_batch(space, run)["dispatched_at"] for space, run in zip(refused, first, strict=True))


def test_an_evaluation_starts_although_prefect_refuses_a_batch(db, prefect_server, registered_deployments):
    space = Configured(db)
    refused = space.text("Owls hunt mice.", "owls").job_run_id
    batches.form_batches(db, size=64, batches=8)
    values = {"id": f"evr_{uuid4().hex}", "evaluation": f"eval_{uuid4().hex}", "namespace": space.scope.namespace}
    db.execute(
        "insert into evaluations (id, partition_id, name) select %(evaluation)s, id, 'owls' from partitions"
        " where namespace_id = %(namespace)s limit 1",
        values,
    )
    db.execute("insert into evaluation_runs (id, evaluation_id) values (%(id)s, %(evaluation)s)", values)

    async def dispatch_pass():
        dispatcher = Dispatcher(settings.load_settings(), db)
        try:
            with pytest.raises(prefect_errors.SERVER_ERRORS):
                await dispatcher.dispatch_waiting(dispatcher.threads["dispatch"])
        finally:
            for thread in dispatcher.threads.values():
                thread.close()

    async def find_flow_run():
        async with get_client() as client:
            name = FlowRunFilterName(any_=[f"evaluation {values['id']}"])
            return await client.read_flow_runs(flow_run_filter=FlowRunFilter(name=name))

    with refusing_prefect(prefect_server, [read_batch(space, refused)["id"].encode()]):
        asyncio.run(dispatch_pass())
    assert len(asyncio.run(find_flow_run())) == 1
    dispatch(db)
