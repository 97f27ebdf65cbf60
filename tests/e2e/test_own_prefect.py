"""The service on a stock Prefect server with a login."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import Service

OWN_LOGIN = "retrieval:a-login-of-the-operators-own"


@pytest.fixture
def own_prefect(tmp_path):
    """API address of a stock Prefect server with a login."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [Path(sys.executable).with_name("prefect"), "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    server_environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("RETRIEVAL_", "PREFECT_"))
    }
    server_environment |= {
        "PREFECT_HOME": str(tmp_path),
        "PREFECT_SERVER_API_AUTH_STRING": OWN_LOGIN,
        "DO_NOT_TRACK": "1",
    }
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--analytics-off"], env=server_environment, cwd=tmp_path, stdout=log, stderr=log
        )
    url = f"http://127.0.0.1:{port}/api"
    deadline = time.monotonic() + 240
    while True:
        try:
            httpx.get(f"{url}/health").raise_for_status()
            break
        except httpx.HTTPError:
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.3)
    yield url
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait(5)


@pytest.mark.slow
def test_an_own_prefect_server_with_a_login_and_what_is_said_where_it_is_wrong(own_prefect):
    service = Service(Path(tempfile.mkdtemp(prefix="rt-")), prefect_api_url=own_prefect)
    try:
        service.environment["PREFECT_API_AUTH_STRING"] = "retrieval:wrong"
        refused = service.run("up", "--detach", timeout=300)
        assert refused.returncode == 1
        assert f"Prefect at {own_prefect} refuses the login (401): set PREFECT_API_AUTH_STRING" in refused.stderr
        assert "Traceback" not in refused.stderr
        service.environment["PREFECT_API_AUTH_STRING"] = OWN_LOGIN
        service.up()
        assert (service.info["prefect"], service.info["prefectLogin"]) == (own_prefect.removesuffix("/api"), None)
        run = service.text("Basalt columns are hexagonal.", name="basalt")["ingestJobRunId"]
        service.wait(run)
        assert service.search("hexagonal columns")[0]["document"]["name"] == "basalt"
        response = httpx.post(
            f"{own_prefect}/flow_runs/filter",
            json={"flow_runs": {"tags": {"all_": [run]}}},
            auth=tuple(OWN_LOGIN.split(":")),
        )
        assert [flow_run["name"] for flow_run in response.json()] == ["basalt"]
        assert not (service.home / "prefect.login").exists()
    finally:
        service.client.close()
        service.run("down")
        shutil.rmtree(service.home, ignore_errors=True)
