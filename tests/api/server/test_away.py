"""While the database is away every answer says so, and the API recovers by itself."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import httpx
import pytest
from psycopg.conninfo import conninfo_to_dict

from local import postgres
from retrieval.accounts import bootstrap
from retrieval.database import database
from retrieval.database.database import Database
from tests.api.support import assert_error, serve

RATE = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")


@pytest.fixture
def cluster():
    """A PostgreSQL that may be stopped."""
    home = Path(tempfile.mkdtemp(prefix="ra-"))
    try:
        yield home
    finally:
        postgres.stop(home)
        shutil.rmtree(home, ignore_errors=True)


def answered(client, path):
    started = time.monotonic()
    return client.get(path), time.monotonic() - started


@pytest.mark.decision("D05")
@pytest.mark.decision("D58")
def test_the_database_goes_and_comes_back(cluster, api_settings, ring):
    url = postgres.start(cluster)
    database.migrate(url)
    db = Database(url)
    made = bootstrap.ensure(db, ring)
    db.close()
    with serve(api_settings, url, ring) as base:
        headers = {"Authorization": f"Bearer {made.api_key}"}
        with httpx.Client(base_url=base, headers=headers, timeout=30, trust_env=False, verify=False) as client:
            before = client.get("/v1/namespaces")
            assert before.status_code == 200
            assert client.get("/ready").json() == {"status": "ready", "reason": None}
            postgres.stop(cluster)
            for _ in range(3):
                answer, seconds = answered(client, "/v1/namespaces")
                assert_error(answer, 503, "SERVICE_UNAVAILABLE")
                assert int(answer.headers["retry-after"]) >= 1
                assert all(name in answer.headers for name in RATE)
                assert answer.headers["x-ratelimit-limit"] == before.headers["x-ratelimit-limit"]
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


def test_a_database_that_only_reads_is_away(cluster, api_settings, ring):
    """So is a standby that connections lead to until it is promoted."""
    url = postgres.start(cluster)
    database.migrate(url)
    db = Database(url)
    made = bootstrap.ensure(db, ring)
    name = conninfo_to_dict(url)["dbname"]
    with serve(api_settings, url, ring) as base:
        headers = {"Authorization": f"Bearer {made.api_key}"}
        with httpx.Client(base_url=base, headers=headers, timeout=30, trust_env=False, verify=False) as client:
            assert client.get("/v1/namespaces").status_code == 200
            db.rows(f"alter database {name} set default_transaction_read_only = on")
            db.rows("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")
            answer, _ = answered(client, "/v1/namespaces")
            assert_error(answer, 503, "SERVICE_UNAVAILABLE")
            db.rows(f"alter database {name} reset default_transaction_read_only")
            db.rows("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")
            back = time.monotonic()
            while client.get("/v1/namespaces").status_code != 200:
                assert time.monotonic() - back < 5
                time.sleep(0.1)
    db.close()


def test_it_starts_while_the_database_is_away(cluster, api_settings, ring):
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
        database.migrate(url)
        assert client.get(f"{base}/ready").json() == {"status": "ready", "reason": None}
