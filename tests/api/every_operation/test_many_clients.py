"""Every GET operation under 32 clients during ingestion, for longer than any cache lifetime."""

import asyncio
import time
from collections import Counter
from typing import Any, cast

import httpx
import pytest

from api import services
from tests.api.description import DOCUMENT
from tests.api.every_operation.test_isolation import OPEN, Route, World, Worlds, case_name

READS = [Route("GET", path, methods["get"]) for path, methods in sorted(DOCUMENT["paths"].items()) if "get" in methods]
# Need a signature, or a document with pages: 4xx here.
WITHOUT_SUCCESS = OPEN | {"/v1/documents/{document_id}/pages/{page}"}
CLIENTS = 32
# Longer than any cache lifetime; all operations take nine minutes.
READ_SECONDS = 12


@pytest.fixture(scope="module")
def worlds(base, api_db, ring):
    opened = Worlds(base, api_db, ring)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def organization(worlds):
    return worlds.organization()


@pytest.fixture(scope="module")
def owner(worlds, organization):
    return worlds.fill(organization, "alice")


@pytest.fixture(autouse=True)
def short_lived_probe(monkeypatch):
    # The storage probe runs every 5 s otherwise, seen by few requests.
    monkeypatch.setattr(services, "STORAGE_PROBE_SECONDS", 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("route", READS, ids=case_name)
def test_no_get_operation_fails_under_32_clients(route, base, organization, owner):
    statuses: Counter[int] = Counter()
    failures: list[str] = []
    deadline = time.monotonic() + READ_SECONDS

    async def read_until_deadline() -> None:
        headers = {"Authorization": f"Bearer {organization.api_key}"}
        # The server closes connections that are idle for 5 s.
        limits = httpx.Limits(max_connections=CLIENTS, keepalive_expiry=1)
        async with httpx.AsyncClient(base_url=base, headers=headers, limits=limits, timeout=60) as client:
            # `send` returns what the client does, here an awaitable response.
            world: Any = World(cast("Any", client), owner.tenant, owner.own)
            while time.monotonic() < deadline:
                # At the same moment, so that several requests meet a cache when it is replaced.
                for response in await asyncio.gather(*(world.send(route) for _ in range(CLIENTS))):
                    statuses[response.status_code] += 1
                    # 503 names a dependency that this service runs without, such as Prefect.
                    if response.status_code > 499 and response.status_code != 503:
                        failures.append(f"{response.status_code} {response.text[:300]}")
                await client.post("/v1/ingest/text", json=text)

    config = {"text": "A text arrives."}
    text = {"namespaceId": owner.own["namespace"], "ingestConfig": {"source": "TEXT", "config": config}}
    asyncio.run(read_until_deadline())
    assert not failures, (statuses, failures[:5])
    assert statuses[200] or route.path in WITHOUT_SUCCESS, f"the test sends wrong parameters: {statuses}"
