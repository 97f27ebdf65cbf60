"""Upkeep of large scopes: packed posting lists, store indexes, and indexing in another language."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import psycopg
import structlog

from retrieval.database import partitions
from retrieval.database.database import UNLIMITED_TRANSACTION, Database
from retrieval.errors import StepError
from retrieval.keywords import languages, posting_blocks, postings, queries
from retrieval.keywords.queries import FIXED_PREFIX
from retrieval.maintenance import queries_upkeep
from retrieval.maintenance.stores import Stores
from retrieval.ports import Scope

log = structlog.get_logger()

# Larger scopes have packed posting lists and an index.
LARGE_SCOPE_CHUNKS = 10_000
FIRST_BUILD_SECONDS = 600.0
MAX_BUILD_SECONDS = 4 * 3600.0
DOCUMENTS_PER_TRANSACTION = 25
CHUNKS_PER_TRANSACTION = 1_000
# Bounds the changes that searches read next to packed lists.
MAX_UNPACKED_CHUNKS = 4_000


@dataclass(slots=True)
class _Postponement:
    failures: int
    until: float


class Upkeep:
    """Threads for posting lists, index builds (up to hours) and documents of another language."""

    def __init__(self, db: Database, stores: Callable[[str], Stores]) -> None:
        """Create the threads. `stores`: stores by namespace id."""
        self._db = db
        self._stores = stores
        self._builder = ThreadPoolExecutor(1, thread_name_prefix="upkeep")
        self._packer = ThreadPoolExecutor(1, thread_name_prefix="packing")
        self._building: Future[None] | None = None
        self._packing: Future[None] | None = None
        self._indexer = ThreadPoolExecutor(1, thread_name_prefix="languages")
        self._indexing: Future[None] | None = None
        self._postponed: dict[int, _Postponement] = {}

    def begin(self) -> bool:
        """Start packing and index builds in the background; return False while builds are running."""
        if self._packing is None or self._packing.done():
            self._packing = self._packer.submit(self._pack_postings)
        if self._building is not None and not self._building.done():
            return False
        self._building = self._builder.submit(self._build_indexes)
        return True

    def index_again(self, language: str) -> None:
        """Index documents of another keyword language in the background."""
        if self._indexing is None or self._indexing.done():
            self._indexing = self._indexer.submit(index_in_other_language, self._db, language)

    def wait(self, seconds: float | None = None) -> None:
        """Wait for all work; TimeoutError after `seconds`."""
        if self._packing is not None:
            self._packing.result(seconds)
        if self._building is not None:
            self._building.result(seconds)
        if self._indexing is not None:
            self._indexing.result(seconds)

    def close(self) -> None:
        """Start no further work; running work continues to its end."""
        for thread in (self._builder, self._packer, self._indexer):
            thread.shutdown(wait=False, cancel_futures=True)

    def _pack_postings(self) -> None:
        """Pack the posting lists of large scopes and of scopes with packed lists."""
        try:
            posting_blocks.prune_changes(self._db)
            partition_ids = queries_upkeep.list_large(self._db, LARGE_SCOPE_CHUNKS)
        except psycopg.Error as error:
            log.warning("upkeep.postponed", reason=type(error).__name__)
            return
        for partition in partition_ids:
            try:
                posting_blocks.pack_postings(self._db, partition)
            except psycopg.Error as error:
                log.warning("packing.postponed", partition=partition, reason=type(error).__name__)

    def _build_indexes(self) -> None:
        """Build the indexes of large scopes one after the other, small scopes first."""
        try:
            large = queries_upkeep.list_large_scopes(self._db, LARGE_SCOPE_CHUNKS)
        except Exception as error:  # noqa: BLE001 - the database may answer next time
            log.warning("upkeep.postponed", reason=type(error).__name__)
            return
        for row in large:
            self._build_index(row.id, Scope(row.organization_id, row.namespace_id, row.tenant))

    def _build_index(self, partition: int, scope: Scope) -> None:
        postponement = self._postponed.get(partition, _Postponement(0, 0.0))
        if time.monotonic() < postponement.until:
            return
        # Twice the limit at each try: a very long build delays the others once and not repeatedly.
        seconds = min(FIRST_BUILD_SECONDS * 2**postponement.failures, MAX_BUILD_SECONDS)
        try:
            self._stores(scope.namespace).vectors.maintain(scope, seconds=seconds)
        except Exception as error:  # noqa: BLE001 - no failure may stop the other scopes
            reason = str(error) if isinstance(error, StepError) else type(error).__name__
            log.warning("maintenance.postponed", namespace=scope.namespace, seconds=seconds, reason=reason)
            failures = min(postponement.failures + 1, 10)
            self._postponed[partition] = _Postponement(failures, time.monotonic() + seconds)
        else:
            self._postponed.pop(partition, None)


def index_in_other_language(db: Database, language: str) -> None:
    """Index documents again after a change of `keywordLanguage`. `language`: default for short texts."""
    try:
        due = queries_upkeep.list_due(db)
    except psycopg.Error as error:
        log.warning("keywords.postponed", reason=type(error).__name__)
        return
    for row in due:
        try:
            _index_scope(db, row.id, row.fixed, row.target, language)
        except psycopg.Error as error:
            log.warning("keywords.postponed", partition=row.id, reason=type(error).__name__)


def _index_scope(db: Database, partition: int, name: str | None, target: str, language: str) -> None:
    fixed = None if name is None else languages.parse_configuration(name)
    last_id, unpacked = "", 0
    while True:
        rows = queries_upkeep.list_next(db, partition, fixed, last_id, DOCUMENTS_PER_TRANSACTION)
        if not rows:
            break
        group: list[str] = []
        size = 0
        for row in rows:
            if group and size + row.chunks > CHUNKS_PER_TRANSACTION:
                break
            group.append(row.id)
            size += row.chunks
        _index_documents(db, partition, group, fixed, language)
        last_id, unpacked = group[-1], unpacked + size
        if unpacked > MAX_UNPACKED_CHUNKS:
            posting_blocks.pack_postings(db, partition)
            unpacked = 0
    queries_upkeep.set_state(db, partition, fixed, target)


def _index_documents(db: Database, partition: int, document_ids: list[str], fixed: str | None, language: str) -> None:
    with db.transaction() as connection:
        connection.execute(UNLIMITED_TRANSACTION)
        locked_ids = queries_upkeep.lock_documents(connection, partition, fixed, document_ids)
        chunks = queries_upkeep.list_chunks(connection, locked_ids)
        words = queries.list_terms(connection, chunks)
        removed = postings.remove_chunks(connection, chunks)
        added = postings.index_chunks(connection, partition, chunks, language)
        postings.forget_unused_terms(connection, partition, words)
        queries_upkeep.set_language(connection, locked_ids, FIXED_PREFIX + fixed if fixed else language)
        partitions.add_counts(connection, partition, chunks=added[0] - removed[0], terms=added[1] - removed[1])
