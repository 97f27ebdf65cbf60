"""Upkeep of large scopes: packs their posting lists and has their stores build indexes.

Indexes are built one at a time, small scopes first. A build that exceeds its time limit is postponed and retried with
twice the limit, so that a very long one delays the others once and not repeatedly.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import psycopg
import structlog

from retrieval.database import partitions
from retrieval.database.database import UNLIMITED, Database
from retrieval.errors import StepError
from retrieval.keywords import languages, posting_blocks, postings, queries
from retrieval.keywords.queries import FIXED
from retrieval.maintenance import queries_upkeep
from retrieval.maintenance.garbage_actions import Stores
from retrieval.ports import Scope

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
            self._indexing = self._indexer.submit(index_in_other_language, self._db, language)

    def wait(self, seconds: float | None = None) -> None:
        """Until the round is over; TimeoutError if it is not by then."""
        if self._packing is not None:
            self._packing.result(seconds)
        if self._round is not None:
            self._round.result(seconds)
        if self._indexing is not None:
            self._indexing.result(seconds)

    def close(self) -> None:
        """Start nothing more; what is running ends by itself."""
        for thread in (self._thread, self._packer, self._indexer):
            thread.shutdown(wait=False, cancel_futures=True)

    def _pack(self) -> None:
        """Pack the posting lists of the large scopes, and of those that were large once."""
        try:
            posting_blocks.prune_changes(self._db)
            partition_ids = queries_upkeep.list_large(self._db, LARGE)
        except psycopg.Error as error:
            log.warning("upkeep.postponed", reason=type(error).__name__)
            return
        for partition in partition_ids:
            try:
                posting_blocks.pack_postings(self._db, partition)
            except psycopg.Error as error:
                log.warning("packing.postponed", partition=partition, reason=type(error).__name__)

    def _go_round(self) -> None:
        try:
            large = queries_upkeep.list_large_scopes(self._db, LARGE)
        except Exception as error:  # noqa: BLE001 - the next round may find the database again
            log.warning("upkeep.postponed", reason=type(error).__name__)
            return
        for row in large:
            self._look_after(row.id, Scope(row.organization_id, row.namespace_id, row.tenant))

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


_DOCUMENTS = 25
"""Documents of one transaction; one that has many chunks goes alone."""
_MANY = 1_000
_UNPACKED = 4_000
"""Chunks after which posting lists are packed, before searches have too many changes to read."""


def index_in_other_language(db: Database, language: str) -> None:
    """Index documents of namespaces whose `keywordLanguage` changed again; each transaction moves a few from their old
    terms to their new ones. `language`: of texts that say too little of theirs."""
    try:
        due = queries_upkeep.list_due(db)
    except psycopg.Error as error:
        log.warning("keywords.postponed", reason=type(error).__name__)
        return
    for row in due:
        try:
            _scope(db, row.id, row.fixed, row.target, language)
        except psycopg.Error as error:
            log.warning("keywords.postponed", partition=row.id, reason=type(error).__name__)


def _scope(db: Database, partition: int, named: str | None, wanted: str, language: str) -> None:
    fixed = None if named is None else languages.fixed(named)
    last_id, unpacked = "", 0
    while True:
        rows = queries_upkeep.list_next(db, partition, fixed, last_id, _DOCUMENTS)
        if not rows:
            break
        group: list[str] = []
        size = 0
        for row in rows:
            if group and size + row.chunks > _MANY:
                break
            group.append(row.id)
            size += row.chunks
        _documents(db, partition, group, fixed, language)
        last_id, unpacked = group[-1], unpacked + size
        if unpacked > _UNPACKED:
            posting_blocks.pack_postings(db, partition)
            unpacked = 0
    queries_upkeep.set_state(db, partition, fixed, wanted)


def _documents(db: Database, partition: int, document_ids: list[str], fixed: str | None, language: str) -> None:
    with db.transaction() as connection:
        connection.execute(UNLIMITED)
        locked_ids = queries_upkeep.lock_documents(connection, partition, fixed, document_ids)
        chunks = queries_upkeep.list_chunks(connection, locked_ids)
        words = queries.list_terms(connection, chunks)
        removed = postings.remove_chunks(connection, chunks)
        added = postings.index_chunks(connection, partition, chunks, language)
        postings.forget_unused_terms(connection, partition, words)
        queries_upkeep.set_language(connection, locked_ids, FIXED + fixed if fixed else language)
        partitions.add_counts(connection, partition, chunks=added[0] - removed[0], terms=added[1] - removed[1])
