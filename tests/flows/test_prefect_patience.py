"""Prefect's client goes on soon after its server is back, whoever uses it: dispatcher, worker, flow runs."""

import asyncio
import subprocess
import sys

import httpx
import pytest

pytestmark = pytest.mark.service

AWAY_FOR = """
import asyncio, time
import httpx
from prefect.client import base
from flows.prefect_internals import patience

slept = []

async def sleep(seconds):
    slept.append(seconds)

async def main():
    base.anyio.sleep = sleep
    def answer(request):
        raise httpx.ReadError("reset", request=request)
    client = base.PrefectHttpxAsyncClient(transport=httpx.MockTransport(answer), enable_csrf_support=False)
    try:
        await client.get("http://prefect/api/health")
    except httpx.ReadError:
        pass

patience.shorten()
patience.shorten()
asyncio.run(main())
print(max(slept), sum(slept), len(slept))
"""


def test_no_pause_between_two_attempts_is_long():
    """They doubled up to 32 s: work stood still for half a minute and more after Prefect was back."""
    done = subprocess.run(
        [sys.executable, "-c", AWAY_FOR],
        capture_output=True,
        text=True,
        check=True,
        env={"PREFECT_CLIENT_MAX_RETRIES": "20"},
    )
    longest, together, attempts = map(float, done.stdout.split())
    assert longest <= 3
    assert attempts == 20
    assert 30 < together < 60


class Server:
    """Says the time of a server as `client.hello` does."""

    def __init__(self, name, said):
        self.api_url, self.said, self.asked = name, said, 0

    async def hello(self):
        self.asked += 1
        return httpx.Response(200, headers={"date": self.said} if self.said else {})


def test_the_time_is_that_of_prefects_server(monkeypatch):
    from flows import server_clock

    server = Server("http://one/api", "Thu, 01 Jan 2026 00:00:00 GMT")

    async def ask():
        return [await server_clock.now(server) for _ in range(3)]

    found = asyncio.run(ask())
    assert [moment.isoformat()[:18] for moment in found] == ["2026-01-01T00:00:0"] * 3
    assert server.asked == 1, "asked for once in a while, not for each request"
    monkeypatch.setattr(server_clock, "AGAIN_SECONDS", 0)
    asyncio.run(ask())
    assert server.asked == 4


def test_a_flow_run_waits_for_no_moment_of_this_machines_clock(monkeypatch):
    """A dispatcher whose clock is an hour ahead had its flow runs wait for an hour."""
    from flows import prefect_client
    from retrieval.jobs.batches import Batch

    made = []

    class Client(Server):
        async def read_deployment_by_name(self, name):
            return type("Deployment", (), {"id": name})

        async def create_flow_run_from_deployment(self, deployment, **values):
            made.append(values)
            return type("Run", (), {"id": "run"})

    client = Client("http://other/api", "Thu, 01 Jan 2026 00:00:00 GMT")
    asyncio.run(prefect_client.start(client, Batch("bat_1", "TEXT", 1, ("ijr_1",), "ns_1", "a text")))
    assert made[0]["state"].state_details.scheduled_time.year == 2026
    assert made[0]["state"].state_details.scheduled_time.month == 1


def test_a_deployment_that_the_server_has_forgotten_is_asked_for_again(monkeypatch):
    """Prefect lost its database: its answer was no `ObjectNotFound`, and nothing was dispatched until a restart."""
    from prefect.exceptions import PrefectHTTPStatusError

    from flows import prefect_client
    from retrieval.jobs.batches import Batch

    made, known = [], ["before"]

    class Client(Server):
        async def read_deployment_by_name(self, name):
            return type("Deployment", (), {"id": known[-1]})

        async def create_flow_run_from_deployment(self, deployment, **values):
            if deployment != known[-1]:
                request = httpx.Request("POST", f"http://third/api/deployments/{deployment}/create_flow_run")
                missing = httpx.Response(404, json={"detail": "Deployment not found"}, request=request)
                raise PrefectHTTPStatusError("404", request=request, response=missing)
            made.append(deployment)
            return type("Run", (), {"id": "run"})

    client = Client("http://third/api", None)
    batch = Batch("bat_1", "TEXT", 1, ("ijr_1",), "ns_1", "a text")
    asyncio.run(prefect_client.start(client, batch))
    known.append("after")
    asyncio.run(prefect_client.start(client, batch))
    assert made == ["before", "after"]
