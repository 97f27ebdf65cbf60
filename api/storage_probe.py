"""Reasons for which nothing can be stored now, as the answers about waiting job runs and the queue name them."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from retrieval.database.database import AWAY, Database
from retrieval.readiness import roles
from retrieval.settings import Settings

_KEPT_SECONDS: Final = 5.0
_SECONDS: Final = 2.0
"""Longest wait of one answer for the probe; a later one may have its result."""


class StorageProbe:
    """A probe of the database's writes and the folder of files, shared by all requests of an event loop for seconds."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db = db
        self._settings = settings
        self._probe: asyncio.Task[tuple[str, ...]] | None = None
        self._begun = float("-inf")

    async def reasons(self) -> tuple[str, ...]:
        """Return a sentence for each reason; none if the database does not answer, which other parts report."""
        if self._probe is None or (self._probe.done() and time.monotonic() - self._begun > _KEPT_SECONDS):
            self._begun = time.monotonic()
            self._probe = asyncio.create_task(roles.storage(self._db, self._settings))
        answered, _ = await asyncio.wait({self._probe}, timeout=_SECONDS)
        try:
            return self._probe.result() if answered else ()
        except AWAY:
            return ()
