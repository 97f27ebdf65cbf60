"""What earlier searches with a filter, or of a user, met: how much of what is proposed may be shown.

Hints say how to look, how many candidates at once and whether listing what matches is worth a try; never what matches
or who sees it, which each search asks of the database. A wrong one costs time, until it is forgotten.
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
    """Of one filter or user in one partition.

    `share`: how much of the chunks matched, from 0 to 1; 0 if that is not known.
    """

    __slots__ = ("_until", "share")

    def __init__(self) -> None:
        self.share = 0.0
        self._until = 0.0

    @property
    def many(self) -> bool:
        """Whether too much matched, a short time ago, for it to be listed."""
        return time.monotonic() < self._until

    def forget(self) -> None:
        """As of a filter or user that was not searched by for long."""
        self.share = self._until = 0.0

    def note_many(self) -> None:
        """What matched was not listed, for it was too much."""
        self._until = time.monotonic() + SECONDS

    def note_share(self, share: float) -> None:
        """What was met. Where it is little, which documents it is about is to be found out each time."""
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
    rest = repr((where, candidates)).encode("utf-8", "surrogatepass")
    return f"{user}\0{blake2b(rest, digest_size=16).hexdigest()}"
