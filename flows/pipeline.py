"""Ingestion pipeline: discover, fetch, parse, chunk, embed, upsert."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger

from flows import context, flow_states, report, tasks
from flows.run_context import Intake, TimeSlice
from flows.steps import Discovery, Work, prepare_parser
from retrieval.errors import ConfigChanged, Fatal, Retryable, StepError, Unavailable
from retrieval.ingestion import discover as discovering
from retrieval.ingestion import poison_detection
from retrieval.ingestion.queries import listings, poison, results, run_documents
from retrieval.ingestion.queries.results import Progress
from retrieval.jobs import names, notifications, run_outcome
from retrieval.jobs.breaker_watch import Circuits
from retrieval.jobs.queries import batches, progress
from retrieval.jobs.queries.batches import DocumentKey, Lease, Superseded
from retrieval.logs import without_query
from retrieval.sources import STORED

WINDOW_DOCUMENTS = 64
WINDOW_KNOWN = 1024
"""Of documents that were sent again: most are as they were, which is told by one look at all of them."""
WINDOW_BYTES = 16 * 1024 * 1024
WINDOWS_AT_ONCE = 2
"""While one window embeds, the next is fetched and parsed."""
LARGE_CHARACTERS = 1_000_000
"""Of a parsed document whose later steps take long: others of its window do not wait for them."""
PATIENCE_SECONDS = 3.0
"""After which what is done, or was found meanwhile, goes on without the files of a window that take longer."""


async def run_ingestion(batch_id: str, attempt: int) -> State[None]:
    """Ingest the documents of a batch and return the final state of its flow run."""
    return await flow_states.run_batch(batch_id, attempt, _ingest, retries_documents=True)


async def _ingest(lease: Lease) -> Callable[[], Awaitable[State[None]]]:
    """Take every document through the pipeline."""
    db = context.open_database()
    time_slice, circuits, later = TimeSlice(db, lease), Circuits(db, lease), 0
    async with Intake(db, lease) as intake:
        while True:
            await _discover(lease, time_slice, circuits)
            await _pipeline(lease, time_slice, circuits, intake)
            results.settle_runs(db, lease)
            if time_slice.is_over() or circuits.left_out or not await intake.take_next():
                break
    if time_slice.has_ended or circuits.left_out:
        later = time_slice.hand_back(circuits)
    else:
        batches.finish_batch(db, lease)
    circuits.end()
    return partial(_end, lease, later, circuits)


async def _end(lease: Lease, later: int, circuits: Circuits) -> State[None]:
    """Say how each document ended. `later`: job runs that go on in another flow run."""
    db = context.open_database()
    notifications.notify_listeners(db)
    rows = results.list_outcomes(db, lease)
    await report.report_results(
        lease.scope.namespace, rows, results.count_skipped(db, lease), results.count_removed(db, lease)
    )
    message = _message(results.count_progress(db, lease), rows, later, circuits)
    return flow_states.final_state(run_outcome.of_batch(db, lease.batch_id), message)


def _message(counts: Progress, rows: Sequence[results.Outcome], later: int, circuits: Circuits) -> str:
    """The message of the flow run's final state: counts, and up to three failed documents with their reasons."""
    total = names.counted_noun(counts.documents, "document")
    if later and circuits.left_out:
        waiting = names.counted_noun(later, "job run")
        return f"{total} so far. {waiting} wait for a service that does not answer; see the logs."
    if later:
        return (
            f"{total} so far. Others were waiting: {names.counted_noun(later, 'job run')} went on in another flow run."
        )
    if counts.failed or counts.cancelled:
        parts = {"failed": counts.failed, "cancelled": counts.cancelled}
        return (
            f"{total}: {', '.join(f'{n:,} {word}' for word, n in parts.items() if n)}.{report.describe_failures(rows)}"
        )
    return f"{total} ingested."


async def _discover(lease: Lease, time_slice: TimeSlice, circuits: Circuits) -> None:
    """Let each job run that does not know it find out what to ingest; its failure is one entry of that run."""
    db = context.open_database()
    for listing in await asyncio.to_thread(listings.waiting_listings, db, lease):
        if time_slice.is_over():
            return
        try:
            async with report.report_listing(
                lease.scope.namespace, partial(progress.read_progress, db, listing.job_run_id)
            ):
                named_task = tasks.name_task(
                    tasks.discover, names.host_name(listing.request.config.get("url")) or listing.job_run_id
                )
                step = partial(
                    named_task, Discovery(db, context.load_keys(), lease, listing, time_slice.goes_on, circuits)
                )
                with poison_detection.mark_alone(db, lease, listing.job_run_id):
                    await tasks.wait_and_repeat(db, lease, step)
        except Superseded:
            raise
        except Unavailable as error:
            get_run_logger().warning("%s", error)
        except StepError as error:
            await asyncio.to_thread(discovering.fail_listing, db, lease, listing, str(error))


async def _pipeline(lease: Lease, time_slice: TimeSlice, circuits: Circuits, intake: Intake) -> None:
    """Process everything open, then documents that were found packed or sent meanwhile, until none is new or the time
    slice is over. Windows with slow files are not waited for.

    What a process may have died of comes last, one by one.
    """
    db = context.open_database()
    seen_keys: set[DocumentKey] = set()
    places = asyncio.Semaphore(WINDOWS_AT_ONCE)
    running: set[asyncio.Task[None]] = set()
    try:
        while True:
            if not (is_over := time_slice.is_over()):
                if not circuits.left_out:
                    await intake.look()
                if windows := _windows(lease, seen_keys):
                    seen_keys.update(*windows)
                    running.add(asyncio.create_task(_side_by_side(lease, windows, places, time_slice, circuits)))
            if running:
                done, running = await asyncio.wait(
                    running, timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                for ended in done:
                    ended.result()
            elif is_over:
                return
            elif suspect := next((key for key in poison.list_suspects(db, lease) if key not in seen_keys), None):
                seen_keys.add(suspect)
                with poison_detection.mark_alone(db, lease, suspect.document_id):
                    await _through(lease, [suspect], time_slice, circuits, run_documents.window_label(db, [suspect]))
            else:
                return
    except asyncio.CancelledError:
        for window in running:
            window.cancel()
        raise
    finally:
        await asyncio.gather(*running, return_exceptions=True)


def _windows(lease: Lease, seen: set[DocumentKey]) -> list[list[DocumentKey]]:
    window_size = WINDOW_KNOWN if lease.source in STORED else None
    windows = run_documents.list_windows(
        context.open_database(), lease, documents=WINDOW_DOCUMENTS, size=WINDOW_BYTES, known=window_size
    )
    new = [[key for key in window if key not in seen] for window in windows]
    return [window for window in new if window]


async def _side_by_side(
    lease: Lease,
    windows: Sequence[Sequence[DocumentKey]],
    places: asyncio.Semaphore,
    time_slice: TimeSlice,
    circuits: Circuits,
) -> None:
    progress = report.ProgressBar(lease.scope.namespace, sum(map(len, windows)))

    async def run_window(window: Sequence[DocumentKey]) -> None:
        async with places:
            if time_slice.is_over():
                return
            label = run_documents.window_label(context.open_database(), window)
            for part in await _changed(lease, window, time_slice, circuits, label):
                if part is not window and time_slice.is_over():
                    return
                await _through(lease, part, time_slice, circuits, label)
            await progress.add(len(window))

    ended = await asyncio.gather(*map(run_window, windows), return_exceptions=True)
    if trouble := [error for error in ended if error is not None]:
        raise trouble[0]


async def _changed(
    lease: Lease, window: Sequence[DocumentKey], time_slice: TimeSlice, circuits: Circuits, label: str
) -> list[Sequence[DocumentKey]]:
    """The window as it is; of a large one, after its content was looked at, what has changed, in usual windows."""
    if len(window) <= WINDOW_DOCUMENTS:
        return [window]
    db = context.open_database()
    try:
        work = Work(db, context.load_keys(), lease, window, label=label, goes_on=time_slice.goes_on, circuits=circuits)
        await run_step(tasks.fetch, work)
        results.settle_runs(db, lease)
    except Superseded:
        raise
    except Fatal as error:
        get_run_logger().warning("%s", without_query(str(error)))  # told of each part when it comes to it
    open_items = run_documents.open_of(db, window)
    return [open_items[start : start + WINDOW_DOCUMENTS] for start in range(0, len(open_items), WINDOW_DOCUMENTS)]


async def _through(
    lease: Lease, window: Sequence[DocumentKey], time_slice: TimeSlice, circuits: Circuits, label: str = ""
) -> None:
    """One window through all steps. What a step cannot do, after its retries, fails those documents with the reason."""
    db = context.open_database()
    try:
        while not await _attempt(lease, window, time_slice, circuits, label):
            get_run_logger().info("The namespace got another model or vector store: embedding again.")
    except Superseded:
        raise
    except Fatal as error:
        run_documents.fail_items(db, lease, dict.fromkeys(window, str(error)))
        results.settle_runs(db, lease)


async def _attempt(
    lease: Lease, window: Sequence[DocumentKey], time_slice: TimeSlice, circuits: Circuits, label: str
) -> bool:
    """Tell whether all steps counted; False if the namespace got another model or store before the last one."""
    db = context.open_database()
    work = Work(db, context.load_keys(), lease, window, label=label, goes_on=time_slice.goes_on, circuits=circuits)
    prepare_parser(work)
    try:
        await run_step(tasks.fetch, work)
        results.settle_runs(db, lease)
        if run_documents.open_of(db, window):
            await _from_parsing_on(work)
    except ConfigChanged:
        return False
    return True


async def _from_parsing_on(work: Work) -> None:
    """Parse the window and take each document through the later steps once: without those whose parsing takes long, and
    apart from large ones, which take these steps one by one."""
    running = {parsing := asyncio.create_task(run_step(tasks.parse, work))}
    begun: set[DocumentKey] = set()
    try:
        while True:
            if running:
                ended, running = await asyncio.wait(
                    running, timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                for task in ended:
                    task.result()
            is_parsed = parsing.done()
            results.settle_runs(work.db, work.lease)
            parsed = [
                item for item in run_documents.parsed_items(work.db, work.lease, work.window) if item.key not in begun
            ]
            large = [item.key for item in parsed if item.characters > LARGE_CHARACTERS][:1]
            if large and not running - {parsing}:
                begun.update(large)
                running.add(asyncio.create_task(_after_parsing(work.part(large))))
            if small_items := [item.key for item in parsed if item.characters <= LARGE_CHARACTERS]:
                begun.update(small_items)
                await _after_parsing(work.part(small_items))
            elif is_parsed and not running:
                return
    except asyncio.CancelledError:
        for task in running:
            task.cancel()
        raise
    finally:
        await asyncio.gather(*running, return_exceptions=True)


async def _after_parsing(work: Work) -> None:
    """Take parsed documents through the later steps. Steps for which nothing is left are no tasks."""
    for step in tasks.PIPELINE[tasks.PIPELINE.index(tasks.parse) + 1 :]:
        await run_step(step, work)
        results.settle_runs(work.db, work.lease)
        if not run_documents.open_of(work.db, work.window):
            return


async def run_step(step: tasks.Pipeline, work: Work) -> None:
    """Run a step with its retries; documents that it could not process fail with the reason.

    What needs somebody who does not answer stays as it is.
    """
    try:
        await tasks.wait_and_repeat(work.db, work.lease, partial(tasks.name_task(step, work.label), work))
    except Unavailable as error:
        get_run_logger().warning("%s: %s", step.name, error)
    except Retryable as error:
        get_run_logger().warning("%s gave up: %s", step.name, without_query(str(error)))
        remaining = [
            key for key in run_documents.not_past(work.db, work.lease, work.window, step.name) if not work.waits(key)
        ]
        run_documents.fail_items(
            work.db, work.lease, {key: _gave_up(step.name, error.each.get(key, error)) for key in remaining}
        )


def _gave_up(step: str, error: Retryable) -> str:
    """Error of a document that a step gave up on."""
    attempts = f"It was tried {tasks.RETRIES + 1} times; retry when the cause is gone."
    later = f"It asks to wait for {(error.after or 0) / 60:,.0f} minutes: retry after that."
    return f"{step}: {error} {attempts if tasks.is_soon(error) else later}"
