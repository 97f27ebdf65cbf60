"""The final state of a flow run, and what a retry in Prefect starts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

from prefect import get_client
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.states import Cancelled, Completed, Failed

from flows import context
from flows.prefect_client import GONE, SILENT
from retrieval.database.database import AWAY as DATABASE_AWAY
from retrieval.jobs import run_outcome
from retrieval.jobs.queries import batches, retry
from retrieval.jobs.queries.batches import Lease
from retrieval.statuses import Outcome

AWAY = (*DATABASE_AWAY, *SILENT)
"""What is raised, outside of the steps and their retries, where the database or Prefect does not answer."""


async def claim(batch_id: str, attempt: int, *, seconds: float) -> Lease | None:
    """Claim the lease of this attempt; after a retry of the flow run in Prefect, that of its failed documents."""
    db = context.database()
    lease = batches.claim(db, batch_id, attempt, seconds=seconds)
    run = _flow_run_id()
    if lease is not None or run is None or not await _has_ended_before(run):
        return lease
    retry_runs = await asyncio.to_thread(retry.of_batch, db, batch_id, str(run))
    return batches.claim(db, retry_runs, 1, seconds=seconds) if retry_runs else None


def unclaimed(batch_id: str) -> State[None]:
    """There is nothing to do: how the batch ended, or that another works on it."""
    db = context.database()
    batch_id = retry.newest(db, batch_id, str(_flow_run_id()))
    ended = run_outcome.of_batch(db, batch_id) if retry.is_finished(db, batch_id) else []
    if ended:
        return state(ended, "Nothing was left to do here.")
    return Completed(name="Superseded", message="Another flow run holds this batch.")


def away(error: Exception) -> State[None]:
    """The database or Prefect was away, or a starved machine was too slow for them: no document is to blame."""
    message = f"The database or Prefect did not answer ({type(error).__name__}); the batch is taken up again."
    return Failed(name=GONE, message=message)


def state(ended: Sequence[str], message: str) -> State[None]:
    """`ended`: the outcomes of the job runs. Green is what succeeded at least in part."""
    if ended and all(outcome == Outcome.CANCELLED for outcome in ended):
        return Cancelled(message=message)
    if ended and all(outcome in (Outcome.FAILED, Outcome.CANCELLED) for outcome in ended):
        return Failed(message=message)
    if any(outcome != Outcome.SUCCEEDED for outcome in ended):
        return Completed(name="CompletedWithFailures", message=message)
    return Completed(message=message)


def _flow_run_id() -> UUID | None:
    context = FlowRunContext.get()
    return context.flow_run.id if context is not None and context.flow_run is not None else None


async def _has_ended_before(run: UUID) -> bool:
    async with get_client() as client:
        return any(former_state.is_final() for former_state in await client.read_flow_run_states(run))
