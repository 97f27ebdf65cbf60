"""Rolling restart of two APIs behind HAProxy without lost requests."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from contextlib import ExitStack

import httpx
import pytest

from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations
from tests.api.process import PROJECT, free_port, running

HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
REQUESTS, CLIENTS = 10_000, 8
FRONT = """
defaults
    mode http
    timeout connect 2s
    timeout client 30s
    timeout server 30s
frontend clients
    bind 127.0.0.1:{port}
    default_backend retrieval
"""


def configuration(front: int, first: int, second: int) -> str:
    """Return the documented HAProxy block with the ports of this test."""
    documentation = (PROJECT / "docs" / "operations" / "monitoring.md").read_text()
    (block,) = re.findall(r"```haproxy\n(.*?)```", documentation, re.DOTALL)
    return FRONT.format(port=front) + block.replace(":8001", f":{first}").replace(":8002", f":{second}")


@pytest.mark.slow
@pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed; continuous integration installs it")
def test_a_rolling_restart_loses_no_request(api_database, api_db, ring, tmp_path) -> None:
    owner = organizations.create_organization(api_db, "rolling", requests_per_minute=1_000_000)
    key = api_keys.create_key(api_db, ring, owner.id, "rolling").api_key
    front, ports = free_port(), (free_port(), free_port())
    (tmp_path / "haproxy.cfg").write_text(configuration(front, *ports))
    with ExitStack() as first, ExitStack() as second, ExitStack() as proxy:
        olds = [first.enter_context(api(tmp_path, api_database, ring, port)) for port in ports]
        proxied = subprocess.Popen([HAPROXY, "-db", "-f", tmp_path / "haproxy.cfg"])
        proxy.callback(proxied.wait, 10)
        proxy.callback(proxied.terminate)
        time.sleep(2.5)
        statuses: Counter[str] = Counter()
        done = threading.Event()
        clients = [threading.Thread(target=ask, args=(front, key, statuses, done)) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        for port, (_, process, _) in zip(ports, olds, strict=True):
            time.sleep(2)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            second.enter_context(api(tmp_path, api_database, ring, port))
            time.sleep(2.5)
        while sum(statuses.values()) < REQUESTS and any(client.is_alive() for client in clients):
            time.sleep(0.1)
        done.set()
        for client in clients:
            client.join(60)
        assert sum(statuses.values()) >= REQUESTS
        assert set(statuses) == {"200"}, statuses


def api(home, database, ring, port: int):
    return running(home, database, ring, port)


def ask(front: int, key: str, statuses: Counter[str], done: threading.Event) -> None:
    """Send requests on kept connections."""
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{front}", headers=headers, trust_env=False, timeout=30) as client:
        while not done.is_set():
            try:
                statuses[str(client.get("/v1/namespaces").status_code)] += 1
            except httpx.HTTPError as error:
                statuses[type(error).__name__] += 1
