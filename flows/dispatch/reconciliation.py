"""Reconciliation of open batches with the states of their flow runs in Prefect."""

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
from flows.dispatch.prefect_client import Seen
from flows.prefect_errors import GONE, INTERRUPTED, REFUSED, SUPERSEDED
from retrieval.database.database import Database, skip_locked
from retrieval.ingestion import poison_detection
from retrieval.jobs import run_outcome
from retrieval.jobs.queries import batches, suspension
from retrieval.jobs.queries.batches import Open
from retrieval.jobs.queries.suspension import SuspendedBatch
from retrieval.statuses import DocumentStatus

log = structlog.get_logger()


class Action(StrEnum):
    """What the reconciler does with an open batch."""

    WAIT = auto()
    CANCEL = auto()
    """A person cancelled the flow run."""
    END_BY_HAND = auto()
    """A person set the flow run to Failed or Completed."""
    SUSPEND = auto()
    """A person suspended the flow run."""
    RESUME = auto()
    """A person resumed the flow run."""
    CONTINUE = auto()
    """The worker was stopped in good order: the same flow run continues."""
    RESTART = auto()
    """The same, where Prefect has lost the flow run."""
    LOST = auto()
    DIED = auto()


LIVE = frozenset({"SCHEDULED", "PENDING", "RUNNING", "PAUSED", "CANCELLING"})
TAKEN_BY_WORKER = frozenset({"PENDING", "RUNNING", "CANCELLING"})
"""Without a claim within a lease's time, the process died before it could claim."""
ENDED = frozenset({"COMPLETED", "FAILED"})
BLAME = {
    Action.RESTART: 0,
    Action.LOST: poison_detection.LOSS_BLAME,
    Action.DIED: poison_detection.DEATH_BLAME,
}
"""Weight that each loss of a flow run has against the work in progress."""
NOT_BY_HAND = frozenset({GONE, REFUSED, SUPERSEDED})
"""Names of final states that flows and workers of this service set."""
START_TIMEOUT = timedelta(minutes=10)
"""Time in which a worker of Prefect's own types starts a process or a container: an image may have to be pulled."""
UNKNOWN_SECONDS = 10.0
"""Age from which a flow run that Prefect does not know is lost; a younger one may be on its way."""
ENGINE_FAILURE = "Flow run encountered an exception"
"""Beginning of the message of a flow run that Prefect's engine failed."""


def decide_batch(batch: Open, state: Seen | None, now: datetime, *, lease: timedelta) -> Action:
    """Decide about an open batch by the state of its flow run, None if Prefect has none."""
    if state is None:
        is_unknown = not batch.claimed and abs(batch.dispatched) > UNKNOWN_SECONDS
        lost = Action.LOST if batch.lease_lost or is_unknown else Action.WAIT
        return Action.RESTART if batch.released else lost
    return _follow_person(batch, state) or _follow_process(batch, state, now, lease)


def _follow_person(batch: Open, state: Seen) -> Action | None:
    """Return the action for a state that a person has set in Prefect; None for any other."""
    is_held = batch.claimed and not batch.lease_lost and not batch.released
    if state.type == "CANCELLED" or (state.type == "CANCELLING" and not is_held):
        return Action.CANCEL
    if state.type == "PAUSED" and not state.is_ours:
        return Action.WAIT if batch.suspended else Action.SUSPEND
    if batch.suspended and state.type == "SCHEDULED":
        return Action.RESUME
    is_final = state.type in ENDED and state.name not in NOT_BY_HAND
    return Action.END_BY_HAND if is_final and _is_set_by_hand(batch, state, is_held=is_held) else None


def _follow_process(batch: Open, state: Seen, now: datetime, lease: timedelta) -> Action:
    """Return the action for a state that a worker, Prefect's engine or a flow has set."""
    if batch.released or state.name == INTERRUPTED:
        # The worker, or a former look, has scheduled it; while it runs, its process is about to end.
        waits = state.type in ("SCHEDULED", "PENDING") or (state.type == "RUNNING" and not batch.lease_lost)
        return Action.WAIT if waits else Action.CONTINUE
    if state.type in ENDED or state.type == "CRASHED":
        return Action.LOST if state.name in (GONE, SUPERSEDED) else Action.DIED
    is_starting = state.is_elsewhere and state.type == "PENDING"
    patience = max(lease, START_TIMEOUT) if is_starting else lease
    is_stuck = not batch.claimed and state.type in TAKEN_BY_WORKER and abs(now - state.since) > patience
    return Action.LOST if batch.lease_lost or is_stuck else Action.WAIT


def _is_set_by_hand(batch: Open, state: Seen, *, is_held: bool) -> bool:
    # A flow that fails ends its lease first, and one that completes closes its batch.
    if batch.claimed:
        return is_held or (state.type == "COMPLETED" and not batch.released)
    return not state.message.startswith(ENGINE_FAILURE)


async def reconcile_batches(thread: LoopThread, client: PrefectClient, *, attempts: int, lease: timedelta) -> int:
    """Reconcile every open and suspended batch; return how many job runs may leave or have ended."""
    opened = await thread.run(batches.open_batches)
    suspended = await thread.run(suspension.suspended_batches)
    flow_runs = [batch.flow_run_id for batch in opened] + [batch.flow_run_id for batch in suspended]
    states = await prefect_client.read_states(client, flow_runs)
    current = datetime.now(UTC)
    acted = 0
    for batch in opened:
        state = states.get(batch.flow_run_id)
        action = decide_batch(batch, state, current, lease=lease)
        if action is Action.WAIT:
            continue
        if action is Action.CONTINUE:
            await prefect_client.continue_flow_run(client, batch.flow_run_id)
        if not await thread.run(_act, batch, action, state, attempts):
            continue
        acted += 1
        name = state.name if state else "unknown"
        log.warning("batch.recovered", batch_id=batch.id, attempt=batch.attempt, prefect_state=name, action=action)
        if state is not None and state.type in LIVE and action in (Action.CANCEL, Action.LOST, Action.DIED):
            final: State[None] | None = Cancelled() if action is Action.CANCEL else None
            await prefect_client.declare_ended(client, batch.flow_run_id, final)
    for waiting in suspended:
        acted += await _reconcile_suspended(thread, client, waiting, states.get(waiting.flow_run_id))
    return acted


def _act(db: Database, batch: Open, action: Action, state: Seen | None, attempts: int) -> bool:
    """Apply an action to the database; False if the batch's rows are locked, and it is tried again later."""
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
                return poison_detection.restart_batch(db, batch, weight=BLAME[action], attempts=attempts)
        return True
    return False


async def _reconcile_suspended(
    thread: LoopThread, client: PrefectClient, batch: SuspendedBatch, state: Seen | None
) -> bool:
    """End a suspended flow run whose job runs have ended, and job runs whose suspended flow run has ended."""
    is_paused = state is not None and state.type == "PAUSED"
    if not batch.waiting:
        outcomes = await thread.run(run_outcome.of_batch, batch.id)
        if is_paused:
            final = flow_states.final_state(outcomes, "Its job runs ended while it was suspended.")
            await prefect_client.declare_ended(client, batch.flow_run_id, final)
        await thread.run(suspension.forget_suspended, batch.id)
        return True
    if state is None or state.type in ("PAUSED", "SCHEDULED", "PENDING", "RUNNING"):
        return False
    by_hand = None if state.type.startswith("CANCELL") else f"The flow run was set to {state.name} by hand in Prefect."
    await thread.run(suspension.cancel_suspended, batch.id, by_hand)
    if state.type == "CANCELLING":
        await prefect_client.declare_ended(client, batch.flow_run_id, Cancelled())
    log.warning("batch.cancelled", batch_id=batch.id, prefect_state=state.name)
    return True
