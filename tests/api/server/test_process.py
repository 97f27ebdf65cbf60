"""`python -m api`: server header, memory, start and end."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import httpx
import pytest

from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations
from tests.api.process import running
from tests.api.support import Organization, client_of

# With the templates of described services.
MOST_MEGABYTES = 145


def megabytes(pid: int) -> float:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(descendant for child in children for descendant in family(int(child)))]


@pytest.fixture
def process(api_database, ring, tmp_path):
    """Yield the address of a running `python -m api`, the process and the log."""
    with running(tmp_path, api_database, ring) as started:
        yield started


@pytest.fixture
def at_process(process, api_db, ring):
    owner = organizations.create_organization(api_db, "process")
    key = api_keys.create_key(api_db, ring, owner.id, "process")
    with client_of(process[0], key.api_key) as client:
        yield Organization(owner.id, client, key.api_key, api_db, ring, process[0])


def test_the_process_serves_requests_logs_no_secret_and_ends(process, at_process, tmp_path):
    _, started, log = process
    canary = "canary-api-key-5555"
    space = at_process.namespace(webScraperConfig={"provider": "FIRECRAWL", "apiKey": canary})
    at_process.text(space, "canary-text-6666")
    content = os.urandom(9_000_000)
    answer = at_process.client.post("/v1/ingest/file", data={"namespaceId": space}, files={"file": ("a.bin", content)})
    assert answer.status_code == 200, answer.text
    assert at_process.client.get("/v1/nothing", headers={"X-Request-Id": "my-own-id"}).status_code == 404
    server = max(family(started.pid), key=megabytes)
    assert megabytes(server) <= MOST_MEGABYTES + 10
    started.send_signal(signal.SIGTERM)
    assert started.wait(60) == 0
    log_text = log.read_text()
    assert "my-own-id" in log_text
    for secret in (canary, "canary-text-6666", at_process.api_key):
        assert secret not in log_text


def test_a_killed_server_leaves_no_process_and_frees_the_port(api_database, ring, tmp_path):
    with running(tmp_path, api_database, ring, RETRIEVAL_API_PROCESSES="2") as process:
        _killed(*process)


def _killed(address, started, _):
    members = family(started.pid)
    assert len(members) > 2
    assert {httpx.get(f"{address}/health", trust_env=False).status_code for _ in range(20)} == {200}
    started.kill()
    started.wait(60)
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() and "Z" not in state(pid) for pid in members):
        assert time.monotonic() < deadline, "a server process outlived its starter"
        time.sleep(0.1)
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{address}/health", trust_env=False)


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_orderly(number, processes, api_database, ring, tmp_path):
    with running(tmp_path, api_database, ring, RETRIEVAL_API_PROCESSES=processes) as (_, started, log):
        started.send_signal(number)
        assert started.wait(60) == 0
        assert "Traceback" not in log.read_text(), log.read_text()


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"
