"""Content services with long Retry-After: the step waits within limits."""

from __future__ import annotations

import errno
import time

import pytest

from connectors import registry
from connectors.http.retries import ServicePolicy
from flows import long_waits, steps, tasks
from retrieval import settings
from retrieval.errors import Fatal
from retrieval.ingestion.queries import listings
from retrieval.jobs import control
from tests.flows.connected import ConnectedSpace, lead_to
from tests.standins import faults, memory


@pytest.fixture
def account(monkeypatch):
    monkeypatch.setitem(registry.CONNECTOR_FACTORIES, "BOX", "tests.standins.memory:make")
    monkeypatch.setattr(memory, "POLICY", ServicePolicy("Memory", per_minute=60_000, burst=100, seconds=0.2))
    monkeypatch.setattr(long_waits, "TASK_RETRY_SECONDS", 0.1)
    monkeypatch.setattr(long_waits, "CANCEL_CHECK_SECONDS", 0.05)
    with memory.serving("BOX") as opened:
        yield opened


@pytest.fixture
def space(db, account, monkeypatch):
    lead_to(monkeypatch, account)
    yield ConnectedSpace(db, account)
    settings.load_settings.cache_clear()


def listing(space):
    """The listing step and its lease."""
    lease = space.lease()
    (pending_listing,) = listings.pending_listings(space.db, lease)
    return lease, lambda: steps.discover(steps.Discovery(space.db, space.ring, lease, pending_listing))


def test_a_long_wait_is_sat_out_and_nothing_fails(space, account):
    account.put("one.txt", "x")
    answers = [faults.status(429, Retry_After="2")]
    account.fault = lambda _request: answers.pop() if answers else None
    space.request()
    lease, step = listing(space)
    began = time.monotonic()
    space.call(tasks.wait_and_repeat(space.db, lease, step))
    assert 1.5 < time.monotonic() - began < 15
    assert listings.pending_listings(space.db, lease) == []


def test_nobody_waits_for_a_run_that_was_cancelled(space, account):
    account.fault = lambda _request: faults.status(429, Retry_After="300")
    job_run = space.request()
    lease, step = listing(space)

    def cancelled_then(number=[]):  # noqa: B006 - counts its calls
        number.append(1)
        if len(number) == 1:
            control.cancel_run(space.db, space.scope, job_run)
            step()
        raise Fatal("asked again")

    began = time.monotonic()
    with pytest.raises(Fatal, match="asked again"):
        space.call(tasks.wait_and_repeat(space.db, lease, cancelled_then))
    assert time.monotonic() - began < 15


def test_a_step_goes_on_soon_after_a_full_disk_has_room(space, monkeypatch):
    monkeypatch.setattr(long_waits, "FULL_DISK_WAIT_SECONDS", 0.2)
    space.request()
    lease, _ = listing(space)
    disk_errors = [OSError(errno.ENOSPC, "full")] * 2

    def step():
        with steps.explain_errors():
            if disk_errors:
                raise disk_errors.pop()

    began = time.monotonic()
    space.call(tasks.wait_and_repeat(space.db, lease, step))
    assert not disk_errors
    assert 0.4 <= time.monotonic() - began < 30, "not 120 for each look"
