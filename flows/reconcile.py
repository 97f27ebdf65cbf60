"""Prefect's states and lost leases, mapped onto our batches: nothing stays open because a process died."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import structlog
from prefect.client.orchestration import PrefectClient

from flows import prefect_server
from retrieval import batches
from retrieval.batches import Open
from retrieval.database import Database

log = structlog.get_logger()

Action = Callable[[Database, Open], None]
LIVE = frozenset({"SCHEDULED", "PENDING", "RUNNING", "PAUSED", "CANCELLING"})
UNKNOWN_FOR = timedelta(seconds=10)
"""A run that the server does not know is lost, but only after a moment: it may just have been created."""


def decide(batch: Open, state: str | None, now: datetime) -> str:
    """What to do with a batch: `wait`, `retry` or `cancel`. `state` is its flow run's in Prefect, None if unknown."""
    if state == "CANCELLED":
        return "cancel"
    if batch.lease_lost:
        return "retry"
    if state in LIVE:
        return "wait"
    if state is None:
        return "wait" if batch.claimed or now - batch.dispatched_at < UNKNOWN_FOR else "retry"
    return "retry"


async def once(db: Database, client: PrefectClient, *, attempts: int) -> int:
    """Look at every open batch; how many were taken back or ended."""
    opened = await asyncio.to_thread(batches.open_batches, db)
    states = await prefect_server.states(client, [batch.flow_run_id for batch in opened])
    acted = 0
    for batch in opened:
        state = states.get(batch.flow_run_id)
        action = decide(batch, state, datetime.now(UTC))
        if action == "wait":
            continue
        acted += 1
        log.warning("batch.recovered", batch_id=batch.id, attempt=batch.attempt, prefect_state=state, action=action)
        await asyncio.to_thread(_recover, db, batch, action, attempts)
        if state in LIVE:
            await prefect_server.declare_crashed(client, batch.flow_run_id)
    return acted


def _recover(db: Database, batch: Open, action: str, attempts: int) -> None:
    if action == "cancel":
        batches.end(db, batch, status="CANCELLED", error=None)
    elif batch.attempt < attempts:
        batches.retry(db, batch)
    else:
        reason = f"The worker died or failed {batch.attempt} times on this; see the flow run in Prefect, then retry."
        batches.end(db, batch, status="FAILED", error=reason)
