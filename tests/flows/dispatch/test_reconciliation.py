"""Decisions of the reconciler by batch and flow run state."""

from datetime import UTC, datetime, timedelta

import pytest

from flows.dispatch.prefect_client import FlowRunState
from flows.dispatch.reconciliation import decide_batch
from retrieval.jobs.queries.batches import OpenBatch

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=30)


def batch(*, claimed=False, lease_lost=False, age=60, released=False, suspended=False):
    return OpenBatch("bat_1", 1, "run", claimed, lease_lost, age, released, suspended)


def state(name, age, called="", message="", *, is_ours=False, is_elsewhere=False):
    return FlowRunState(name, NOW - timedelta(seconds=age), called or name.title(), message, is_ours, is_elsewhere)


EXCEPTION = "Flow run encountered an exception: ValueError"


@pytest.mark.parametrize(
    ("batch_state", "flow_run_state", "action"),
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
        # The flow that failed has ended its lease; where the lease is alive, a person has set the state.
        (batch(claimed=True, lease_lost=True), state("FAILED", 1, message=EXCEPTION), "died"),
        (batch(claimed=True), state("FAILED", 1), "end_by_hand"),
        (batch(claimed=True), state("COMPLETED", 1), "end_by_hand"),
        (batch(), state("COMPLETED", 1), "end_by_hand"),
        (batch(), state("FAILED", 1), "end_by_hand"),
        (batch(), state("FAILED", 1, message=EXCEPTION), "died"),
        (batch(), state("FAILED", 1, "Refused", "no flow of this service"), "died"),
        (batch(claimed=True), state("COMPLETED", 1, "Superseded"), "lost"),
        (batch(claimed=True, released=True), state("CRASHED", 1), "continue"),
        (batch(claimed=True, released=True), state("SCHEDULED", 1, "Interrupted"), "wait"),
        (batch(claimed=True, released=True), state("RUNNING", 1), "wait"),
        (batch(claimed=True, released=True, lease_lost=True), state("RUNNING", 40), "continue"),
        (batch(claimed=True, released=True), None, "restart"),
        (batch(claimed=True), state("FAILED", 1, "Away"), "lost"),
        (batch(claimed=True), state("PAUSED", 1, "Suspended"), "suspend"),
        (batch(claimed=True, suspended=True), state("PAUSED", 60, "Suspended"), "wait"),
        (batch(suspended=True), state("PAUSED", 3600, "Suspended"), "wait"),
        (batch(suspended=True), state("SCHEDULED", 1, "Resuming"), "resume"),
        (batch(claimed=True, lease_lost=True), state("PAUSED", 60, "Suspended", is_ours=True), "lost"),
        (batch(claimed=True), state("CANCELLED", 1), "cancel"),
        (batch(), state("CANCELLED", 1), "cancel"),
        (batch(suspended=True), state("CANCELLED", 1), "cancel"),
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
def test_every_state_leads_somewhere(batch_state, flow_run_state, action):
    assert decide_batch(batch_state, flow_run_state, NOW, lease=LEASE) == action


@pytest.mark.parametrize(
    ("batch_state", "flow_run_state", "action"),
    [
        (batch(), state("PENDING", -3600), "lost"),
        (batch(claimed=True), state("RUNNING", -3600), "wait"),
        (batch(age=-3600), None, "lost"),
        (batch(age=-5), None, "wait"),
    ],
)
def test_moments_that_are_still_to_come_were_written_before_a_clock_went_back(batch_state, flow_run_state, action):
    """Future timestamps are not awaited."""
    assert decide_batch(batch_state, flow_run_state, NOW, lease=LEASE) == action
