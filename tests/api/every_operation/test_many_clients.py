"""Every GET operation under many clients, for longer than any cache of the API lives."""

import itertools
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.api.every_operation.test_isolation import ROUTES, Worlds, case_name
from tests.api.support import client_of

READS = [route for route in ROUTES if route.method == "GET"]
CLIENTS = 32
SECONDS = 30


@pytest.mark.slow
def test_no_get_operation_fails_under_32_clients(base, api_db, ring):
    worlds = Worlds(base, api_db, ring)
    organization = worlds.organization()
    owner = worlds.fill(organization, "alice")
    counts: Counter[tuple[str, int]] = Counter()
    failures: list[str] = []
    lock = threading.Lock()
    deadline = time.monotonic() + SECONDS

    def read_everything(number: int) -> None:
        with client_of(base, organization.api_key) as client:
            world = type(owner)(client, owner.tenant, owner.own)
            for route in itertools.islice(itertools.cycle(READS), number, 1_000_000):
                if time.monotonic() > deadline:
                    return
                response = world.send(route)
                with lock:
                    counts[case_name(route), response.status_code] += 1
                    # 503 names a dependency that this test does not run, such as Prefect.
                    if response.status_code > 499 and response.status_code != 503:
                        failures.append(f"{case_name(route)}: {response.status_code} {response.text[:300]}")

    try:
        with ThreadPoolExecutor(CLIENTS) as threads:
            for call in [threads.submit(read_everything, number) for number in range(CLIENTS)]:
                call.result()
    finally:
        worlds.close()
    assert not failures, failures[:5]
    answered = {name for (name, status) in counts if status < 400}
    # The documents of a world are texts, which have no pages to draw.
    unanswered = {case_name(route) for route in READS} - answered - {"GET /v1/documents/{document_id}/pages/{page}"}
    assert not unanswered, f"no client got an answer of {unanswered}: the test sends wrong parameters"
