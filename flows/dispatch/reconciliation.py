"""Reconciliation of open batches with their flow runs' states in Prefect."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum, auto

import structlog
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import State
from prefect.states import Cancelled

from flows import flow_states
from flows.dispatch import prefect_client
from flows.dispatch.background_loop import LoopThread
from flows.dispatch.prefect_client import FlowRunState
from flows.prefect_errors import AWAY_STATE, INTERRUPTED_STATE, REFUSED_STATE, SUPERSEDED_STATE
from retrieval.database.database import Database, skip_locked
from retrieval.ingestion import crash_isolation
from retrieval.jobs import run_outcome
from retrieval.jobs.queries import batches, suspension
from retrieval.jobs.queries.batches import OpenBatch
from retrieval.jobs.queries.suspension import SuspendedBatch
from retrieval.statuses import DocumentStatus

log = structlog.get_logger()


class Action(StrEnum):
    """Action of the reconciler on an open batch."""

    WAIT = auto()
    # A person cancelled the flow run.
    CANCEL = auto()
    # A person set it to Failed or Completed.
    END_BY_HAND = auto()
    SUSPEND = auto()
    RESUME = auto()
    # The worker was stopped and released the lease: the same flow run continues.
    CONTINUE = auto()
    # The worker was stopped, and Prefect no longer has the flow run: a new one starts.
    RESTART = auto()
    # A new flow run starts because the worker is gone or did not renew its lease.
    LOST = auto()
    # A new flow run starts because the process died or the flow failed.
    DIED = auto()


# Types of states before the end of a flow run.
LIVE_STATES = frozenset({"SCHEDULED", "PENDING", "RUNNING", "PAUSED", "CANCELLING"})
# In these, a process claims the batch within seconds; without a claim for a lease's duration, it has died.
CLAIMABLE_STATES = frozenset({"PENDING", "RUNNING", "CANCELLING"})
ENDED_STATES = frozenset({"COMPLETED", "FAILED"})
# Blame added to the documents in progress. Documents with much blame run in separate windows, and finally fail.
BLAME_BY_ACTION = {
    Action.RESTART: 0,
    Action.LOST: crash_isolation.LOSS_BLAME,
    Action.DIED: crash_isolation.DEATH_BLAME,
}
# Log events by action; others are logged as `batch.recovered`.
PERSON_EVENTS = {
    Action.CANCEL: "batch.cancelled",
    Action.END_BY_HAND: "batch.cancelled",
    Action.SUSPEND: "batch.suspended",
    Action.RESUME: "batch.resumed",
}
# Final states set by this service, not by a person.
SERVICE_STATE_NAMES = frozenset({AWAY_STATE, REFUSED_STATE, SUPERSEDED_STATE})
# Prefect's own workers may have to pull an image before the flow run starts.
START_TIMEOUT = timedelta(minutes=10)
# A dispatched flow run still unknown to Prefect after this time counts as lost.
UNKNOWN_RUN_SECONDS = 10.0
# Beginning of the message of a flow run that Prefect's engine set to Failed.
ENGINE_FAILURE_PREFIX = "Flow run encountered an exception"


def decide_batch(batch: OpenBatch, state: FlowRunState | None, current_time: datetime, *, lease: timedelta) -> Action:
    """Choose the action for an open batch by its flow run's state; None: Prefect does not know the flow run."""
    if state is None:
        if batch.released:
            return Action.RESTART
        is_unknown = not batch.claimed and abs(batch.seconds_since_dispatch) > UNKNOWN_RUN_SECONDS
        return Action.LOST if batch.lease_lost or is_unknown else Action.WAIT
    return _decide_by_person(batch, state) or _decide_by_process(batch, state, current_time, lease)


def _decide_by_person(batch: OpenBatch, state: FlowRunState) -> Action | None:
    """Return the action for a state set by a person; None for other states."""
    # A worker with a live lease ends a cancelled flow run itself.
    is_held = batch.claimed and not batch.lease_lost and not batch.released
    if state.type == "CANCELLED" or (state.type == "CANCELLING" and not is_held):
        return Action.CANCEL
    if state.type == "PAUSED" and not state.is_service_pause:
        return Action.WAIT if batch.suspended else Action.SUSPEND
    if batch.suspended and state.type == "SCHEDULED":
        return Action.RESUME
    is_final = state.type in ENDED_STATES and state.name not in SERVICE_STATE_NAMES
    return Action.END_BY_HAND if is_final and _is_set_by_hand(batch, state, is_held=is_held) else None


def _decide_by_process(batch: OpenBatch, state: FlowRunState, current_time: datetime, lease: timedelta) -> Action:
    """Return the action for a state set by a worker, Prefect's engine or a flow, or for a lost lease."""
    if batch.released or state.name == INTERRUPTED_STATE:
        is_scheduled_again = state.type in ("SCHEDULED", "PENDING")
        is_process_ending = state.type == "RUNNING" and not batch.lease_lost
        return Action.WAIT if is_scheduled_again or is_process_ending else Action.CONTINUE
    if state.type in ENDED_STATES or state.type == "CRASHED":
        return Action.LOST if state.name in (AWAY_STATE, SUPERSEDED_STATE) else Action.DIED
    is_starting = state.is_in_other_pool and state.type == "PENDING"
    claim_timeout = max(lease, START_TIMEOUT) if is_starting else lease
    is_stuck = not batch.claimed and state.type in CLAIMABLE_STATES and abs(current_time - state.since) > claim_timeout
    return Action.LOST if batch.lease_lost or is_stuck else Action.WAIT


def _is_set_by_hand(batch: OpenBatch, state: FlowRunState, *, is_held: bool) -> bool:
    """Check if a person set the final state of an open batch."""
    # A flow ends its lease before it fails, and closes its batch before it completes. So only a
    # person sets FAILED while the lease lives, or COMPLETED while the batch is open.
    if batch.claimed:
        return is_held or (state.type == "COMPLETED" and not batch.released)
    return not state.message.startswith(ENGINE_FAILURE_PREFIX)


async def reconcile_batches(thread: LoopThread, client: PrefectClient, *, attempts: int, lease: timedelta) -> int:
    """Reconcile every open and suspended batch; return the number of actions."""
    open_batches = await thread.run(batches.open_batches)
    suspended_batches = await thread.run(suspension.suspended_batches)
    flow_run_ids = [batch.flow_run_id for batch in open_batches] + [batch.flow_run_id for batch in suspended_batches]
    states = await prefect_client.read_states(client, flow_run_ids)
    current_time = datetime.now(UTC)
    action_count = 0
    for batch in open_batches:
        state = states.get(batch.flow_run_id)
        action = decide_batch(batch, state, current_time, lease=lease)
        if action is Action.WAIT:
            continue
        if action is Action.CONTINUE:
            await prefect_client.continue_flow_run(client, batch.flow_run_id)
        if not await thread.run(_apply_action, batch, action, state, attempts):
            continue
        action_count += 1
        name = state.name if state else "unknown"
        event = PERSON_EVENTS.get(action, "batch.recovered")
        log.warning(event, batch_id=batch.id, attempt=batch.attempt, prefect_state=name, action=action)
        if state is not None and state.type in LIVE_STATES and action in (Action.CANCEL, Action.LOST, Action.DIED):
            # Without a state, `set_final_state` sets Crashed.
            final_state: State[None] | None = Cancelled() if action is Action.CANCEL else None
            await prefect_client.set_final_state(client, batch.flow_run_id, final_state)
    for suspended_batch in suspended_batches:
        state = states.get(suspended_batch.flow_run_id)
        action_count += await _reconcile_suspended(thread, client, suspended_batch, state)
    return action_count


def _apply_action(db: Database, batch: OpenBatch, action: Action, state: FlowRunState | None, attempts: int) -> bool:
    """Apply an action to the database; False if the batch's rows are locked."""
    with skip_locked("batch.not_recovered", batch_id=batch.id):
        match action:
            case Action.SUSPEND:
                suspension.record_suspension(db, batch)
            case Action.RESUME:
                suspension.record_resumption(db, batch)
            case Action.CONTINUE:
                pass
            case Action.CANCEL:
                return batches.end_batch(db, batch, status=DocumentStatus.CANCELLED, error=None)
            case Action.END_BY_HAND:
                error = f"The flow run was set to {state.name if state else 'a final state'} by hand in Prefect."
                return batches.end_batch(db, batch, status=DocumentStatus.CANCELLED, error=error)
            case _:
                return crash_isolation.restart_batch(db, batch, blame=BLAME_BY_ACTION[action], max_attempts=attempts)
        return True
    return False  # the rows are locked: `skip_locked` has logged it


async def _reconcile_suspended(
    thread: LoopThread, client: PrefectClient, batch: SuspendedBatch, state: FlowRunState | None
) -> bool:
    """End a suspended flow run after its job runs, or cancel job runs of an ended flow run; False without an action."""
    if batch.unfinished_runs == 0:
        if state is not None and state.type == "PAUSED":
            outcomes = await thread.run(run_outcome.list_batch_outcomes, batch.id)
            final_state = flow_states.final_state(outcomes, "Its job runs ended while it was suspended.")
            await prefect_client.set_final_state(client, batch.flow_run_id, final_state)
        await thread.run(suspension.forget_suspended, batch.id)
        return True
    if state is None or state.type in ("PAUSED", "SCHEDULED", "PENDING", "RUNNING"):
        return False
    is_cancelled = state.type in ("CANCELLING", "CANCELLED")
    reason = None if is_cancelled else f"The flow run was set to {state.name} by hand in Prefect."
    await thread.run(suspension.cancel_suspended, batch.id, reason)
    if state.type == "CANCELLING":
        await prefect_client.set_final_state(client, batch.flow_run_id, Cancelled())
    log.warning("batch.cancelled", batch_id=batch.id, prefect_state=state.name)
    return True
