"""The services that handlers use, made once at start-up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from api.links import Links
from api.probe_threads import ProbeThreads
from api.rendering_limit import RenderingLimit
from api.run_waits import RunWaits
from api.server_secret import ServerSecret
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
    ending: threading.Event = field(default_factory=threading.Event)
    """Set once this process is about to end."""
    browsing: ProbeThreads = field(default_factory=lambda: ProbeThreads(BROWSING))
    """Asks content services for people who choose; one that hangs keeps no search from its thread."""
    counting: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "figures"))
    """Reads figures: a slow count keeps no search from its thread."""
    waits: RunWaits = field(init=False)
    ready_at: dict[bool, float] = field(default_factory=dict)
    """When it was ready last, for requests only or for everything (`routes.health`)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "waits", RunWaits(self.db, self.ending))

    async def count(self, organization: str) -> Reading:
        """The organization's figures; one is read at a time."""
        return await asyncio.get_running_loop().run_in_executor(self.counting, self.figures.read, organization)

    async def in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something that blocks; waits while all threads are busy."""
        loop, context = asyncio.get_running_loop(), copy_context()
        return await loop.run_in_executor(self.threads, lambda: context.run(function, *args, **kwargs))
