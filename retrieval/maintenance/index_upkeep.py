"""Upkeep of large scopes: packs their posting lists and has their stores build indexes.

Indexes are built one at a time, small scopes first. A build that exceeds its time limit is postponed and retried with
twice the limit, so that a very long one delays the others once and not repeatedly.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import LiteralString

import psycopg
import structlog

from retrieval.database.database import UNLIMITED, Database
from retrieval.errors import StepError
from retrieval.keywords import languages, posting_blocks, postings, queries
from retrieval.keywords.queries import FIXED
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
            partitions = self._db.fetch(
                int,
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
        for partition in partitions:
            try:
                posting_blocks.pack_postings(self._db, partition)
            except psycopg.Error as error:
                log.warning("packing.postponed", partition=partition, reason=type(error).__name__)

    def _go_round(self) -> None:
        try:
            large = self._db.fetch(
                LargeScope,
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


log = structlog.get_logger()

_DOCUMENTS = 25
"""Documents of one transaction; one that has many chunks goes alone."""
_MANY = 1_000
_UNPACKED = 4_000
"""Chunks after which posting lists are packed, before searches have too many changes to read."""


@dataclass(frozen=True, slots=True)
class LargeScope:
    """A partition with many chunks."""

    id: int
    organization_id: str
    namespace_id: str
    tenant: str


@dataclass(frozen=True, slots=True)
class DueLanguage:
    """A partition to index in its namespace's language: `target`, or "" for each document's own (`fixed` None)."""

    id: int
    fixed: str | None
    target: str


@dataclass(frozen=True, slots=True)
class NextDocument:
    """A document to index again, with the number of its chunks."""

    id: str
    chunks: int


_DUE: LiteralString = """
    select p.id, n.keyword_language as fixed, coalesce(n.keyword_language, '') as target
    from partitions p join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    where p.keyword_state is distinct from coalesce(n.keyword_language, '') order by p.chunks
"""
_OTHERS: LiteralString = f"""
    d.partition_id = %(partition)s and d.deleted_at is null and d.active_generation > 0
    and case when %(fixed)s::text is null then d.keyword_language is null or starts_with(d.keyword_language, '{FIXED}')
             else d.keyword_language is distinct from '{FIXED}' || %(fixed)s::text end
"""
_NEXT: LiteralString = f"""
    select d.id, (
        select count(*) from chunks c where c.document_id = d.id and c.generation = d.active_generation
    ) as chunks from documents d where {_OTHERS} and d.id > %(after)s order by d.id limit %(limit)s
"""
_HOLD: LiteralString = f"select d.id from documents d where {_OTHERS} and d.id = any(%(ids)s) order by d.id for update"
_CHUNKS: LiteralString = """
    select c.id from documents d join chunks c on c.document_id = d.id and c.generation = d.active_generation
    where d.id = any(%(ids)s)
"""
_COUNT: LiteralString = """
    update partitions set chunks = chunks + %(chunks)s, terms = terms + %(terms)s where id = %(partition)s
"""
_EMPTY: LiteralString = """
    update documents set keyword_language = %(language)s
    where id = any(%(ids)s) and keyword_language is distinct from %(language)s
      and not exists (select from chunks c where c.document_id = documents.id and c.generation = active_generation)
"""
_DONE: LiteralString = f"""
    update partitions set keyword_state = %(wanted)s
    where id = %(partition)s and not exists (select from documents d where {_OTHERS})
"""


def index_in_other_language(db: Database, language: str) -> None:
    """Index documents of namespaces whose `keywordLanguage` changed again; each transaction moves a few from their old
    terms to their new ones. `language`: of texts that say too little of theirs."""
    try:
        due = db.fetch(DueLanguage, _DUE)
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
        params = {"partition": partition, "fixed": fixed, "after": last_id, "limit": _DOCUMENTS}
        rows = db.fetch(NextDocument, _NEXT, params)
        if not rows:
            break
        group: list[str] = []
        size = 0
        for row in rows:
            if group and size + row.chunks > _MANY:
                break
            group.append(row.id)
            size += row.chunks
        _documents(db, {**params, "ids": group}, fixed, language)
        last_id, unpacked = group[-1], unpacked + size
        if unpacked > _UNPACKED:
            posting_blocks.pack_postings(db, partition)
            unpacked = 0
    db.execute(_DONE, {"partition": partition, "fixed": fixed, "wanted": wanted})


def _documents(db: Database, params: dict[str, object], fixed: str | None, language: str) -> None:
    partition = int(str(params["partition"]))
    with db.transaction() as connection:
        connection.execute(UNLIMITED)
        locked_ids = connection.fetch(str, _HOLD, params)
        chunks = connection.fetch(int, _CHUNKS, {"ids": locked_ids})
        words = queries.list_terms(connection, chunks)
        removed = postings.remove_chunks(connection, chunks)
        added = postings.index_chunks(connection, partition, chunks, language)
        postings.forget_unused_terms(connection, partition, words)
        connection.execute(_EMPTY, {"ids": locked_ids, "language": FIXED + fixed if fixed else language})
        sums = {"chunks": added[0] - removed[0], "terms": added[1] - removed[1], "partition": partition}
        connection.execute(_COUNT, sums)
