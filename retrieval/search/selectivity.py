"""Selectivity: where a search looks for candidates, decided once before it looks.

The chunks that match a filter are counted up to a limit. Few are compared one by one, so that no match is missed, and
so are those that match a condition on table rows and records, which no vector store has. Of more the vector store and
the posting lists propose candidates. The limit grows with the root of the partition's size: it is the number of vectors
that are compared in the time in which the index is searched past all others.

That a filter or a viewer matches too many chunks is remembered for a minute. It affects speed only: each search reads
from the database what matches and who may see it.
"""

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
from retrieval.access.reading import viewed_database
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope
from retrieval.principals import Viewer
from retrieval.search import document_vectors, queries_filters, queries_vectors
from retrieval.search.queries import Partition
from retrieval.search.queries_filters import Matches

FEW = 2_000
"""Matching chunks up to which they are compared one by one, whatever the size of the partition."""
STEPS = 16
"""Vectors that are compared one by one in the time in which an index is searched past one vector."""
LISTED = 100
"""Candidates that a search by words alone counts as having, at least, since it compares no vectors."""
ALL = 2**31
COUNTED = 2_000
"""Chunks that a viewer may see at most for the frequencies of words to be counted among them alone."""
SECONDS = 60.0
"""How long it is remembered that a filter or a viewer matches too many chunks."""
KEPT = 10_000
"""Filters and viewers of one database that are remembered; with one more all are forgotten."""


@dataclass(frozen=True, slots=True)
class Selectivity:
    """Where a search looks for candidates; results are always checked against the query's own filter.

    matches: the chunks to compare one by one, None where the vector store and the posting lists propose some.
    where: the filter of the search, with the documents of a viewer who may see few. counted: the chunks that the viewer
    may see, if they are so few that the frequencies of words are counted among them.
    """

    where: DocumentFilter | None
    matches: Matches | None = None
    counted: Sequence[int] | None = None


def estimate_selectivity(
    db: Database,
    partition: Partition,
    where: DocumentFilter | None,
    values: Sequence[float] | None,
    candidates: int,
    *,
    viewer: Viewer | None,
    by_words: bool,
) -> Selectivity:
    """Count what matches a filter, or what the viewer may see, up to a limit, and list it below that.

    values: the query's vector, None to skip the comparison; candidates: number of the nearest.
    """
    narrows = where is not None and where.narrows()
    if viewer is None and not narrows:
        return Selectivity(where)
    if values is None:
        candidates = max(candidates, LISTED)
    broad = _broad.setdefault(db, _Broad())
    name = partition.id, _name(where, viewer, candidates)
    few = counted = None
    if viewer is not None and (by_words or where is None or not where.document_ids):
        few = _list_few(db, partition, viewer, broad)
        if few is None and not narrows:
            return Selectivity(where)
    if viewer is not None and few is not None:
        where = memberships.narrow_filter(where, few)
        chunks = queries_filters.list_chunks(viewed_database(db, viewer), few, COUNTED + 1) if by_words else []
        counted = chunks if by_words and len(chunks) <= COUNTED else None
    reads_rows = where is not None and where.reads_rows
    if broad.has(name) and not reads_rows:
        return Selectivity(where, counted=counted)
    most = ALL if reads_rows else limit_exact(partition.chunks, candidates)
    matches = match_chunks(db, partition, where, values, candidates, viewer=viewer, most=most)
    if matches is None:
        broad.add(name)
    return Selectivity(where, matches, counted)


def _list_few(db: Database, partition: Partition, viewer: Viewer, broad: _Broad) -> tuple[str, ...] | None:
    """List the documents that the viewer may see, if they are few; None if there are, or recently were, too many."""
    name = partition.id, _name(None, viewer, 0)
    if broad.has(name):
        return None
    few = memberships.list_visible_ids(db, viewer)
    if few is None:
        broad.add(name)
    return few


def limit_exact(chunks: int, candidates: int) -> int:
    """Return the number of matching chunks up to which they are compared one by one, in a partition of so many."""
    return max(FEW, math.isqrt(STEPS * candidates * chunks))


def match_chunks(
    db: Database,
    partition: Partition,
    where: DocumentFilter | None,
    values: Sequence[float] | None,
    candidates: int,
    *,
    viewer: Viewer | None,
    most: int = ALL,
) -> Matches | None:
    """Return the chunks that match and the nearest of them; None if there are more than `most`."""
    if most < ALL and not (where is not None and where.reads_rows):
        versions = queries_vectors.list_versions(
            db, partition.id, where or DocumentFilter(), viewer=viewer, limit=most + 1
        )
        if len(versions) <= most:
            return document_vectors.compare_versions(db, partition.id, versions, values, candidates, most)
    return queries_filters.match_chunks(
        db, partition.id, where or DocumentFilter(), values, viewer=viewer, most=most, nearest=candidates
    )


def restrict_to_ids(db: Database, scope: Scope, where: DocumentFilter | None) -> DocumentFilter | None:
    """Add ids to the filter where an index finds that few documents have its words or are of its sites.

    Else the rule on names and addresses would be applied to each chunk of the scope.
    """
    if where is None or where.document_ids or not (where.words or where.sites):
        return where
    statement, params = text_filter.few_documents(
        partitions.scope_params(scope), where.words, where.sites, memberships.MAX_VISIBLE_IDS
    )
    ids = db.fetch(str, statement, params)
    return (
        where
        if len(ids) > memberships.MAX_VISIBLE_IDS
        else replace(where, document_ids=tuple(ids) or (memberships.NO_DOCUMENT,))
    )


class _Broad:
    """Filters and viewers that recently matched too many chunks. Safe for threads."""

    def __init__(self) -> None:
        self._until: dict[tuple[int, str], float] = {}
        self._lock = Lock()

    def has(self, name: tuple[int, str]) -> bool:
        return time.monotonic() < self._until.get(name, 0.0)

    def add(self, name: tuple[int, str]) -> None:
        with self._lock:
            if len(self._until) >= KEPT:
                self._until.clear()
            self._until[name] = time.monotonic() + SECONDS


_broad: WeakKeyDictionary[Database, _Broad] = WeakKeyDictionary()


def forget_remembered(db: Database) -> None:
    """Forget what was remembered of a database."""
    _broad.pop(db, None)


def _name(where: DocumentFilter | None, viewer: Viewer | None, candidates: int) -> str:
    """Name a filter and its viewer, in a few characters however long the filter."""
    user = "" if viewer is None else viewer.user
    if where is None or not where.narrows():
        return user
    key = repr((where, candidates)).encode("utf-8", "surrogatepass")
    return f"{user}\0{blake2b(key, digest_size=16).hexdigest()}"
