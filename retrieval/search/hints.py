"""What earlier searches of a user met: how much of what is proposed that user may see.

Hints say how to look, how many candidates at once and whether comparing all is worth a try; never who sees what, which
each search asks of the database. A wrong one costs time, until it is forgotten.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from threading import Lock
from weakref import WeakKeyDictionary

from retrieval.database.database import Database

SECONDS = 60.0
"""How long a hint is believed after it was last confirmed by looking."""
LEAST = 0.1
"""Share from which on candidates are looked for among all; a user who may see less is searched by their documents."""
KEPT = 10_000
"""Users of one database whose hints are kept, those that searched last."""


class Hint:
    """Of one user in one partition.

    `share`: how much of the chunks the user could see, from 0 to 1; 0 if that is not known.
    """

    __slots__ = ("_until", "share")

    def __init__(self) -> None:
        self.share = 0.0
        self._until = 0.0

    @property
    def many(self) -> bool:
        """Whether the user could see too many chunks, a short time ago, for all to be compared."""
        return time.monotonic() < self._until

    def forget(self) -> None:
        """As of a user who has not searched for long."""
        self.share = self._until = 0.0

    def note_many(self) -> None:
        """All were not compared, for they were too many."""
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

    def of(self, partition: int, user: str) -> Hint:
        with self._lock:
            hint = self._of.pop((partition, user), None) or Hint()
            self._of[partition, user] = hint
            while len(self._of) > KEPT:
                self._of.popitem(last=False)
            return hint


_of_databases: WeakKeyDictionary[Database, _Hints] = WeakKeyDictionary()


def of(db: Database, partition: int, user: str) -> Hint:
    """The hint for this user in a partition, an empty one where none is known."""
    return _of_databases.setdefault(db, _Hints()).of(partition, user)
