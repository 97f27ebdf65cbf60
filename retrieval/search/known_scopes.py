"""Scopes that a search has found before, so that the next one need not ask for their partition first.

What is remembered is no promise: whoever goes by it has the scope asked for again in the statement that reads what is
shown (`hydration.hydrate`), and asks for the partition where that finds nothing.
"""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from retrieval.database.database import Database
from retrieval.ports import Scope

MOST = 10_000
"""Scopes that are remembered of a database; with one more all are forgotten."""
_lock = threading.Lock()
_known: WeakKeyDictionary[Database, dict[Scope, int]] = WeakKeyDictionary()


def partition(db: Database, scope: Scope) -> int | None:
    """The scope's partition when it was last looked for; None if it was not found."""
    with _lock:
        return _known.get(db, {}).get(scope)


def remember(db: Database, scope: Scope, found: int | None) -> None:
    """What was found now; None: nothing."""
    with _lock:
        of_db = _known.setdefault(db, {})
        if found is None:
            of_db.pop(scope, None)
            return
        if len(of_db) >= MOST and scope not in of_db:
            of_db.clear()
        of_db[scope] = found
