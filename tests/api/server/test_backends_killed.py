"""Processes of PostgreSQL are killed behind its Unix socket while clients write and read: the API never hangs."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psycopg
import pytest

from local import postgres, processes
from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations
from retrieval.database import revisions
from retrieval.database.database import Database
from tests.api.process import running
from tests.api.support import EMBEDDED, client_of

pytestmark = pytest.mark.service

ENDS_SECONDS = 20.0
"""In which every request has an answer, whatever dies."""
BACK_SECONDS = 20.0
"""In which the API accepts texts again once PostgreSQL runs."""
BACKENDS = (
    "select pid from pg_stat_activity where application_name = 'retrieval api'"
    " order by state_change desc limit %(most)s"
)


@pytest.fixture
def home():
    made = Path(tempfile.mkdtemp(prefix="rk-"))
    yield made
    postgres.stop(made)
    shutil.rmtree(made, ignore_errors=True)


class Clients:
    """Threads that write texts and read namespaces; `answers` by status and `slowest` of them in seconds."""

    def __init__(self, base: str, api_key: str, namespace: str) -> None:
        self._base, self._api_key, self._namespace = base, api_key, namespace
        self.answers: Counter[int] = Counter()
        self.acknowledged: list[str] = []
        self.unanswered: list[str] = []
        self.slowest = 0.0
        self._lock = threading.Lock()

    @contextmanager
    def at_work(self):
        ending = threading.Event()
        threads = [threading.Thread(target=self._work, args=(ending, number)) for number in range(6)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ending.set()
            for thread in threads:
                thread.join(ENDS_SECONDS + 10)

    def _work(self, ending: threading.Event, number: int) -> None:
        body = {"namespaceId": self._namespace, "ingestConfig": {"source": "TEXT", "config": {"text": "A text."}}}
        with client_of(self._base, self._api_key) as client:
            while not ending.is_set():
                began = time.monotonic()
                try:
                    if number % 3:
                        answer = client.post("/v1/ingest/text", json=body, timeout=ENDS_SECONDS)
                    else:
                        answer = client.get("/v1/namespaces", timeout=ENDS_SECONDS)
                except httpx.HTTPError as error:
                    with self._lock:
                        self.unanswered.append(repr(error))
                    continue
                with self._lock:
                    self.answers[answer.status_code] += 1
                    self.slowest = max(self.slowest, time.monotonic() - began)
                    if number % 3 and answer.status_code == 200:
                        self.acknowledged.append(answer.json()["data"]["ingestJobRunId"])


def kill_backends(url: str, most: int) -> int:
    """Kill so many of the API's backends that were at work last; PostgreSQL recovers by itself then."""
    killed = 0
    with suppress(psycopg.OperationalError), psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        for (pid,) in connection.execute(BACKENDS, {"most": most}).fetchall():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
    return killed


def kill_server(home: Path) -> None:
    """Kill PostgreSQL, all of its processes at once, and start it again."""
    for process in processes.list_working_in((home / "postgres").resolve(), "postgres"):
        process.signal(signal.SIGKILL)
    postgres.start(home)


def until_accepted(client: httpx.Client, namespace: str) -> None:
    body = {"namespaceId": namespace, "ingestConfig": {"source": "TEXT", "config": {"text": "A text."}}}
    deadline = time.monotonic() + BACK_SECONDS
    while client.post("/v1/ingest/text", json=body).status_code != 200:
        assert time.monotonic() < deadline, f"no text is accepted {BACK_SECONDS} s after PostgreSQL is back"
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_every_request_ends_and_writes_go_on_after_kills_of_backends_and_of_postgres(home, ring, tmp_path):
    url = postgres.start(home)
    revisions.upgrade_schema(url)
    db = Database(url)
    owner = organizations.create(db, "killed", requests_per_minute=1_000_000)
    api_key = api_keys.create(db, ring, owner.id, "killed").api_key
    db.close()
    with running(tmp_path, url, ring) as (base, process, log), client_of(base, api_key) as client:
        made = client.post("/v1/namespaces", json={"name": "space", **EMBEDDED})
        namespace = made.json()["data"]["namespace"]["id"]
        clients = Clients(base, api_key, namespace)
        with clients.at_work():
            for most in (1, 3, 1):
                time.sleep(0.5)
                assert kill_backends(url, most)
                until_accepted(client, namespace)
            for pause in (0.5, 0.0):
                time.sleep(pause)
                kill_server(home)
            until_accepted(client, namespace)
            time.sleep(0.5)
        assert not clients.unanswered, clients.unanswered[:5]
        assert set(clients.answers) <= {200, 503}, clients.answers
        assert clients.answers[200] > 50
        assert clients.slowest < ENDS_SECONDS
        with psycopg.connect(url) as connection:
            (kept,) = connection.execute(
                "select count(*) from job_runs where id = any(%(ids)s)", {"ids": clients.acknowledged}
            ).fetchone()
        assert kept == len(clients.acknowledged), "an acknowledged job run is gone"
        until_accepted(client, namespace)
        assert httpx.get(f"{base}/ready?for=requests", trust_env=False).status_code == 200
        assert process.poll() is None
        assert "Traceback" not in log.read_text(), log.read_text()[-3000:]
