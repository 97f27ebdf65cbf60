"""Claim of a batch by a flow run, and the flow run's final state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

from prefect import get_client
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.exceptions import Pause
from prefect.states import Cancelled, Completed, Failed

from flows import context
from flows.lease_renewal import keep_lease
from flows.prefect_errors import AWAY_STATE, NO_ANSWER_ERRORS, PARTIAL_STATE, SUPERSEDED_STATE
from flows.request_context import bind_requests
from flows.run_context import RunContext
from retrieval import settings
from retrieval.database.database import UNAVAILABLE_ERRORS as DATABASE_ERRORS
from retrieval.database.database import Database
from retrieval.jobs import run_outcome
from retrieval.jobs.queries import batches, leases, retry
from retrieval.jobs.queries.batches import Lease, Superseded
from retrieval.jobs.queries.retry import Retry
from retrieval.statuses import Outcome

# The database or Prefect does not answer.
CONNECTION_ERRORS = (*DATABASE_ERRORS, *NO_ANSWER_ERRORS)

# Pause between attempts to claim a lease still held by a killed process.
CLAIM_RETRY_SECONDS = 1.0


@dataclass
class BatchRun:
    """Claim of a batch by a flow run, and the flow run's final state."""

    # None if the batch was not claimed.
    run: RunContext | None = None
    # Called after the end of the lease; its result becomes `state`.
    report: Callable[[], Awaitable[State[None]]] | None = None
    state: State[None] = field(default_factory=Completed)


@asynccontextmanager
async def claim_batch(batch_id: str, attempt: int, *, retries_documents: bool = False) -> AsyncIterator[BatchRun]:
    """Hold the lease of a batch; `run` is None if another flow run holds it or no work remains."""
    # `retries_documents`: a retry in Prefect ingests the failed documents again.
    db, lease_seconds = context.open_database(), settings.load_settings().lease_seconds
    batch = BatchRun()
    try:
        lease = await _claim_dispatched(db, batch_id, attempt, seconds=lease_seconds)
        retry_of_failed = await _retry_documents(batch_id) if lease is None and retries_documents else Retry()
        if retry_of_failed.batch_id:
            lease = batches.claim_lease(db, retry_of_failed.batch_id, attempt=1, seconds=lease_seconds)
        if retry_of_failed.waiting_runs:
            batch.state = _delegated_state(retry_of_failed.waiting_runs)
            yield batch
            return
        if lease is None:
            batch.state = _unclaimed_state(batch_id) if _is_known_batch(batch_id) else _unknown_batch_state(batch_id)
            yield batch
            return
        try:
            with bind_requests(db, lease), keep_lease(db, lease, seconds=lease_seconds):
                batch.run = RunContext(db, context.load_keys(), lease)
                yield batch
        except Superseded:
            batch.state = _unclaimed_state(lease.batch_id)
        else:
            if batch.report is not None:
                batch.state = await batch.report()
            if batch.run.is_suspended:
                # Ends the process; the state in Prefect stays Suspended until the flow run is resumed.
                raise Pause
    except CONNECTION_ERRORS as error:
        batch.state = away_state(error)


async def _claim_dispatched(db: Database, batch_id: str, attempt: int, *, seconds: float) -> Lease | None:
    """Claim the batch; wait for the lease of a killed process of this flow run."""
    deadline = time.monotonic() + seconds
    while (lease := batches.claim_lease(db, batch_id, attempt, seconds=seconds)) is None:
        is_dispatched_here = leases.is_dispatched_to(db, batch_id, attempt, str(_flow_run_id()))
        if not is_dispatched_here or time.monotonic() > deadline:
            return None
        await asyncio.sleep(CLAIM_RETRY_SECONDS)
    return lease


async def _retry_documents(batch_id: str) -> Retry:
    """Create job runs for the failed documents; an empty Retry unless a person retried this flow run in Prefect."""
    db, flow_run_id = context.open_database(), _flow_run_id()
    if flow_run_id is None or not await _has_ended_before(flow_run_id):
        return Retry()
    return await asyncio.to_thread(retry.retry_batch, db, batch_id, str(flow_run_id))


def _delegated_state(job_runs: Sequence[str]) -> State[None]:
    """Return the state of a retried flow run whose failed documents another flow run ingests."""
    return Completed(
        name=SUPERSEDED_STATE,
        message=f"The failed documents are ingested again by {', '.join(job_runs)}, which another flow run executes:"
        " job runs of a connection follow each other.",
    )


def _unclaimed_state(batch_id: str) -> State[None]:
    """Return the state of a flow run without a claim: the outcome of its finished batch, else Superseded."""
    db = context.open_database()
    batch_id = retry.find_newest_batch(db, batch_id, str(_flow_run_id()))
    outcomes = run_outcome.list_batch_outcomes(db, batch_id) if retry.is_finished(db, batch_id) else []
    if outcomes:
        return final_state(outcomes, "Nothing was left to do here.")
    return Completed(name=SUPERSEDED_STATE, message="Another flow run holds this batch.")


def _is_known_batch(batch_id: str) -> bool:
    db = context.open_database()
    return retry.is_stored_batch(db, retry.find_newest_batch(db, batch_id, str(_flow_run_id())))


def _unknown_batch_state(batch_id: str) -> State[None]:
    return Failed(
        message=f"There is no batch {batch_id!r}: it was never accepted, or its namespace was deleted."
        " Start ingestion by the API, the app or the command line."
    )


def away_state(error: Exception) -> State[None]:
    """Return the state of a run after the loss of the database or Prefect."""
    message = f"The database or Prefect did not answer ({type(error).__name__}); the batch is taken up again."
    return Failed(name=AWAY_STATE, message=message)


def final_state(outcomes: Sequence[str], message: str) -> State[None]:
    """Derive a flow run's state from its job runs' outcomes; Failed only if no job run has a success."""
    if outcomes and all(outcome == Outcome.CANCELLED for outcome in outcomes):
        return Cancelled(message=message)
    if outcomes and all(outcome in (Outcome.FAILED, Outcome.CANCELLED) for outcome in outcomes):
        return Failed(message=message)
    if any(outcome != Outcome.SUCCEEDED for outcome in outcomes):
        return Completed(name=PARTIAL_STATE, message=message)
    return Completed(message=message)


def _flow_run_id() -> UUID | None:
    run_context = FlowRunContext.get()
    return run_context.flow_run.id if run_context is not None and run_context.flow_run is not None else None


async def _has_ended_before(flow_run_id: UUID) -> bool:
    async with get_client() as client:
        states = await client.read_flow_run_states(flow_run_id)
    return any(state.is_final() for state in states)
