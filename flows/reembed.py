"""The flow that embeds a namespace's documents again, for another model or vector store, beside what is searched."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Completed

from flows import context, endings, report, tasks, trial
from flows.heartbeat import beating
from flows.ingest import WINDOW_DOCUMENTS, run_step
from flows.origins import following
from flows.steps import Work
from flows.turns import Turn
from retrieval import settings
from retrieval.errors import Fatal
from retrieval.ingestion import items, poison_detection, reembedding, reembedding_swap, results
from retrieval.ingestion.reembedding import Window
from retrieval.jobs import notifications, run_outcome
from retrieval.jobs.circuits import Circuits
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease, Superseded
from retrieval.namespaces.namespaces import NamespaceConfig


@flow(name="reembed", persist_result=False)
async def reembed(batch_id: str, attempt: int) -> State[None]:
    """Embed all documents of a namespace for its next model or vector store."""
    try:
        return await _reembed(batch_id, attempt)
    except endings.AWAY as error:
        return endings.away(error)


async def _reembed(batch_id: str, attempt: int) -> State[None]:
    db, seconds = context.database(), settings.load().lease_seconds
    lease = batches.claim(db, batch_id, attempt, seconds=seconds)
    if lease is None:
        return endings.unclaimed(batch_id)
    turn, circuits = Turn(db, lease), Circuits(db, lease)
    with following(db, lease), beating(db, lease, seconds=seconds):
        try:
            swapped = await rebuild(lease, turn, circuits)
            if swapped is None:
                turn.hand_back(circuits)
                circuits.end()
                notifications.tell(db)
                return Completed(message="Others were waiting, or somebody does not answer: it goes on later.")
        except Superseded:
            return endings.unclaimed(batch_id)
        reembedding.drop(db, lease)
        batches.finish(db, lease)
        circuits.end()
    await report.results(lease.scope.namespace, results.table(db, lease))
    if swapped:
        return Completed(message="The namespace is searched with its new model and vector store.")
    message = "Search stays with the old model and vector store; see the result table."
    return endings.state(run_outcome.of_batch(db, batch_id), message)


async def rebuild(lease: Lease, turn: Turn, circuits: Circuits) -> bool | None:
    """Build until every document is current, then swap; False if it was cancelled, a document failed or the gate
    refused it. Documents that arrive during the evaluation are built too, and not evaluated again.

    None if it is to go on in another flow run: the turn is over, or the new model or store does not answer.
    """
    db, ring, language = context.database(), context.keys(), settings.load().keyword_language
    passed = False
    while (target := await asyncio.to_thread(reembedding.target, db, ring, lease)) is not None:
        later, job_run = target
        await asyncio.to_thread(reembedding.refresh, db, lease, job_run)
        windows = await asyncio.to_thread(reembedding.windows, db, lease, size=WINDOW_DOCUMENTS)
        progress = await report.Shown.start(lease.scope.namespace, sum(len(window.keys) for window in windows))
        for window in windows:
            if turn.is_over():
                return None
            with (
                poison_detection.alone(db, window.lease, window.keys[0].document_id) if window.alone else nullcontext()
            ):
                await _through(window, later, circuits, items.label(db, window.keys))
            if circuits.left_out:
                return None
            await progress.add(len(window.keys))
        if await asyncio.to_thread(reembedding.failed, db, job_run):
            get_run_logger().warning("A document could not be embedded again: nothing is swapped.")
            return False
        passed = passed or await trial.passes(lease, job_run, later, circuits)
        if not passed:
            return None if circuits.left_out else False
        if await asyncio.to_thread(reembedding_swap.swap, db, ring, lease, job_run, later, language):
            return True
    return False


async def _through(window: Window, later: NamespaceConfig, circuits: Circuits, label: str) -> None:
    """One window through cutting, embedding and storing. What cannot be done fails those documents with the reason."""
    db = context.database()
    items.start(db, window.lease, window.keys)
    try:
        for step in tasks.REBUILDING:
            await run_step(
                step, Work(db, context.keys(), window.lease, window.keys, later, label=label, circuits=circuits)
            )
            results.settle(db, window.lease)
    except Superseded:
        raise
    except Fatal as error:
        items.fail(db, window.lease, dict.fromkeys(window.keys, str(error)))
