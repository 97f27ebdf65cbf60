"""A refusing Prefect is reported as refusing, not as silent."""

import asyncio

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows import prefect_errors
from flows.dispatch import dispatcher as dispatching
from flows.dispatch.dispatcher import Dispatcher
from retrieval import readiness, settings
from retrieval.jobs import levers
from tests.connectors.web.test_web_client import answer, serving

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
