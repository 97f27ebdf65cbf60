"""Services of an API process, created at start-up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Final, NamedTuple, ParamSpec, TypeVar
from weakref import WeakValueDictionary

import structlog

from api.links import LinkSigners, ServerSecret
from retrieval.accounts.audit import AuditWriter
from retrieval.database import cursors
from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.documents import receipts
from retrieval.errors import ErrorCode, ServiceError
from retrieval.jobs.activity import SearchTimes
from retrieval.jobs.notifications import Notifications
from retrieval.metrics.figures import MetricsReader, Reading
from retrieval.readiness import roles
from retrieval.search.weak_searches import WeakSearches
from retrieval.security.secrets import KeyRing
from retrieval.settings import Settings
from retrieval.statuses import RunStatus

# Threads for synchronous ports: embedding of queries, vector stores, files.
PORT_THREADS = 8
# More run no faster; the other threads and processors are for other organizations and for ingestion.
SEARCHES_PER_ORGANIZATION = max(2, min(PORT_THREADS // 2, os.cpu_count() or 1))
# Own threads, so a hanging vendor delays no search.
MAX_CONFIG_CHECKS = 12
MAX_BROWSE_REQUESTS = 8
VENDOR_THREADS, VENDOR_CALLS_PER_NAMESPACE = 64, 8
RERANKING_THREADS = 16

CallP = ParamSpec("CallP")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Services:
    """Shared services of route handlers."""

    db: Database
    ring: KeyRing
    settings: Settings
    notices: Notifications
    threads: ThreadPoolExecutor
    links: LinkSigners
    probing: ProbeThreads
    times: SearchTimes
    drawings: ConcurrencyLimit
    conversions: ConcurrencyLimit
    # Conversions with OCR, which take minutes.
    recognitions: ConcurrencyLimit
    cursor_secret: ServerSecret
    receipt_secret: ServerSecret
    audit: AuditWriter
    figures: MetricsReader
    reranking: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(RERANKING_THREADS, "rerank"))
    vendor_threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(VENDOR_THREADS, "vendor"))
    # Set when this process is about to end.
    ending: threading.Event = field(default_factory=threading.Event)
    # Lists folders of content services.
    browsing: ProbeThreads = field(default_factory=lambda: ProbeThreads(MAX_BROWSE_REQUESTS))
    # Reads figures; a slow count delays no search.
    figure_threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "figures"))
    waits: LongPoll = field(init=False)
    storage: StorageProbe = field(init=False)
    weak_searches: WeakSearches = field(init=False)
    # Slots for vendor calls by namespace and for searches by organization.
    _slots: WeakValueDictionary[str, asyncio.Semaphore] = field(default_factory=WeakValueDictionary)
    # Time of the last success of `/ready`, for requests only (True) or everything (False).
    ready_at: dict[bool, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "waits", LongPoll(self.db, self.ending))
        object.__setattr__(self, "storage", StorageProbe(self.db, self.settings))
        object.__setattr__(self, "weak_searches", WeakSearches(self.db))

    async def read_figures(self, organization: str) -> Reading:
        """Read the organization's figures; one organization at a time."""
        return await asyncio.get_running_loop().run_in_executor(self.figure_threads, self.figures.read, organization)

    async def call_vendor(
        self, namespace: str, function: Callable[CallP, ResultT], *args: CallP.args, **kwargs: CallP.kwargs
    ) -> ResultT:
        """Call a function that uses a vendor of the namespace."""
        slot = self._slots.setdefault(namespace, asyncio.Semaphore(VENDOR_CALLS_PER_NAMESPACE))
        return await _call_in_slot(slot, self.vendor_threads, lambda: function(*args, **kwargs))

    async def run_search(
        self, organization: str, function: Callable[CallP, ResultT], *args: CallP.args, **kwargs: CallP.kwargs
    ) -> ResultT:
        """Call a part of a search, after a wait for one of the organization's slots."""
        slot = self._slots.setdefault(organization, asyncio.Semaphore(SEARCHES_PER_ORGANIZATION))
        return await _call_in_slot(slot, self.threads, lambda: function(*args, **kwargs))

    async def run_in_thread(
        self, function: Callable[CallP, ResultT], *args: CallP.args, **kwargs: CallP.kwargs
    ) -> ResultT:
        """Call a blocking function; wait while all threads are busy."""
        loop, context = asyncio.get_running_loop(), copy_context()
        return await loop.run_in_executor(self.threads, lambda: context.run(function, *args, **kwargs))


async def _call_in_slot(
    slot: asyncio.Semaphore, threads: ThreadPoolExecutor, function: Callable[[], ResultT]
) -> ResultT:
    # The slot is released when the call ends, not when its caller stops waiting.
    loop, context = asyncio.get_running_loop(), copy_context()
    await slot.acquire()

    def give_back(_: Future[ResultT]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(slot.release)

    call = threads.submit(lambda: context.run(function))
    call.add_done_callback(give_back)
    return await asyncio.wrap_future(call)


def make_services(settings: Settings, database: Database, ring: KeyRing) -> Services:
    """Create the services of a process; the database is not opened yet."""
    return Services(
        database,
        ring,
        settings,
        Notifications(database),
        ThreadPoolExecutor(PORT_THREADS, thread_name_prefix="port"),
        LinkSigners(database, ring, settings.base_url, settings.link_seconds),
        ProbeThreads(MAX_CONFIG_CHECKS),
        SearchTimes(database),
        ConcurrencyLimit(),
        ConcurrencyLimit("files are being converted"),
        ConcurrencyLimit("files are being recognised"),
        ServerSecret(database, ring, cursors.SECRET_NAME),
        ServerSecret(database, ring, receipts.SIGNING_SECRET),
        AuditWriter(database),
        MetricsReader(database),
    )


# Maximum age of a probe's result.
STORAGE_PROBE_SECONDS: Final = 5.0
# Longest wait of a request for the probe.
STORAGE_WAIT_SECONDS: Final = 2.0


class StorageProbe:
    """Probe of database writes and the file folder, shared by concurrent requests."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db = db
        self._settings = settings
        self._probe: asyncio.Task[tuple[str, ...]] | None = None
        self._begun = float("-inf")

    async def list_problems(self) -> tuple[str, ...]:
        """Return a sentence for each problem; none while the database does not answer, which other probes report."""
        probe = self._probe
        if probe is None or (probe.done() and time.monotonic() - self._begun > STORAGE_PROBE_SECONDS):
            self._begun = time.monotonic()
            probe = self._probe = asyncio.create_task(roles.storage_problems(self._db, self._settings))
        # Another request may replace `self._probe` during this wait.
        answered, _ = await asyncio.wait({probe}, timeout=STORAGE_WAIT_SECONDS)
        try:
            return probe.result() if answered else ()
        except UNAVAILABLE_ERRORS:
            return ()


class ProbeThreads:
    """At most `limit` concurrent calls in threads, half per organization; used from a single event loop."""

    def __init__(self, limit: int) -> None:
        self._free = asyncio.Semaphore(limit)
        self._share = limit // 2
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def run_call(self, organization: str, call: Callable[[], None]) -> None:
        """Run `call`, raising its errors; a cancelled call keeps its slot until the end."""
        # Vendors that do not answer hold up the calls of one organization, not of all.
        share = self._shares.setdefault(organization, asyncio.Semaphore(self._share))
        await share.acquire()
        try:
            await self._free.acquire()
        except asyncio.CancelledError:
            share.release()
            raise
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def settle_outcome(error: Exception | None) -> None:
            self._free.release()
            share.release()
            if ended.done():
                return
            if error is None:
                ended.set_result(None)
            else:
                ended.set_exception(error)

        def run_and_report() -> None:
            outcome: Exception | None = None
            try:
                call()
            except Exception as error:  # noqa: BLE001  (carried over to the task that waits)
                outcome = error
            with contextlib.suppress(RuntimeError):  # the loop may have ended
                loop.call_soon_threadsafe(settle_outcome, outcome)

        threading.Thread(target=run_and_report, name="probe", daemon=True).start()
        await ended


log = structlog.get_logger()

POLL_SECONDS = 0.25
_DELETED_STATUS = "GONE"
_STATUS_ORDER = (*RunStatus, _DELETED_STATUS)


class LatestStatus(NamedTuple):
    id: str
    status: RunStatus


class LongPoll:
    """Waiting requests for the next status of job runs."""

    # A waiting request holds no connection; requests for one run share an entry.

    def __init__(self, db: Database, ending: threading.Event) -> None:
        self._db = db
        self._ending = ending
        self._waiting: Counter[str] = Counter()
        self._statuses: dict[str, str] = {}
        self._polled = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def wait_past(self, job_run_id: str, status: RunStatus, *, seconds: float) -> None:
        """Wait for another status, the run's deletion, the timeout or the end of the process."""
        if seconds <= 0:
            return
        self._waiting[job_run_id] += 1
        self._statuses.setdefault(job_run_id, status)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll_statuses())
        try:
            async with asyncio.timeout(seconds), self._polled:
                await self._polled.wait_for(lambda: self._ending.is_set() or self._is_past(job_run_id, status))
        except TimeoutError:
            return
        finally:
            self._waiting[job_run_id] -= 1
            if not self._waiting[job_run_id]:
                del self._waiting[job_run_id], self._statuses[job_run_id]

    def _is_past(self, job_run_id: str, status: RunStatus) -> bool:
        # The last read may be older than the request's: a status never goes back.
        latest = self._statuses.get(job_run_id)
        return latest is None or _STATUS_ORDER.index(latest) > _STATUS_ORDER.index(status)

    async def _poll_statuses(self) -> None:
        while self._waiting:
            await asyncio.sleep(POLL_SECONDS)
            ids = sorted(self._waiting)
            try:
                statement = "select id, status from job_runs where id = any(%(ids)s)"
                rows = await self._db.async_fetch(LatestStatus, statement, {"ids": ids}, plan_once=True)
            except UNAVAILABLE_ERRORS as error:
                log.warning("long_poll.waiting", reason=type(error).__name__)
            else:
                statuses = {row.id: row.status for row in rows}
                for job_run_id in self._statuses.keys() & ids:  # others have come since, and are looked for next time
                    self._statuses[job_run_id] = statuses.get(job_run_id, _DELETED_STATUS)
            async with self._polled:
                self._polled.notify_all()


# Concurrent calls of one process, each for another organization.
MAX_CONCURRENT_CALLS = 2
# Running and waiting calls of one process.
MAX_PENDING_CALLS = 8
MAX_PENDING_CALLS_PER_ORGANIZATION = 4


class ConcurrencyLimit:
    """Bounded threads for calls that read a whole file and run a child process."""

    def __init__(self, work: str = "pages are being drawn") -> None:
        # `work` appears in the refusal and in thread names.
        self._work = work
        self._threads = ThreadPoolExecutor(MAX_CONCURRENT_CALLS, thread_name_prefix=work.rpartition(" ")[2])
        self._counts: Counter[str] = Counter()
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def run(self, organization: str, call: Callable[[], ResultT]) -> ResultT:
        """Return the result of `call`; raise SERVICE_UNAVAILABLE with Retry-After above the limit."""
        if (
            self._counts.total() >= MAX_PENDING_CALLS
            or self._counts[organization] >= MAX_PENDING_CALLS_PER_ORGANIZATION
        ):
            raise ServiceError(
                ErrorCode.SERVICE_UNAVAILABLE,
                f"Too many {self._work} just now. Try again in a moment.",
                headers={"Retry-After": "2"},
            )
        self._counts[organization] += 1
        running = asyncio.ensure_future(self._run_in_turn(organization, call))
        running.add_done_callback(lambda _: self._release(organization))
        # A call whose client disconnected is counted until it ends.
        return await asyncio.shield(running)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run_in_turn(self, organization: str, call: Callable[[], ResultT]) -> ResultT:
        async with self._turns[organization]:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _release(self, organization: str) -> None:
        self._counts[organization] -= 1
        if not self._counts[organization]:
            del self._counts[organization]
            del self._turns[organization]
