"""Accepted hosts of the bundled Prefect server."""

import asyncio

import pytest

from flows.prefect_server import HostCheckMiddleware


def status(headers):
    """Status of a request with these headers; 200 if Prefect received it."""
    statuses = []

    async def prefect(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})

    async def send(message):
        statuses.append(message)

    scope = {"type": "http", "headers": [(name.encode(), value.encode()) for name, value in headers]}
    asyncio.run(HostCheckMiddleware(prefect, ["Prefect.internal", "prefect"])(scope, None, send))
    return statuses[0]["status"]


@pytest.mark.parametrize(
    ("headers", "answered"),
    [
        ([("host", "prefect:4200")], 200),
        ([("host", "prefect.internal"), ("origin", "https://prefect.internal")], 200),
        ([("host", "127.0.0.1:4200")], 200),
        ([("host", "prefect.internal.evil.example")], 403),
        ([("host", "prefect"), ("origin", "https://evil.example")], 403),
        ([("host", "other.internal")], 403),
    ],
)
def test_the_bundled_prefect_answers_to_the_names_that_are_set(headers, answered):
    assert status(headers) == answered
