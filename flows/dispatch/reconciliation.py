"""Prefect's states and lost leases, mapped onto our batches: nothing stays open because a process died."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import structlog
from prefect.client.orchestration import PrefectClient

from flows.dispatch import prefect_client
from flows.dispatch.background_loop import LoopThread
from flows.dispatch.prefect_client import Seen
from flows.prefect_errors import GONE, INTERRUPTED
from retrieval.database.database import Database, passing_over
from retrieval.ingestion import poison_detection
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Open
from retrieval.statuses import DocumentStatus

log = structlog.get_logger()

LIVE = frozenset({"SCHEDULED", "PENDING", "RUNNING", "PAUSED", "CANCELLING"})
BEGUN = LIVE - {"SCHEDULED"}
"""A worker has taken the run. If it has not claimed the batch within a lease's time, it died before it could."""
DEAD = frozenset({"CRASHED", "FAILED"})
WEIGHTS = {"again": 0, "lost": poison_detection.LOSS, "died": poison_detection.DEATH}
"""How much each end of a flow run is held against what it was working on."""
START_TIMEOUT = timedelta(minutes=10)
"""Time in which a worker of Prefect's own types starts a process or a container: an image may have to be pulled."""
UNKNOWN_FOR = 10.0
"""A run that the server does not know is lost, but only after a moment: it may just have been created."""


def decide_batch(batch: Open, state: Seen | None, now: datetime, *, lease: timedelta) -> str:
    """Decide about a batch: `wait`, `again` after an orderly interruption, `lost`, `died` or `cancel`.

    `state` is its flow run's, None if Prefect has none.
    """
    if state is not None and _is_cancelled(batch, state):
        return "cancel"
    if batch.released or (state is not None and state.name == INTERRUPTED):
        return "again"
    if state is None:
        lost = batch.lease_lost or (not batch.claimed and abs(batch.dispatched) > UNKNOWN_FOR)
        return "lost" if lost else "wait"
    if state.type in DEAD:
        return "lost" if state.name == GONE else "died"
    if batch.lease_lost or state.type not in LIVE:
        return "lost"
    is_starting = state.is_elsewhere and state.type == "PENDING"
    patience = max(lease, START_TIMEOUT) if is_starting else lease
    stuck = not batch.claimed and state.type in BEGUN and abs(now - state.since) > patience
    return "lost" if stuck else "wait"


def _is_cancelled(batch: Open, state: Seen) -> bool:
    """Tell whether the flow run was cancelled, and no worker is there that still has to end it."""
    is_held = batch.claimed and not batch.lease_lost and not batch.released
    return state.type == "CANCELLED" or (state.type == "CANCELLING" and not is_held)


async def reconcile_batches(thread: LoopThread, client: PrefectClient, *, attempts: int, lease: timedelta) -> int:
    """Look at every open batch; how many were taken back or ended."""
    opened = await thread.run(batches.open_batches)
    states = await prefect_client.read_states(client, [batch.flow_run_id for batch in opened])
    current = datetime.now(UTC)
    acted = 0
    for batch in opened:
        state = states.get(batch.flow_run_id)
        action = decide_batch(batch, state, current, lease=lease)
        if action == "wait":
            continue
        if not await thread.run(_recover, batch, action, attempts):
            continue
        acted += 1
        prefect = state.name if state else "unknown"
        log.warning("batch.recovered", batch_id=batch.id, attempt=batch.attempt, prefect_state=prefect, action=action)
        if state is not None and state.type in LIVE:
            await prefect_client.declare_ended(client, batch.flow_run_id, cancelled=action == "cancel")
    return acted


def _recover(db: Database, batch: Open, action: str, attempts: int) -> bool:
    """Recover a batch; False if its rows are locked, and it is tried again later."""
    with passing_over("batch.not_recovered", batch_id=batch.id):
        if action == "cancel":
            return batches.end_batch(db, batch, status=DocumentStatus.CANCELLED, error=None)
        return poison_detection.start_again(db, batch, weight=WEIGHTS[action], attempts=attempts)
    return False
