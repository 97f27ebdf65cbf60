"""The services that handlers use, made once at start-up."""

from __future__ import annotations

import asyncio
import contextlib
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

from api.links import Links, ServerSecret
from retrieval.accounts.audit import Writer
from retrieval.database import cursors
from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.documents import receipts
from retrieval.errors import ErrorCode, ServiceError
from retrieval.jobs.activity import SearchTimes
from retrieval.jobs.notifications import Notifications
from retrieval.metrics.figures import Figures, Reading
from retrieval.readiness import roles
from retrieval.search.weak_searches import WeakSearches
from retrieval.security.secrets import KeyRing
from retrieval.settings import Settings
from retrieval.statuses import RunStatus

THREADS = 8
"""Calls of sync ports at once: embedding a query, asking a vector store, writing a file."""

PROBES = 12
"""Checks of configs at once; they have threads of their own, so that a vendor that hangs keeps no search waiting."""

BROWSING = 8
"""Folders of content services that are asked for at once."""

VENDORS, OF_NAMESPACE = 64, 8
"""Searches at once that ask a vendor, in all and of one namespace, in threads of their own for the same reason."""

RERANKING = 16
"""Rerankings at once, in threads of their own for the same reason."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Services:
    """Database, key ring, settings, notices to the dispatcher, bounded threads for sync ports and for checks, links,
    how long searches take, drawings of pages, conversions of files, the audit log, and figures for monitoring."""

    db: Database
    ring: KeyRing
    settings: Settings
    notices: Notifications
    threads: ThreadPoolExecutor
    links: Links
    probing: ProbeThreads
    times: SearchTimes
    drawings: ConcurrencyLimit
    conversions: ConcurrencyLimit
    cursor_secret: ServerSecret
    receipt_secret: ServerSecret
    audit: Writer
    figures: Figures
    reranking: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(RERANKING, "rerank"))
    asking: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(VENDORS, "vendor"))
    """Asks the vendors of namespaces; the searches of one whose vendor hangs wait for each other."""
    ending: threading.Event = field(default_factory=threading.Event)
    """Set once this process is about to end."""
    browsing: ProbeThreads = field(default_factory=lambda: ProbeThreads(BROWSING))
    """Asks content services for people who choose; one that hangs keeps no search from its thread."""
    counting: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "figures"))
    """Reads figures: a slow count keeps no search from its thread."""
    waits: LongPoll = field(init=False)
    storage: StorageProbe = field(init=False)
    weak_searches: WeakSearches = field(init=False)
    _places: WeakValueDictionary[str, asyncio.Semaphore] = field(default_factory=WeakValueDictionary)
    """By namespace, for its searches that ask a vendor."""
    ready_at: dict[bool, float] = field(default_factory=dict)
    """When it was ready last, for requests only or for everything (`routes.health`)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "waits", LongPoll(self.db, self.ending))
        object.__setattr__(self, "storage", StorageProbe(self.db, self.settings))
        object.__setattr__(self, "weak_searches", WeakSearches(self.db))

    async def count(self, organization: str) -> Reading:
        """The organization's figures; one is read at a time."""
        return await asyncio.get_running_loop().run_in_executor(self.counting, self.figures.read, organization)

    async def at_vendor(self, namespace: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something that uses a vendor of the namespace. The slot is released when the call has really ended, not
        when its caller stops waiting."""
        loop, context = asyncio.get_running_loop(), copy_context()
        slot = self._places.setdefault(namespace, asyncio.Semaphore(OF_NAMESPACE))
        await slot.acquire()

        def give_back(_: Future[T]) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(slot.release)

        call = self.asking.submit(lambda: context.run(function, *args, **kwargs))
        call.add_done_callback(give_back)
        return await asyncio.wrap_future(call)

    async def in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something that blocks; waits while all threads are busy."""
        loop, context = asyncio.get_running_loop(), copy_context()
        return await loop.run_in_executor(self.threads, lambda: context.run(function, *args, **kwargs))


def make_services(settings: Settings, database: Database, ring: KeyRing) -> Services:
    """Make the services of one process; none of them opens the database yet."""
    return Services(
        database,
        ring,
        settings,
        Notifications(database),
        ThreadPoolExecutor(THREADS, thread_name_prefix="port"),
        Links(database, ring, settings.base_url, settings.link_seconds),
        ProbeThreads(PROBES),
        SearchTimes(database),
        ConcurrencyLimit(),
        ConcurrencyLimit("files are being converted"),
        ServerSecret(database, ring, cursors.SECRET_NAME),
        ServerSecret(database, ring, receipts.SECRET),
        Writer(database),
        Figures(database),
    )


STORAGE_PROBE_SECONDS: Final = 5.0
"""Age at which a result of the probe is replaced."""
STORAGE_WAIT_SECONDS: Final = 2.0
"""Longest wait of a request for the probe."""


class StorageProbe:
    """Probe of the database's writes and the folder of files; requests of an event loop share its result."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db = db
        self._settings = settings
        self._probe: asyncio.Task[tuple[str, ...]] | None = None
        self._begun = float("-inf")

    async def reasons(self) -> tuple[str, ...]:
        """Return a sentence for each reason; none if the database does not answer, which other parts report."""
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
    """At most `limit` concurrent calls in threads; further calls wait. Used from one event loop."""

    def __init__(self, limit: int) -> None:
        self._free = asyncio.Semaphore(limit)

    async def run(self, call: Callable[[], None]) -> None:
        """Run `call` and raise its errors. When cancelled, the call continues and is counted until it ends."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def settle(error: Exception | None) -> None:
            self._free.release()
            if ended.done():
                return
            if error is None:
                ended.set_result(None)
            else:
                ended.set_exception(error)

        def work() -> None:
            outcome: Exception | None = None
            try:
                call()
            except Exception as error:  # noqa: BLE001  (carried over to the task that waits)
                outcome = error
            with contextlib.suppress(RuntimeError):  # the loop may have ended meanwhile
                loop.call_soon_threadsafe(settle, outcome)

        threading.Thread(target=work, name="probe", daemon=True).start()
        await ended


log = structlog.get_logger()

LOOK_SECONDS = 0.25
LONGEST_SECONDS = 30
_GONE = "GONE"
_ORDER = (*RunStatus, _GONE)
"""How a run moves on."""


class LatestStatus(NamedTuple):
    """The status of a job run."""

    id: str
    status: RunStatus


class LongPoll:
    """Waiting requests for job runs, one object per event loop. A waiting request holds no connection; requests for one
    run share an entry."""

    def __init__(self, db: Database, ending: threading.Event) -> None:
        self._db = db
        self._ending = ending
        self._waiting: Counter[str] = Counter()
        self._statuses: dict[str, str] = {}
        self._looked = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def past(self, job_run_id: str, status: RunStatus, *, seconds: float) -> None:
        """Wait until the run's status is another, the run is deleted, the time is up or the process is about to end."""
        if seconds <= 0:
            return
        self._waiting[job_run_id] += 1
        self._statuses.setdefault(job_run_id, status)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        try:
            async with asyncio.timeout(seconds), self._looked:
                await self._looked.wait_for(lambda: self._ending.is_set() or self._is_past(job_run_id, status))
        except TimeoutError:
            return
        finally:
            self._waiting[job_run_id] -= 1
            if not self._waiting[job_run_id]:
                del self._waiting[job_run_id], self._statuses[job_run_id]

    def _is_past(self, job_run_id: str, status: RunStatus) -> bool:
        """Tell whether the run is past this status. The latest read may be older than the request's: a status never
        goes backwards."""
        latest = self._statuses.get(job_run_id)
        return latest is None or _ORDER.index(latest) > _ORDER.index(status)

    async def _look(self) -> None:
        while self._waiting:
            await asyncio.sleep(LOOK_SECONDS)
            ids = sorted(self._waiting)
            try:
                statement = "select id, status from job_runs where id = any(%(ids)s)"
                rows = await self._db.async_fetch(LatestStatus, statement, {"ids": ids}, plan_once=True)
            except UNAVAILABLE_ERRORS as error:
                log.warning("long_poll.waiting", reason=type(error).__name__)
            else:
                statuses = {row.id: row.status for row in rows}
                for job_run_id in self._statuses.keys() & ids:  # others have come since, and are looked for next time
                    self._statuses[job_run_id] = statuses.get(job_run_id, _GONE)
            async with self._looked:
                self._looked.notify_all()


AT_ONCE = 2
"""Done at once by one process, each for another organization."""
WAITING = 8
"""Under way and waiting, in one process."""
OF_ONE = 4
"""Of one organization, among these."""


class ConcurrencyLimit:
    """Threads for calls that read a whole file and wait for a child process. Used from one event loop.

    work: the name of the work, for the refusal and the threads' names.
    """

    def __init__(self, work: str = "pages are being drawn") -> None:
        self._work = work
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=work.rpartition(" ")[2])
        self._counts: Counter[str] = Counter()
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def run(self, organization: str, draw: Callable[[], T]) -> T:
        """Return the result of `draw` or raise its error. Raises SERVICE_UNAVAILABLE with Retry-After if too many are
        waiting."""
        if self._counts.total() >= WAITING or self._counts[organization] >= OF_ONE:
            raise ServiceError(
                ErrorCode.SERVICE_UNAVAILABLE,
                f"Too many {self._work} just now. Try again in a moment.",
                headers={"Retry-After": "2"},
            )
        self._counts[organization] += 1
        drawing = asyncio.ensure_future(self._in_turn(organization, draw))
        drawing.add_done_callback(lambda _: self._release(organization))
        return await asyncio.shield(drawing)  # who hangs up leaves a drawing that is counted until it ends

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _in_turn(self, organization: str, draw: Callable[[], T]) -> T:
        async with self._turns[organization]:
            return await asyncio.get_running_loop().run_in_executor(self._threads, draw)

    def _release(self, organization: str) -> None:
        self._counts[organization] -= 1
        if not self._counts[organization]:
            del self._counts[organization]
            del self._turns[organization]
