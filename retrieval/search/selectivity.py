"""Decide between exact comparison and candidates of the vector store."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from threading import Lock
from weakref import WeakKeyDictionary

from retrieval import text_filter
from retrieval.access.queries import memberships
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope
from retrieval.principals import Viewer
from retrieval.search import document_vectors, queries_filters, queries_vectors
from retrieval.search.queries import Partition
from retrieval.search.queries_filters import Matches

# Exact comparison is always used up to this number of chunks.
MIN_EXACT_CHUNKS = 2_000
# Visiting one vector in the index, with its check by words, takes as long as 100 comparisons in memory.
COMPARISONS_PER_STEP = 100
# A quarter of the vectors that `document_vectors` keeps: more would push out those of other filters.
MAX_EXACT_CHUNKS = 40_000
# Estimate of candidates for a search by words, without a vector comparison.
MIN_WORD_CANDIDATES = 100
UNLIMITED_CHUNKS = 2**31
# Limit of visible chunks for word frequencies of a viewer.
MAX_COUNTED_CHUNKS = 2_000
# A filter or viewer above the limit is remembered for this time; only speed depends on the memory.
REMEMBER_SECONDS = 60.0
# Remembered filters and viewers per database; all are dropped beyond the limit.
MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Selectivity:
    """Chunks for exact comparison, None for candidates of the vector store; and the effective filter."""

    document_filter: DocumentFilter | None
    matches: Matches | None = None
    # Visible chunks of a viewer with few documents: frequencies of words are counted there.
    counted_chunks: Sequence[int] | None = None


def estimate_selectivity(
    db: Database,
    partition: Partition,
    document_filter: DocumentFilter | None,
    values: Sequence[float] | None,
    candidates: int,
    *,
    viewer: Viewer | None,
    by_words: bool,
) -> Selectivity:
    """List the chunks that match the filter and viewer, if few. `values` None skips vectors."""
    narrows = document_filter is not None and document_filter.can_exclude()
    if viewer is None and not narrows:
        return Selectivity(document_filter)
    if values is None:
        candidates = max(candidates, MIN_WORD_CANDIDATES)
    broad = _broad_filters.setdefault(db, _BroadFilters())
    name = partition.id, _name(document_filter, viewer, candidates)
    few = counted_chunks = None
    if not narrows and broad.contains(name):
        return Selectivity(document_filter)
    if viewer is not None and (by_words or document_filter is None or not document_filter.document_ids):
        few = _list_few(db, partition, viewer, broad)
        if few is None and not narrows:
            return Selectivity(document_filter)
    if few is not None:
        document_filter = memberships.narrow_filter(document_filter, [version.partition(" ")[0] for version in few])
        if by_words and narrows:
            counted_chunks = _limit_counted(
                document_vectors.compare_versions(db, partition.id, few, None, 0, MAX_COUNTED_CHUNKS)
            )
    reads_rows = document_filter is not None and document_filter.reads_rows
    if broad.contains(name) and not reads_rows:
        return Selectivity(document_filter, counted_chunks=counted_chunks)
    max_chunks = UNLIMITED_CHUNKS if reads_rows else limit_exact(partition.chunks, candidates)
    matches = match_chunks(
        db,
        partition,
        document_filter,
        values,
        candidates,
        viewer=viewer if few is None else None,
        max_chunks=max_chunks,
        versions=None if narrows else few,
    )
    if matches is None:
        broad.add(name)
    elif few is not None and by_words and not narrows:
        counted_chunks = _limit_counted(matches)
    return Selectivity(document_filter, matches, counted_chunks)


def _limit_counted(visible: Matches | None) -> list[int] | None:
    """Return the chunks for frequencies of words; None above the limit."""
    return None if visible is None or len(visible.chunks) > MAX_COUNTED_CHUNKS else list(map(int, visible.chunks))


def _list_few(db: Database, partition: Partition, viewer: Viewer, broad: _BroadFilters) -> list[str] | None:
    """List the versions that the viewer may see; None above the limit."""
    name = partition.id, viewer.user
    if broad.contains(name):
        return None
    few = memberships.list_visible_versions(db, viewer)
    if few is None:
        broad.add(name)
    return few


def limit_exact(chunks: int, candidates: int) -> int:
    """Return the limit of matching chunks for exact comparison."""
    # At the limit, both ways take the same time.
    by_cost = math.isqrt(COMPARISONS_PER_STEP * candidates * chunks)
    return max(MIN_EXACT_CHUNKS, min(by_cost, MAX_EXACT_CHUNKS))


def match_chunks(
    db: Database,
    partition: Partition,
    document_filter: DocumentFilter | None,
    values: Sequence[float] | None,
    candidates: int,
    *,
    viewer: Viewer | None,
    max_chunks: int = UNLIMITED_CHUNKS,
    versions: Sequence[str] | None = None,
) -> Matches | None:
    """Return matching chunks and the nearest; None above `max_chunks`. `versions`: matching versions, if known."""
    if max_chunks < UNLIMITED_CHUNKS and not (document_filter is not None and document_filter.reads_rows):
        if versions is None:
            versions = queries_vectors.list_versions(
                db, partition.id, document_filter or DocumentFilter(), viewer=viewer, limit=max_chunks + 1
            )
        if len(versions) <= max_chunks:
            return document_vectors.compare_versions(db, partition.id, versions, values, candidates, max_chunks)
    return queries_filters.match_chunks(
        db,
        partition.id,
        document_filter or DocumentFilter(),
        values,
        viewer=viewer,
        max_chunks=max_chunks,
        nearest=candidates,
    )


def restrict_to_ids(
    db: Database, scope: Scope, partition: Partition, document_filter: DocumentFilter | None
) -> DocumentFilter | None:
    """Resolve document ids for filters by words or site with few documents."""
    if document_filter is None or document_filter.document_ids or not (document_filter.words or document_filter.sites):
        return document_filter
    broad = _broad_filters.setdefault(db, _BroadFilters())
    name = partition.id, _name(DocumentFilter(words=document_filter.words, sites=document_filter.sites), None, 0)
    if broad.contains(name):
        return document_filter
    # Without ids, the condition on names and addresses would run on every chunk of the scope.
    statement, params = text_filter.limited_ids_statement(
        partitions.scope_params(scope), document_filter.words, document_filter.sites, memberships.MAX_VISIBLE_IDS
    )
    ids = db.fetch(str, statement, params)
    if len(ids) > memberships.MAX_VISIBLE_IDS:
        broad.add(name)
        return document_filter
    return replace(document_filter, document_ids=tuple(ids) or (memberships.NO_DOCUMENT,))


class _BroadFilters:
    """Thread-safe memory of filters and viewers with too many chunks."""

    def __init__(self) -> None:
        self._until: dict[tuple[int, str], float] = {}
        self._lock = Lock()

    def contains(self, name: tuple[int, str]) -> bool:
        return time.monotonic() < self._until.get(name, 0.0)

    def add(self, name: tuple[int, str]) -> None:
        with self._lock:
            if len(self._until) >= MAX_REMEMBERED:
                self._until.clear()
            self._until[name] = time.monotonic() + REMEMBER_SECONDS


_broad_filters: WeakKeyDictionary[Database, _BroadFilters] = WeakKeyDictionary()


def forget_remembered(db: Database) -> None:
    """Forget the filters and viewers of a database."""
    _broad_filters.pop(db, None)


def _name(document_filter: DocumentFilter | None, viewer: Viewer | None, candidates: int) -> str:
    """Return a short key of filter, viewer and candidates."""
    user = "" if viewer is None else viewer.user
    key = repr((document_filter, candidates)).encode("utf-8", "surrogatepass")
    return f"{user}\0{blake2b(key, digest_size=16).hexdigest()}"
