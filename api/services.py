"""The services that handlers use, made once at start-up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

from api.links import Links
from api.probe_threads import ProbeThreads
from api.rendering_limit import RenderingLimit
from api.run_waits import RunWaits
from api.server_secret import ServerSecret
from api.storage_probe import StorageProbe
from retrieval.accounts.audit import Writer
from retrieval.database.database import Database
from retrieval.jobs.activity import SearchTimes
from retrieval.jobs.notifications import Notifications
from retrieval.metrics.figures import Figures, Reading
from retrieval.security.secrets import KeyRing
from retrieval.settings import Settings

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
    drawings: RenderingLimit
    conversions: RenderingLimit
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
    waits: RunWaits = field(init=False)
    storage: StorageProbe = field(init=False)
    _places: WeakValueDictionary[str, asyncio.Semaphore] = field(default_factory=WeakValueDictionary)
    """By namespace, for its searches that ask a vendor."""
    ready_at: dict[bool, float] = field(default_factory=dict)
    """When it was ready last, for requests only or for everything (`routes.health`)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "waits", RunWaits(self.db, self.ending))
        object.__setattr__(self, "storage", StorageProbe(self.db, self.settings))

    async def count(self, organization: str) -> Reading:
        """The organization's figures; one is read at a time."""
        return await asyncio.get_running_loop().run_in_executor(self.counting, self.figures.read, organization)

    async def at_vendor(self, namespace: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something that asks a vendor of the namespace. The place is given back once the call has really ended,
        not when nobody waits for it any more."""
        loop, context = asyncio.get_running_loop(), copy_context()
        place = self._places.setdefault(namespace, asyncio.Semaphore(OF_NAMESPACE))
        await place.acquire()

        def give_back(_: Future[T]) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(place.release)

        call = self.asking.submit(lambda: context.run(function, *args, **kwargs))
        call.add_done_callback(give_back)
        return await asyncio.wrap_future(call)

    async def in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something that blocks; waits while all threads are busy."""
        loop, context = asyncio.get_running_loop(), copy_context()
        return await loop.run_in_executor(self.threads, lambda: context.run(function, *args, **kwargs))
