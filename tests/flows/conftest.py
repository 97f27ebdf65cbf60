"""One Prefect server per session, with its database in the session's PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from connectors.web.builtin import client
from local import postgres
from local.environment import prefect_database
from retrieval import settings
from tests.connectors.web.test_web_client import serving
from tests.flows.crawls.site import Site, forget_settings
from tests.library import clear_queue
from tests.standins import slow_site as slow_sites

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFECT = str(Path(sys.executable).with_name("prefect"))
PROJECT = Path(__file__).resolve().parents[2]
START_SECONDS = 180


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def prefect_environment(home: Path, port: int) -> dict[str, str]:
    """Environment of server, workers and clients, isolated from the user's Prefect."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return mine | {
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_ENABLED": "false",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_WORKER_QUERY_SECONDS": "0.5",
        "DO_NOT_TRACK": "1",
    }


def wait_until_healthy(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for the server; fail with its log."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            pytest.fail(f"The Prefect server ended with {server.returncode}:\n{log.read_text()[-3000:]}")
        try:
            with urlopen(f"{url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (URLError, OSError):
            time.sleep(0.2)
    pytest.fail(f"The Prefect server did not answer within {START_SECONDS} s:\n{log.read_text()[-3000:]}")


@pytest.fixture(scope="session")
def prefect_server_environment(
    tmp_path_factory: pytest.TempPathFactory, postgres_home: Path
) -> Iterator[dict[str, str]]:
    """Environment of processes with access to the session's server."""
    home = tmp_path_factory.mktemp("prefect")
    port = free_port()
    environment = prefect_environment(home, port)
    log = home / "server.log"
    command = [sys.executable, "-m", "flows.prefect_server", "--host", "127.0.0.1", "--port", str(port)]
    server_environment = environment | prefect_database(postgres.prefect_url(postgres_home))
    with log.open("wb") as output:
        server = subprocess.Popen(command, env=server_environment, cwd=PROJECT, stdout=output, stderr=output)
    try:
        wait_until_healthy(environment["PREFECT_API_URL"], server, log)
        yield environment
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(5)


@pytest.fixture(scope="session")
def prefect_server(prefect_server_environment: dict[str, str]) -> Iterator[str]:
    """API address of the session's server, set in this process too."""
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

    url = prefect_server_environment["PREFECT_API_URL"]
    home = Path(prefect_server_environment["PREFECT_HOME"])
    with temporary_settings({PREFECT_API_URL: url, PREFECT_HOME: home}):
        yield url


@pytest.fixture(scope="session")
def registered_deployments(prefect_server: str) -> None:
    """Register the service's deployments once; later registrations move them to other pools."""
    from flows.register import register_deployments

    assert prefect_server
    asyncio.run(register_deployments())


@pytest.fixture(autouse=True)
def usual_limits(monkeypatch):
    """The tests of the API make the limits small for as long as their process lives."""
    for name in [name for name in os.environ if name.startswith("RETRIEVAL_MAX_")]:
        monkeypatch.delenv(name)
    settings.load_settings.cache_clear()
    yield
    settings.load_settings.cache_clear()


@pytest.fixture(autouse=True)
def nothing_else_waits(request):
    """Start with an empty queue."""
    if "db" in request.fixturenames:
        clear_queue(request.getfixturevalue("db"))


@pytest.fixture
def allowed(monkeypatch):
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.1/32")
    monkeypatch.setenv("RETRIEVAL_FETCH_HOST_DELAY", "0")
    monkeypatch.setattr(client.random, "uniform", lambda *_: 0.0)
    forget_settings()
    yield
    forget_settings()


@pytest.fixture
def site(allowed):
    site = Site()
    with serving(site.play) as server:
        site.url = server.url
        yield site


@pytest.fixture
def slow_site():
    """A website of 240 slow pages."""
    with slow_sites.serving() as site:
        yield site
