"""Remembered selectivity of filters and viewers: the share of candidates that a search may return.

Hints choose the method, such as the number of candidates per round and listing the matches first; never what matches or
who may see it, which each search reads from the database. A wrong hint affects speed only, until it expires.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from hashlib import blake2b
from threading import Lock
from weakref import WeakKeyDictionary

from retrieval.database.database import Database
from retrieval.filters import DocumentFilter
from retrieval.principals import Viewer

SECONDS = 60.0
"""How long a hint is believed after it was last confirmed by looking."""
LEAST = 0.15
"""Share from which on candidates are looked for among all; less is searched by the documents that match."""
KEPT = 10_000
"""Filters and users of one database whose hints are kept, those that searched last."""


class Hint:
    """Selectivity of one filter or viewer in one partition.

    `share`: how much of the chunks matched, from 0 to 1; 0 if that is not known.
    """

    __slots__ = ("_until", "share")

    def __init__(self) -> None:
        self.share = 0.0
        self._until = 0.0

    @property
    def many(self) -> bool:
        """Tell if too many chunks matched recently to list them."""
        return time.monotonic() < self._until

    def forget(self) -> None:
        """Reset to the state before any search."""
        self.share = self._until = 0.0

    def note_many(self) -> None:
        """Record that too many chunks matched to list them."""
        self._until = time.monotonic() + SECONDS

    def note_share(self, share: float) -> None:
        """Record the share that matched. Below LEAST, the next search lists the matching documents again."""
        self.share = share
        if share < LEAST:
            self._until = 0.0


class _Hints:
    def __init__(self) -> None:
        self._of: OrderedDict[tuple[int, str], Hint] = OrderedDict()
        self._lock = Lock()

    def of(self, partition: int, name: str) -> Hint:
        with self._lock:
            hint = self._of.pop((partition, name), None) or Hint()
            self._of[partition, name] = hint
            while len(self._of) > KEPT:
                self._of.popitem(last=False)
            return hint


_of_databases: WeakKeyDictionary[Database, _Hints] = WeakKeyDictionary()


def of(db: Database, partition: int, where: DocumentFilter | None, viewer: Viewer | None, candidates: int = 0) -> Hint:
    """The hint for this user, or for so many candidates with this filter, in a partition; an empty one if none is
    known."""
    return _of_databases.setdefault(db, _Hints()).of(partition, _name(where, viewer, candidates))


def _name(where: DocumentFilter | None, viewer: Viewer | None, candidates: int) -> str:
    """Short, however long the filter."""
    user = viewer.user if viewer is not None else ""
    if where is None or not where.narrows():
        return user
    key = repr((where, candidates)).encode("utf-8", "surrogatepass")
    return f"{user}\0{blake2b(key, digest_size=16).hexdigest()}"
