"""Weak searches: queries whose results probably did not answer them, for those who repair the content.

Recorded only with `RETRIEVAL_WEAK_SEARCH_DAYS`. A record holds the query, the number of its searches, and how good the
last results were: nothing of who searched, and nothing of documents.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import structlog

from retrieval.database.database import AWAY, Database
from retrieval.ports import Scope
from retrieval.search import queries_weak
from retrieval.search.queries_weak import WeakSearch

log = structlog.get_logger()

WEAK = 0.5
"""A search is weak if the probability that its results answer it is below this."""
LONGEST = 500
"""Characters of a query that is recorded; longer ones are no questions of people."""
MOST_PENDING = 1000
"""Queries between two writes; further ones are not recorded."""
WRITE_SECONDS = 5.0


class WeakSearches:
    """Collects weak searches in memory, and writes them every few seconds: a search waits for nothing."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._pending: dict[tuple[Scope, str], WeakSearch] = {}

    def note_search(self, scope: Scope, query: str, score: float | None, probability: float) -> None:
        """Note a search, if it is weak. `score`: of its best result, None without any."""
        text = " ".join(query.split())
        key = scope, text
        if probability >= WEAK or not 0 < len(text) <= LONGEST:
            return
        if key in self._pending or len(self._pending) < MOST_PENDING:
            searches = self._pending[key].searches if key in self._pending else 0
            self._pending[key] = WeakSearch(text, searches + 1, score, probability, datetime.now(UTC))

    async def keep(self) -> None:
        """Write now and then, until cancelled."""
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            await self.write()

    async def write(self) -> None:
        """Write what was noted. What cannot be written is dropped: these are figures for people."""
        pending, self._pending = self._pending, {}
        try:
            for (scope, _), search in pending.items():
                await queries_weak.add_search(self._db, scope, search)
        except AWAY as error:
            log.warning("weak_searches.dropped", reason=type(error).__name__)
