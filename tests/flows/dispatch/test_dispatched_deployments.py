"""Requests of the dispatcher to Prefect: deployments are cached until lost."""

import asyncio

import httpx


class Server:
    """A client of this server."""

    def __init__(self, name):
        self.api_url = name


def test_a_deployment_that_the_server_has_forgotten_is_asked_for_again():
    # A Prefect without its database answered other than `ObjectNotFound`: nothing was dispatched until a restart.
    from prefect.exceptions import PrefectHTTPStatusError

    from flows.dispatch import prefect_client
    from retrieval.jobs.queries.batches import Batch

    requested, known_deployments = [], ["before"]

    class Client(Server):
        async def read_deployment_by_name(self, name):
            return type("Deployment", (), {"id": known_deployments[-1]})

        async def create_flow_run_from_deployment(self, deployment, **values):
            if deployment != known_deployments[-1]:
                request = httpx.Request("POST", f"http://third/api/deployments/{deployment}/create_flow_run")
                missing = httpx.Response(404, json={"detail": "Deployment not found"}, request=request)
                raise PrefectHTTPStatusError("404", request=request, response=missing)
            requested.append(deployment)
            return type("Run", (), {"id": "run"})

    client = Client("http://third/api")
    batch = Batch("bat_1", "TEXT", 1, ("ijr_1",), "ns_1", "a text")
    asyncio.run(prefect_client.start_flow_run(client, batch))
    known_deployments.append("after")
    asyncio.run(prefect_client.start_flow_run(client, batch))
    assert requested == ["before", "after"]
