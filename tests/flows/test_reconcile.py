"""What the reconciler makes of a batch and its flow run's state in Prefect."""

from datetime import UTC, datetime, timedelta

import pytest

from flows.prefect_server import Seen
from flows.reconcile import decide
from retrieval.batches import Open

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=30)


def batch(*, claimed=False, lease_lost=False, age=60):
    return Open("bat_1", 1, "run", claimed, lease_lost, NOW - timedelta(seconds=age))


def state(name, age):
    return Seen(name, NOW - timedelta(seconds=age))


@pytest.mark.decision("D21")
@pytest.mark.parametrize(
    ("held", "seen", "action"),
    [
        (batch(), state("SCHEDULED", 3600), "wait"),
        (batch(), state("PENDING", 5), "wait"),
        (batch(), state("PENDING", 31), "retry"),
        (batch(), state("RUNNING", 31), "retry"),
        (batch(claimed=True), state("RUNNING", 3600), "wait"),
        (batch(claimed=True, lease_lost=True), state("RUNNING", 60), "retry"),
        (batch(claimed=True), state("CRASHED", 1), "retry"),
        (batch(claimed=True), state("FAILED", 1), "retry"),
        (batch(), state("COMPLETED", 1), "retry"),
        (batch(claimed=True), state("CANCELLED", 1), "cancel"),
        (batch(age=5), None, "wait"),
        (batch(age=11), None, "retry"),
        (batch(claimed=True), None, "wait"),
        (batch(claimed=True, lease_lost=True), None, "retry"),
    ],
)
def test_every_state_leads_somewhere(held, seen, action):
    assert decide(held, seen, NOW, lease=LEASE) == action
