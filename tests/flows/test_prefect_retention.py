"""The bundled Prefect's database does not grow with old flow runs."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace

import httpx
import psycopg
import pytest

from local import environment, postgres
from local.environment import ResolvedAddresses
from retrieval.settings import Settings
from tests.flows.conftest import PROJECT, free_port, wait_until_healthy

pytestmark = pytest.mark.slow
ROUNDS, RUNS = 4, 150


@pytest.fixture
def server(postgres_home, tmp_path, monkeypatch):
    """Server as of `retrieval up` with a vacuum each second; its API and database."""
    monkeypatch.setenv("PREFECT_SERVER_SERVICES_DB_VACUUM_LOOP_SECONDS", "1")
    admin, name, port = postgres.url(postgres_home), "retention", free_port()
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"create database {name}")
    url = admin.replace("/retrieval?", f"/{name}?")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create extension pg_trgm")
    settings = Settings(home=tmp_path)
    variables = environment.build_prefect(
        settings, ResolvedAddresses("", "", f"http://127.0.0.1:{port}/api", "retrieval:word"), [], url
    )
    variables["PREFECT_SERVER_UI_ENABLED"] = "false"
    command = [sys.executable, "-m", "flows.prefect_server", "--host", "127.0.0.1", "--port", str(port)]
    log = tmp_path / "server.log"
    with log.open("wb") as output:
        running = subprocess.Popen(command, env=variables, cwd=PROJECT, stdout=output, stderr=output)
    api = f"http://127.0.0.1:{port}/api"
    try:
        wait_until_healthy(api, running, log)
        yield SimpleNamespace(api=api, database=url)
    finally:
        running.terminate()
        running.wait(20)
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(f"drop database {name} with (force)")


def test_old_flow_runs_go_and_the_size_is_flat(server):
    sizes = []
    with (
        httpx.Client(base_url=server.api, auth=("retrieval", "word"), trust_env=False, timeout=60) as client,
        psycopg.connect(server.database, autocommit=True) as connection,
    ):
        flow = client.post("/flows/", json={"name": "kept"}).json()["id"]
        for _ in range(ROUNDS):
            for _ in range(RUNS):
                client.post("/flow_runs/", json={"flow_id": flow, "state": {"type": "COMPLETED"}}).raise_for_status()
            connection.execute("update flow_run set end_time = now() - interval '15 days'")
            young = client.post("/flow_runs/", json={"flow_id": flow, "state": {"type": "COMPLETED"}}).json()["id"]
            deadline = time.monotonic() + 90
            while connection.execute("select count(*) from flow_run").fetchone() != (1,):
                assert time.monotonic() < deadline
                time.sleep(0.5)
            assert connection.execute("select id::text from flow_run").fetchone() == (young,)
            connection.execute("vacuum")  # as autovacuum does
            rows = connection.execute(
                "select pg_total_relation_size('flow_run') + pg_total_relation_size('flow_run_state')"
            )
            sizes.append(rows.fetchone()[0])
    assert sizes[-1] <= 1.2 * max(sizes[:2])
