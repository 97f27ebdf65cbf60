"""What the reconciler makes of a batch and its flow run's state in Prefect."""

from datetime import UTC, datetime, timedelta

import pytest

from flows.dispatch.prefect_client import Seen
from flows.dispatch.reconciliation import decide_batch
from retrieval.jobs.queries.batches import Open

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=30)


def batch(*, claimed=False, lease_lost=False, age=60, released=False):
    return Open("bat_1", 1, "run", claimed, lease_lost, age, released)


def state(name, age, called="", *, is_elsewhere=False):
    return Seen(name, NOW - timedelta(seconds=age), called or name.title(), is_elsewhere)


@pytest.mark.parametrize(
    ("held", "seen", "action"),
    [
        (batch(), state("SCHEDULED", 3600), "wait"),
        (batch(), state("PENDING", 5), "wait"),
        (batch(), state("PENDING", 31), "lost"),
        (batch(), state("PENDING", 590, "a container pulls its image", is_elsewhere=True), "wait"),
        (batch(), state("PENDING", 610, is_elsewhere=True), "lost"),
        (batch(), state("RUNNING", 31, is_elsewhere=True), "lost"),
        (batch(), state("RUNNING", 31), "lost"),
        (batch(claimed=True), state("RUNNING", 3600), "wait"),
        (batch(claimed=True, lease_lost=True), state("RUNNING", 60), "lost"),
        (batch(claimed=True), state("CRASHED", 1), "died"),
        (batch(claimed=True), state("FAILED", 1), "died"),
        (batch(), state("COMPLETED", 1), "lost"),
        (batch(claimed=True, released=True), state("CRASHED", 1), "again"),
        (batch(claimed=True, released=True), state("RUNNING", 1), "again"),
        (batch(claimed=True, released=True), None, "again"),
        (batch(claimed=True), state("CRASHED", 1, "Interrupted"), "again"),
        (batch(claimed=True), state("FAILED", 1, "Away"), "lost"),
        (batch(claimed=True), state("CANCELLED", 1), "cancel"),
        (batch(), state("CANCELLED", 1), "cancel"),
        (batch(claimed=True, released=True), state("CANCELLED", 1), "cancel"),
        (batch(claimed=True), state("CANCELLING", 1), "wait"),
        (batch(claimed=True, lease_lost=True), state("CANCELLING", 60), "cancel"),
        (batch(claimed=True, released=True), state("CANCELLING", 1), "cancel"),
        (batch(), state("CANCELLING", 1), "cancel"),
        (batch(age=5), None, "wait"),
        (batch(age=11), None, "lost"),
        (batch(claimed=True), None, "wait"),
        (batch(claimed=True, lease_lost=True), None, "lost"),
    ],
)
def test_every_state_leads_somewhere(held, seen, action):
    assert decide_batch(held, seen, NOW, lease=LEASE) == action


@pytest.mark.parametrize(
    ("held", "seen", "action"),
    [
        (batch(), state("PENDING", -3600), "lost"),
        (batch(claimed=True), state("RUNNING", -3600), "wait"),
        (batch(age=-3600), None, "lost"),
        (batch(age=-5), None, "wait"),
    ],
)
def test_moments_that_are_still_to_come_were_written_before_a_clock_went_back(held, seen, action):
    """Neither is waited for, however long it takes the clock to come there again."""
    assert decide_batch(held, seen, NOW, lease=LEASE) == action
