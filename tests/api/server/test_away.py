"""Answers during an outage of the database, and recovery of the API."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from local import postgres
from retrieval.accounts import api_keys, bootstrap
from retrieval.accounts.queries import organizations
from retrieval.database import disk_full, revisions
from retrieval.database.database import Database
from tests.api.support import EMBEDDED, assert_error, client_of, serve

pytestmark = pytest.mark.service

RATE = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")


@pytest.fixture
def cluster():
    """PostgreSQL for stopping."""
    home = Path(tempfile.mkdtemp(prefix="ra-"))
    try:
        yield home
    finally:
        postgres.stop(home)
        shutil.rmtree(home, ignore_errors=True)


def answered(client, path):
    started = time.monotonic()
    return client.get(path), time.monotonic() - started


def test_the_api_recovers_after_a_database_outage(cluster, api_settings, ring):
    url = postgres.start(cluster)
    revisions.upgrade_schema(url)
    db = Database(url)
    installation = bootstrap.ensure_installation(db, ring, api_settings)
    db.close()
    with serve(api_settings, url, ring) as base:
        headers = {"Authorization": f"Bearer {installation.api_key}"}
        with httpx.Client(base_url=base, headers=headers, timeout=30, trust_env=False, verify=False) as client:
            first_answer = client.get("/v1/namespaces")
            assert first_answer.status_code == 200
            assert client.get("/ready").json() == {"status": "ready", "reason": None}
            postgres.stop(cluster)
            for _ in range(3):
                answer, seconds = answered(client, "/v1/namespaces")
                assert_error(answer, 503, "SERVICE_UNAVAILABLE")
                assert int(answer.headers["retry-after"]) >= 1
                assert all(name in answer.headers for name in RATE)
                assert answer.headers["x-ratelimit-limit"] == first_answer.headers["x-ratelimit-limit"]
                assert seconds < 8
            assert client.get("/health").status_code == 200
            ready, seconds = answered(client, "/ready")
            assert (ready.status_code, ready.json()["status"]) == (503, "unavailable")
            assert seconds < 4
            postgres.start(cluster)
            back = time.monotonic()
            while client.get("/v1/namespaces").status_code != 200:
                assert time.monotonic() - back < 5, "not back within 5 s of the database's return"
                time.sleep(0.1)
            assert [client.get("/v1/namespaces").status_code for _ in range(20)] == [200] * 20


@pytest.fixture
def reads_only():
    """Return functions for switching PostgreSQL to read-only and back."""

    def set_to(url, *, on):
        name = conninfo_to_dict(url)["dbname"]
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("set default_transaction_read_only = off")
            setting = "set default_transaction_read_only = on" if on else "reset default_transaction_read_only"
            connection.execute(f"alter database {name} {setting}")
            connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")

    return set_to


@pytest.mark.slow
def test_searches_and_reads_go_on_while_the_database_takes_no_writes(cluster, api_settings, ring, reads_only):
    # As a standby before promotion; the process counts requests up to the limit.
    url = postgres.start(cluster)
    revisions.upgrade_schema(url)
    db = Database(url)
    owner = organizations.create_organization(db, "reader", requests_per_minute=60)
    api_key = api_keys.create_key(db, ring, owner.id, "reader").api_key
    with serve(api_settings, url, ring) as base, client_of(base, api_key) as client:
        space = client.post("/v1/namespaces", json={"name": "space", **EMBEDDED}).json()["data"]["namespace"]["id"]
        words = {"namespaceId": space, "query": "anything"}
        text = {"source": "TEXT", "config": {"text": "Seals dive."}}
        receipt = client.post("/v1/ingest/text", json={"namespaceId": space, "ingestConfig": text}).json()["data"]
        run = f"/v1/ingest-job-runs/{receipt['ingestJobRunId']}?namespaceId={space}"
        assert client.get(run).json()["data"]["notices"] == []
        reads_only(url, on=True)
        until(lambda: client.get("/v1/namespaces").status_code == 200)
        assert client.get(f"/v1/namespaces/{space}").status_code == 200
        for weights in ({"semanticWeight": 0, "keywordWeight": 1}, {"semanticWeight": 0.5, "keywordWeight": 0.5}):
            assert client.post("/v1/search/hybrid", json={**words, "hybridConfig": weights}).status_code == 200
        assert client.post("/v1/search", json=words).status_code == 200
        waiting = {"reason": disk_full.READ_ONLY_MESSAGE, "count": 0}
        until(lambda: client.get(run).json()["data"]["notices"] == [waiting])
        queue = client.get("/v1/queue").json()["data"]
        assert queue["stalled"]
        assert disk_full.READ_ONLY_MESSAGE in queue["reasons"]
        refused = assert_error(
            client.patch(f"/v1/namespaces/{space}", json={"name": "new"}), 503, "SERVICE_UNAVAILABLE"
        )
        assert refused["error"]["details"]["reason"] == "read_only"
        assert client.get("/ready", params={"for": "requests"}).status_code == 200
        ready = client.get("/ready")
        assert (ready.status_code, ready.json()["reason"]) == (503, disk_full.READ_ONLY_MESSAGE)
        answers = [client.get("/v1/namespaces") for _ in range(70)]
        assert 429 in {answer.status_code for answer in answers}
        assert int(answers[0].headers["x-ratelimit-remaining"]) < 60
        reads_only(url, on=False)
        db.rows("update organizations set requests_per_minute = 6000")
        until(lambda: client.patch(f"/v1/namespaces/{space}", json={"name": "new"}).status_code == 200)
        until(lambda: client.get("/ready").status_code == 200)
        until(lambda: client.get(run).json()["data"]["notices"] == [])
    db.close()


def until(holds, seconds=15.0):
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_the_api_starts_during_a_database_outage(cluster, api_settings, ring):
    url = postgres.start(cluster)
    postgres.stop(cluster)
    with serve(api_settings, url, ring) as base, httpx.Client(trust_env=False, verify=False, timeout=30) as client:
        assert client.get(f"{base}/health").status_code == 200
        assert client.get(f"{base}/ready").status_code == 503
        postgres.start(cluster)
        back = time.monotonic()
        while (ready := client.get(f"{base}/ready")).json()["reason"] != "The database is not migrated yet.":
            assert ready.status_code == 503
            assert time.monotonic() - back < 5
            time.sleep(0.1)
        revisions.upgrade_schema(url)
        assert client.get(f"{base}/ready").json() == {"status": "ready", "reason": None}
