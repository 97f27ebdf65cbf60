"""Prefect events of job runs and connections, usable in automations."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx
import pytest
import yaml
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

from flows.dispatch.background_loop import LoopThread
from flows.dispatch.batches import emit_events
from retrieval.database.database import Database
from retrieval.webhooks import queries_feed, sending
from tests.flows.configured import Configured

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples" / "prefect-automations").glob("*.yaml"))


@pytest.fixture
def space(fresh_database, tmp_path, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_FILES_DIRECTORY", str(tmp_path))
    db = Database(str(fresh_database("prefect_events")))
    yield Configured(db)
    db.close()


def read_events(url, about):
    """Prefect's events of a resource, oldest first."""
    event_filter = {"filter": {"any_resource": {"id": [about]}}, "limit": 50}
    answer = httpx.post(f"{url}/events/filter", json=event_filter, timeout=10, trust_env=False)
    assert answer.status_code == 200, answer.text
    return sorted(answer.json()["events"], key=lambda one: one["occurred"])


def test_prefect_is_told_of_a_job_run(space, prefect_server):
    space.text("told to nobody", "before")
    space.work()
    assert space.db.row("select count(*) as n from webhook_outbox")["n"] == 0
    queries_feed.switch_recording(space.db, on=True)
    run = space.text("The harbour seal dives.", "seals").job_run_id
    space.work()
    sending.publish_outbox(space.db)
    thread = LoopThread("events", space.db)
    assert asyncio.run(emit_events(thread)) == 3
    assert asyncio.run(emit_events(thread)) == 0
    thread.close()
    deadline = time.monotonic() + 30
    while len(events := read_events(prefect_server, f"retrieval.run.{run}")) < 3 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert [event["event"] for event in events] == [
        "retrieval.run.queued",
        "retrieval.run.processing",
        "retrieval.run.completed",
    ]
    labels = events[-1]["resource"]
    assert (labels["retrieval.outcome"], labels["retrieval.source"]) == ("SUCCEEDED", "TEXT")
    assert labels["retrieval.namespaceId"] == space.scope.namespace
    assert "seal" not in str(events)
    queries_feed.switch_recording(space.db, on=False)
    space.text("told to nobody", "after")
    assert space.db.row("select count(*) as n from webhook_outbox")["n"] == 0


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_examples_are_automations_that_wait_for_these_events(file):
    automation = AutomationCore.model_validate(yaml.safe_load(file.read_text()))
    assert isinstance(automation.trigger, EventTrigger)
    names = automation.trigger.expect | automation.trigger.after
    assert names <= {f"retrieval.run.{status}" for status in ("queued", "pre-processing", "processing", "completed")}
    assert (automation.trigger.posture is Posture.Proactive) == bool(automation.trigger.after)
