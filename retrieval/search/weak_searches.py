"""Record queries with poor results, without users or documents (`RETRIEVAL_WEAK_SEARCH_DAYS`)."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime

import psycopg
import structlog

from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.ports import Scope
from retrieval.search import queries_weak
from retrieval.search.queries_weak import WeakSearch

log = structlog.get_logger()

# A search with a lower answerability is weak.
WEAK_PROBABILITY = 0.5
# Longer texts are rarely questions by people.
MAX_QUERY_LENGTH = 500
# Further queries until the next write are dropped.
MAX_PENDING_QUERIES = 1000
WRITE_SECONDS = 5.0


class WeakSearches:
    """Collect weak searches in memory and write them every few seconds."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._pending: dict[tuple[Scope, str], WeakSearch] = {}

    def note_search(self, scope: Scope, query: str, score: float | None, probability: float) -> None:
        """Count a weak search with the score of its best result."""
        text = " ".join(query.split())
        key = scope, text
        if probability >= WEAK_PROBABILITY or not 0 < len(text) <= MAX_QUERY_LENGTH:
            return
        if key in self._pending or len(self._pending) < MAX_PENDING_QUERIES:
            searches = self._pending[key].searches if key in self._pending else 0
            self._pending[key] = WeakSearch(text, searches + 1, score, probability, datetime.now(UTC))

    async def write_periodically(self) -> None:
        """Write periodically until cancelled."""
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            await self.write_pending()

    async def write_pending(self) -> None:
        """Write pending counts; counts of namespaces in removal are dropped, and all counts without a database."""
        pending, self._pending = self._pending, {}
        try:
            for (scope, _), search in pending.items():
                with contextlib.suppress(psycopg.IntegrityError):
                    await queries_weak.add_search(self._db, scope, search)
        except UNAVAILABLE_ERRORS as error:
            log.warning("weak_searches.dropped", reason=type(error).__name__)
