"""Upkeep of large scopes: their posting lists are packed, and their stores build indexes.

Index builds: one at a time, small ones first, each within a time that doubles when it is exceeded.

Small scopes come first, and each has its time: what is not done by then is put back, and has twice as long when its
turn comes again, so that one that takes very long keeps the others waiting once and not for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import psycopg
import structlog

from retrieval.database.database import Database
from retrieval.errors import StepError
from retrieval.maintenance import keyword_upkeep
from retrieval.maintenance.garbage_actions import Stores
from retrieval.ports import Scope
from retrieval.search import packing

log = structlog.get_logger()

LARGE = 10_000
"""Chunks from which on a scope is looked after."""
FIRST_SECONDS = 600.0
MOST_SECONDS = 4 * 3600.0
"""How long one scope may take: the first time, and in the end."""


@dataclass(slots=True)
class _PutBack:
    failures: int
    until: float


class Upkeep:
    """Threads that go round the large scopes: one packs posting lists, one builds indexes, which may take hours; and
    one that goes round all of them for documents to index in another language."""

    def __init__(self, db: Database, stores: Callable[[str], Stores]) -> None:
        """`stores`: by namespace id."""
        self._db = db
        self._stores = stores
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="upkeep")
        self._packer = ThreadPoolExecutor(1, thread_name_prefix="packing")
        self._round: Future[None] | None = None
        self._packing: Future[None] | None = None
        self._indexer = ThreadPoolExecutor(1, thread_name_prefix="languages")
        self._indexing: Future[None] | None = None
        self._back: dict[int, _PutBack] = {}

    def begin(self) -> bool:
        """Go round once, in the background; False while the round of builds before is under way."""
        if self._packing is None or self._packing.done():
            self._packing = self._packer.submit(self._pack)
        if self._round is not None and not self._round.done():
            return False
        self._round = self._thread.submit(self._go_round)
        return True

    def index_again(self, language: str) -> None:
        """Look after the languages that documents are indexed in, in the background."""
        if self._indexing is None or self._indexing.done():
            self._indexing = self._indexer.submit(keyword_upkeep.run, self._db, language)

    def wait(self, seconds: float | None = None) -> None:
        """Until the round is over; TimeoutError if it is not by then."""
        if self._packing is not None:
            self._packing.result(seconds)
        if self._round is not None:
            self._round.result(seconds)
        if self._indexing is not None:
            self._indexing.result(seconds)

    def close(self) -> None:
        """Nothing more is begun; what was begun ends by itself."""
        for thread in (self._thread, self._packer, self._indexer):
            thread.shutdown(wait=False, cancel_futures=True)

    def _pack(self) -> None:
        """Pack the posting lists of the large scopes, and of those that were large once."""
        try:
            packing.prune(self._db)
            rows = self._db.rows(
                """
                select p.id from partitions p join namespaces n on n.id = p.namespace_id
                where n.deleted_at is null
                  and (p.chunks >= %(large)s or p.id in (select partition_id from posting_packs)) order by p.chunks
                """,
                {"large": LARGE},
            )
        except psycopg.Error as error:
            log.warning("upkeep.postponed", reason=type(error).__name__)
            return
        for row in rows:
            try:
                packing.keep(self._db, int(row["id"]))
            except psycopg.Error as error:
                log.warning("packing.postponed", partition=row["id"], reason=type(error).__name__)

    def _go_round(self) -> None:
        try:
            large = self._db.rows(
                """
                select p.id, n.organization_id, p.namespace_id, p.tenant
                from partitions p join namespaces n on n.id = p.namespace_id
                where p.chunks >= %(large)s and n.deleted_at is null order by p.chunks
                """,
                {"large": LARGE},
            )
        except Exception as error:  # noqa: BLE001 - the next round may find the database again
            log.warning("upkeep.postponed", reason=type(error).__name__)
            return
        for row in large:
            self._look_after(row["id"], Scope(row["organization_id"], row["namespace_id"], row["tenant"]))

    def _look_after(self, partition: int, scope: Scope) -> None:
        back = self._back.get(partition, _PutBack(0, 0.0))
        if time.monotonic() < back.until:
            return
        seconds = min(FIRST_SECONDS * 2**back.failures, MOST_SECONDS)
        try:
            self._stores(scope.namespace).vectors.maintain(scope, seconds=seconds)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            reason = str(error) if isinstance(error, StepError) else type(error).__name__
            log.warning("maintenance.postponed", namespace=scope.namespace, seconds=seconds, reason=reason)
            self._back[partition] = _PutBack(min(back.failures + 1, 10), time.monotonic() + seconds)
        else:
            self._back.pop(partition, None)
