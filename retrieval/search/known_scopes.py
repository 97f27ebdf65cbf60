"""Cache of scope to partition id, which saves a search one statement.

A cached id may be outdated: the hydrate statement verifies the scope (`hydration.hydrate`), and the search reads the
partition again where it returns nothing.
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
    """Cache the scope's partition; None: forget it."""
    with _lock:
        of_db = _known.setdefault(db, {})
        if found is None:
            of_db.pop(scope, None)
            return
        if len(of_db) >= MOST and scope not in of_db:
            of_db.clear()
        of_db[scope] = found
