"""Ingestion pipeline: discover, fetch, parse, chunk, embed, upsert."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Final, Self

from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger

from flows import flow_states, report, tag_limits, tasks
from flows.run_context import RunContext
from flows.step_outcome import Predecessors, StepResult
from flows.steps import Work, prepare_parser
from flows.tasks import run_step
from retrieval.errors import ConfigChanged
from retrieval.ingestion import crash_isolation
from retrieval.ingestion.items import WINDOW_DOCUMENTS
from retrieval.ingestion.queries import crashes, listings, results, run_documents
from retrieval.jobs import notifications, run_outcome
from retrieval.jobs.queries import progress
from retrieval.jobs.queries.batches import DocumentKey
from retrieval.sources import STORED_SOURCES

# Windows of known documents are larger: most are unchanged, and one query finds those.
KNOWN_WINDOW_DOCUMENTS: Final = 1024
WINDOW_BYTES: Final = 16 * 1024 * 1024
# One window is embedded while the next is fetched and parsed.
MAX_WINDOWS: Final = 2
# A larger document is chunked, embedded and stored separately from its window.
LARGE_CHARACTERS: Final = 1_000_000
# Wait this long for slow files before the finished ones continue.
SLOW_FILE_SECONDS: Final = 3.0


async def run_ingestion(batch_id: str, attempt: int) -> State[None]:
    """Ingest a batch under a lease; return the flow run's final state."""
    tag_limits.prefetch_limits()
    async with flow_states.claim_batch(batch_id, attempt, retries_documents=True) as batch:
        if (run := batch.run) is not None:
            await ingest_documents(run)
            handed_back = await run.close_batch()
            batch.report = partial(report_outcome, run, handed_back)
    return batch.state


async def ingest_documents(run: RunContext) -> None:
    """Discover, fetch, parse, chunk, embed and upsert the documents of a batch."""
    discovered: Sequence[StepResult] = ()

    async def ingest_window(window: Work) -> None:
        fetched = await run_step(tasks.fetch, window, discovered)
        for part in split_window(run, window):
            parsing = asyncio.create_task(run_step(tasks.parse, part, fetched))
            await for_each_parsed(part, parsing, fetched, store_part)

    async def store_part(part: Work, parsed: Predecessors) -> None:
        chunked = await run_step(tasks.chunk, part, parsed)
        embedded = await run_step(tasks.embed, part, chunked)
        await run_step(tasks.upsert, part, embedded)

    async with run.intake:
        discovered = await discover_documents(run)
        async with WindowScheduler(run) as windows:
            async for window in windows:
                windows.start(window, ingest_window(window))
        results.settle_runs(run.db, run.lease)


async def report_outcome(run: RunContext, handed_back: int) -> State[None]:
    """Report each document's outcome; return the flow run's final state."""
    notifications.notify_listeners(run.db)
    rows = results.list_outcomes(run.db, run.lease)
    skipped, removed = results.count_skipped(run.db, run.lease), results.count_removed(run.db, run.lease)
    await report.report_results(run.namespace, rows, skipped, removed)
    counts = results.count_progress(run.db, run.lease)
    message = report.summarize_batch(counts, rows, handed_back, is_blocked=run.is_blocked)
    return flow_states.final_state(run_outcome.list_batch_outcomes(run.db, run.lease.batch_id), message)


async def discover_documents(run: RunContext) -> list[StepResult]:
    """List the documents of job runs without a list; a failed listing fails one job run only."""
    discovered: list[StepResult] = []
    for listing in await asyncio.to_thread(listings.pending_listings, run.db, run.lease):
        if not run.should_continue():
            break
        show_progress = partial(progress.read_progress, run.db, listing.job_run_id)
        async with report.report_listing(run.namespace, show_progress):
            with crash_isolation.mark_isolated(run.db, run.lease, listing.job_run_id):
                result = await run_step(tasks.discover, run.make_discovery(listing))
        discovered += [result] if isinstance(result, StepResult) else []
    return discovered


class WindowScheduler:
    """Yield windows of open documents, at most `MAX_WINDOWS` at once, until none is open or the time slice ends."""

    # Documents from archives, and job runs that join the batch, get later windows. A document that crashed its process
    # runs last, in its own window.

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._listed_keys: set[DocumentKey] = set()
        self._waiting_windows: deque[tuple[Sequence[DocumentKey], report.ProgressBar]] = deque()
        self._running_windows: dict[asyncio.Task[None], tuple[Work, report.ProgressBar | None]] = {}
        self._bar: report.ProgressBar | None = None
        self._listed_at = 0.0
        self._must_list = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, asyncio.CancelledError):
            for window in self._running_windows:
                window.cancel()
        await asyncio.gather(*self._running_windows, return_exceptions=True)

    def start(self, window: Work, ingestion: Coroutine[None, None, None]) -> None:
        """Start the ingestion of the last yielded window."""
        self._running_windows[asyncio.create_task(ingestion)] = window, self._bar

    async def __aiter__(self) -> AsyncIterator[Work]:
        run = self._run
        while True:
            if not run.should_continue():
                self._waiting_windows.clear()
            elif (
                self._must_list and not self._waiting_windows
            ) or time.monotonic() > self._listed_at + SLOW_FILE_SECONDS:
                await self._list_new_windows()
            if self._waiting_windows and len(self._running_windows) < MAX_WINDOWS:
                keys, self._bar = self._waiting_windows.popleft()
                yield self._prepare_window(keys)
            elif self._running_windows:
                await self._wait_for_window()
            elif run.should_continue() and (suspect := self._next_suspect()):
                self._bar = None
                with crash_isolation.mark_isolated(run.db, run.lease, suspect.document_id):
                    yield self._prepare_window([suspect])
                    while self._running_windows:
                        await self._wait_for_window()
            else:
                return

    async def _list_new_windows(self) -> None:
        """List new documents of the batch, including joined job runs."""
        run = self._run
        if not run.is_blocked:
            await run.intake.append_waiting()
        known_limit = KNOWN_WINDOW_DOCUMENTS if run.lease.source in STORED_SOURCES else None
        windows = run_documents.list_windows(
            run.db, run.lease, documents=WINDOW_DOCUMENTS, size=WINDOW_BYTES, updates=known_limit
        )
        new_windows = [[key for key in window if key not in self._listed_keys] for window in windows]
        bar = report.ProgressBar(run.namespace, sum(map(len, new_windows)))
        self._waiting_windows.extend((window, bar) for window in new_windows if window)
        self._listed_keys.update(*new_windows)
        self._listed_at, self._must_list = time.monotonic(), False

    def _next_suspect(self) -> DocumentKey | None:
        suspects = crashes.list_suspects(self._run.db, self._run.lease)
        suspect = next((key for key in suspects if key not in self._listed_keys), None)
        if suspect is not None:
            self._listed_keys.add(suspect)
        return suspect

    def _prepare_window(self, keys: Sequence[DocumentKey]) -> Work:
        work = self._run.make_work(keys)
        if len(keys) <= WINDOW_DOCUMENTS:  # a larger window is mostly unchanged and needs no parser
            prepare_parser(work)
        return work

    async def _wait_for_window(self) -> None:
        """Wait up to `SLOW_FILE_SECONDS` for a window; raise errors of the ingestion."""
        ended, _ = await asyncio.wait(
            self._running_windows, timeout=SLOW_FILE_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        self._must_list = self._must_list or bool(ended)
        for task in ended:
            window, bar = self._running_windows.pop(task)
            try:
                task.result()
            except ConfigChanged:
                get_run_logger().info("The namespace's model or vector store changed: embedding again.")
                self._listed_keys.difference_update(window.window)
            if bar is not None:
                await bar.add(len(window.window))


def split_window(run: RunContext, window: Work) -> Iterator[Work]:
    """Yield a window, or parts of `WINDOW_DOCUMENTS` open documents while the time slice lasts."""
    if len(window.window) <= WINDOW_DOCUMENTS:
        yield window
        return
    open_keys = run_documents.list_open(run.db, window.window)
    for start in range(0, len(open_keys), WINDOW_DOCUMENTS):
        if not run.should_continue():
            return
        yield window.narrow_to(open_keys[start : start + WINDOW_DOCUMENTS])


async def for_each_parsed(
    window: Work,
    parsing: asyncio.Task[Predecessors],
    fetched: Predecessors,
    store_part: Callable[[Work, Predecessors], Coroutine[None, None, None]],
) -> None:
    """Call `store_part` with parsed documents while slow files are parsed; large documents run one by one."""
    storing: list[asyncio.Task[None]] = []  # of one large document
    started: set[DocumentKey] = set()
    try:
        while True:
            if running := [task for task in (parsing, *storing) if not task.done()]:
                await asyncio.wait(running, timeout=SLOW_FILE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            is_parsed = parsing.done()
            parsed = parsing.result() if is_parsed else fetched
            if storing and storing[0].done():
                storing.pop().result()
            results.settle_runs(window.db, window.lease)
            items = run_documents.parsed_items(window.db, window.lease, window.window)
            ready = [item for item in items if item.key not in started]
            large = [item.key for item in ready if item.characters > LARGE_CHARACTERS][:1]
            if large and not storing:
                started.update(large)
                storing.append(asyncio.create_task(store_part(window.narrow_to(large), parsed)))
            if small := [item.key for item in ready if item.characters <= LARGE_CHARACTERS]:
                started.update(small)
                await store_part(window.narrow_to(small), parsed)
            elif is_parsed and not storing:
                return
    except asyncio.CancelledError:
        for task in (parsing, *storing):
            task.cancel()
        raise
    finally:
        await asyncio.gather(parsing, *storing, return_exceptions=True)
