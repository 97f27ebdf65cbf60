"""Flow runs for waiting batches and evaluations, and events for Prefect's automations."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from prefect.client.orchestration import PrefectClient
from prefect.exceptions import ObjectNotFound

from flows.dispatch import prefect_client
from flows.dispatch.background_loop import LoopThread
from flows.prefect_errors import SERVER_ERRORS, failure_reason
from retrieval.evaluations import runs
from retrieval.jobs import levers, notifications
from retrieval.jobs.queries import batches, job_queue, suspension
from retrieval.jobs.queries.batches import Batch
from retrieval.webhooks import queries_feed

log = structlog.get_logger()


async def dispatch_batches(
    thread: LoopThread,
    client: PrefectClient,
    on_missing_deployment: Callable[[], None],
    *,
    size: int,
    limit: int,
    failed_batches: set[str],
    on_start: Callable[[], None] = lambda: None,
) -> int:
    """Start flow runs of waiting batches, `failed_batches` last; return their number and update `failed_batches`."""
    # At most 2 x limit batches are open, so that the remainder forms larger batches. Exceptions: short work, an
    # organization's only batch, and job runs joining a batch at work.
    free_slots = 2 * limit - await thread.run(batches.count_in_flight)
    await thread.run(batches.form_batches, size=size, batches=free_slots, worker_slots=limit)
    held_sources = await thread.run(levers.blocked_sources)
    waiting = [batch for batch in await thread.run(batches.undispatched_batches) if batch.source not in held_sources]
    failed_batches &= {batch.id for batch in waiting}
    waiting.sort(key=lambda batch: batch.id in failed_batches)
    started, failure = 0, None
    for batch in waiting:
        try:
            is_started = await _dispatch_batch(thread, client, batch, on_missing_deployment)
        except SERVER_ERRORS as error:
            # Batches that Prefect fails to start hold no others back; after two failures Prefect may be unavailable.
            failed_batches.add(batch.id)
            log.warning("batch.not_dispatched", batch_id=batch.id, source=batch.source, reason=failure_reason(error))
            if failure is not None:
                raise
            failure = error
            continue
        if is_started:
            started += 1
            on_start()
    if failure is not None:
        raise failure
    return started


async def _dispatch_batch(
    thread: LoopThread, client: PrefectClient, batch: Batch, on_missing_deployment: Callable[[], None]
) -> bool:
    """Create or resume the flow run of a batch; False while it must wait."""
    if batch.resumes:
        if await thread.run(job_queue.is_behind_others, batch.id):
            return False
        if not await prefect_client.resume_flow_run(client, batch.resumes):
            log.warning("batch.not_resumed", batch_id=batch.id, flow_run_id=batch.resumes)
            await thread.run(suspension.begin_without_flow_run, batch)
            return True
    try:
        flow_run = batch.resumes or await prefect_client.start_flow_run(client, batch)
    except ObjectNotFound:
        log.warning("batch.not_dispatched", batch_id=batch.id, source=batch.source, reason="no deployment")
        on_missing_deployment()
        return False
    await thread.run(batches.record_flow_run, batch, flow_run)
    log.info("batch.dispatched", batch_id=batch.id, job_runs=len(batch.job_runs), attempt=batch.attempt)
    await thread.run(notifications.notify_listeners, notifications.FLOW_RUNS_CHANNEL)
    return True


async def start_evaluations(thread: LoopThread, client: PrefectClient) -> None:
    """Start flow runs of waiting evaluations, also after a lost worker."""
    due = await thread.run(runs.list_waiting)
    for index, run in enumerate(due):
        try:
            await prefect_client.start_evaluation(client, run.id, run.attempt, run.requested_at)
        except SERVER_ERRORS:
            await thread.run(runs.retry_start, [waiting_run.id for waiting_run in due[index:]])
            raise
        log.info("evaluation.dispatched", run_id=run.id, attempt=run.attempt)
        await thread.run(notifications.notify_listeners, notifications.FLOW_RUNS_CHANNEL)


async def emit_events(thread: LoopThread) -> int:
    """Emit the oldest waiting events to Prefect; return their number."""
    rows = await thread.run(queries_feed.list_waiting)
    if rows:
        await prefect_client.emit_events(rows)
        # After the emission: a failed one is repeated.
        await thread.run(queries_feed.mark_emitted, [row.id for row in rows])
    return len(rows)
