"""Repeated kills of worker, sender and endpoint lose no event.

RETRIEVAL_KILLED_DOCUMENTS=5000 RETRIEVAL_KILLS=50 pytest -n0 -s -m slow tests/flows/webhooks/test_webhooks_killed.py
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter, defaultdict

import pytest

from retrieval import settings
from retrieval.database.database import Database
from retrieval.job_config import Ingestion
from retrieval.jobs import runs
from retrieval.webhooks import endpoints, sending
from retrieval.webhooks.endpoints import WebhookScope
from tests.flows.configured import Configured
from tests.flows.webhooks.test_webhooks import INGESTED

DOCUMENTS = int(os.environ.get("RETRIEVAL_KILLED_DOCUMENTS", "40"))
KILLS = int(os.environ.get("RETRIEVAL_KILLS", "6"))
SEED = int(os.environ.get("RETRIEVAL_KILLS_SEED", "1"))
ROLES = ("worker", "sender", "receiver")
# Documents per deletion, nine times.
DELETED = max(1, DOCUMENTS // 100)
# Event filters by path; one webhook is deleted during the test.
HOOKS = {"kept": ["*"], "left": ["DOCUMENTS_READY", "INGEST_JOB_RUN_COMPLETED"]}
LONGEST = 60 + DOCUMENTS / 5 + KILLS * 20
AT_ONCE = (
    "update webhook_deliveries set next_attempt_at = now()"
    " where status = 'PENDING' and next_attempt_at > now() + make_interval(secs => %(lease)s)"
)
SAID_EACH = 5
"""Seconds."""


class Roles:
    """One process per role; `kill` replaces it at once."""

    def __init__(self, environment, log):
        self.log = log
        self.environment = {**os.environ, **environment}
        self.running = {}

    def start(self, role):
        command = [sys.executable, "-m", "tests.flows.webhooks.killed_children", role]
        self.running[role] = subprocess.Popen(
            command,
            env=self.environment,
            cwd=settings.PROJECT_ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def is_ready(self, role):
        return self.log.with_name(f"ready-{self.running[role].pid}").exists()

    def kill(self, role):
        self.running[role].kill()
        self.running[role].wait()
        self.start(role)

    def close(self):
        for process in self.running.values():
            process.kill()
            process.wait()


@pytest.fixture
def space(fresh_database, tmp_path, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_FILES_DIRECTORY", str(tmp_path / "files"))
    settings.load_settings.cache_clear()
    db = Database(fresh_database("webhooks_killed"))
    yield Configured(db)
    db.close()
    settings.load_settings.cache_clear()


@pytest.fixture
def roles(space, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address, log = f"http://127.0.0.1:{port}", tmp_path / "taken.jsonl"
    secrets = {path: hooked(space, f"{address}/{path}", events)[1] for path, events in HOOKS.items()}
    keys = ",".join(f"{name}:{base64.b64encode(key).decode()}" for name, key in space.ring.keys.items())
    running_roles = Roles(
        {
            "KILLED_DATABASE": space.db.url,
            "KILLED_KEYS": keys,
            "KILLED_ORGANIZATION": space.scope.organization,
            "KILLED_NAMESPACE": space.scope.namespace,
            "KILLED_LOG": str(log),
            "KILLED_SECRETS": json.dumps(secrets),
            "KILLED_PORT": str(port),
        },
        log,
    )
    yield running_roles, log
    running_roles.close()


def hooked(space, url, events):
    """Create a webhook; return it with its secret."""
    reach = WebhookScope(space.scope.organization)
    return space.call(endpoints.create_webhook(space.db, space.ring, reach, url=url, events=events, description=None))


def accept(space, number):
    async def send_text(name):
        await runs.accept_text(space.db, space.scope, text=f"The text {name}.", name=name, ingestion=Ingestion())

    async def several():
        places = asyncio.Semaphore(4)

        async def within(name):
            async with places:
                await send_text(name)

        await asyncio.gather(*(within(f"n{number_sent}") for number_sent in range(number)))

    space.call(several())


def waits(space):
    """Number of unfinished documents and undelivered events."""
    row = space.db.row(
        "select (select count(*) from job_runs where finished_at is null) + (select count(*) from webhook_outbox)"
        " + (select count(*) from webhook_deliveries where status = 'PENDING') as n"
    )
    return row["n"]


def delete_webhook(space, path):
    """Delete the webhook; return the time of the response."""
    row = space.db.row("select id from webhooks where url like %(path)s", {"path": f"%/{path}"})
    space.call(endpoints.delete_webhook(space.db, WebhookScope(space.scope.organization), row["id"]))
    return time.time()


def delete_documents(space, number):
    """Delete some ready documents."""
    ready = space.db.rows(
        "select id from documents where status = 'SUCCESS' and deleted_at is null order by id limit %(number)s",
        {"number": number},
    )
    chosen = [row["id"] for row in ready]
    return chosen if chosen and space.delete(*chosen) else []


class Log:
    """Events of the endpoint, read as the log grows."""

    def __init__(self, path):
        self._path, self._place, self.told, self.of_paths = path, 0, [], Counter()

    def read(self):
        """Estimated share of received events."""
        if self._path.exists():
            with self._path.open() as lines:
                lines.seek(self._place)
                whole = [line for line in lines if line.endswith("\n")]
            self._place += sum(len(line.encode()) for line in whole)
            new = [json.loads(line) for line in whole]
            self.told += new
            self.of_paths.update(event["path"] for event in new)
        return self.of_paths["/kept"] / (len(INGESTED) * DOCUMENTS)


@pytest.mark.slow
@pytest.mark.timeout(LONGEST + 60)
def test_nothing_is_lost_and_all_is_told_once_by_its_id(space, roles):
    service_roles, log = roles[0], Log(roles[1])
    rng, began, reported_at, killed = random.Random(SEED), time.monotonic(), 0.0, Counter()
    deleted, gone_at = [], None
    accept(space, DOCUMENTS)
    for role in ROLES:
        service_roles.start(role)
    while (waiting := waits(space)) or killed.total() < KILLS or gone_at is None:
        part, took = log.read(), time.monotonic() - began
        assert took < LONGEST, f"{waiting} wait after {killed}"
        if took - reported_at > SAID_EACH:
            reported_at = took
            print(f"{took:4.0f} s: {part:4.0%} of the events, {waiting} wait, {killed.total()} killed", flush=True)  # noqa: T201
        # what failed while nobody listened is tried at once, and not after the pauses of a real hour
        space.db.rows(AT_ONCE, {"lease": sending.LEASE_SECONDS})
        time.sleep(rng.uniform(0.1, 1.0))
        role = ROLES[killed.total() % len(ROLES)]
        is_due = part >= killed.total() / (KILLS + 1) or not waiting
        if killed.total() < KILLS and is_due and service_roles.is_ready(role):
            service_roles.kill(role)
            killed[role] += 1
        if gone_at is None and log.of_paths["/left"] > DOCUMENTS / 2:
            gone_at = delete_webhook(space, "left")
        if part > 0.1 * (1 + len(deleted) / DELETED):
            deleted += delete_documents(space, DELETED)
    seconds = time.monotonic() - began
    log.read()
    once = of_events(log.told, "kept")
    assert sorted(event["sequence"] for event in once.values()) == list(range(1, len(once) + 1))
    of_runs, of_deleted = defaultdict(list), {event: [] for event in deleted}
    for event in sorted(once.values(), key=lambda event: event["sequence"]):
        if run := event.get("ingestJobRunId"):
            of_runs[run].append(event["type"])
        for document in event.get("documents", ()):
            of_deleted.get(document["id"], []).append(event["type"])
    assert len(of_runs) == DOCUMENTS
    for types in of_runs.values():
        assert set(types) == set(INGESTED)
        assert types[-1] == "INGEST_JOB_RUN_COMPLETED"
        assert types.count("INGEST_JOB_RUN_COMPLETED") == types.count("DOCUMENTS_READY") == 1
    assert deleted
    for types in of_deleted.values():
        assert types[-2:] == ["DOCUMENTS_QUEUED_FOR_DELETION", "DOCUMENTS_DELETED"], "nothing after a deletion"
        assert types.count("DOCUMENTS_DELETED") == 1
    waiting = of_events(log.told, "left")
    late = max((event["at"] for event in waiting.values()), default=gone_at) - gone_at
    assert waiting
    assert late < sending.REQUEST_TIMEOUT_SECONDS, "what was on its way, no more"
    print(  # noqa: T201
        f"\n{DOCUMENTS} documents, {len(deleted)} of them deleted, {dict(killed)} killed, seed {SEED}: {len(once)}"
        f" events in {seconds:.0f} s, none lost, {log.of_paths['/kept'] - len(once)} repeated"
        f" by the same id; the last to the webhook that was deleted came {max(late, 0):.2f} s after its deletion"
    )


def of_events(events, path):
    """Events of an endpoint by id; repeated ids have equal content."""
    once = {}
    for event in events:
        if event["path"] == f"/{path}":
            content = {name: value for name, value in event.items() if name != "at"}
            assert content == {
                name: value for name, value in once.setdefault(event["id"], event).items() if name != "at"
            }
    return once
