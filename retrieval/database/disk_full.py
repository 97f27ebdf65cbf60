"""Errors of writes that cannot be: of PostgreSQL, of the file store, and of the folder for uploads."""

from __future__ import annotations

import errno

from psycopg.errors import DiskFull, ReadOnlySqlTransaction

UNWRITABLE = (DiskFull, ReadOnlySqlTransaction)
"""What PostgreSQL answers to a write that it has no room for or does not take; it still answers reads."""

AFTER = 60.0
"""Seconds after which it is worth trying again: somebody has to make room."""
READS_ONLY = "The database takes no writes right now: it is read-only. Searches and other reads go on."
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def full_disk_reason(error: BaseException | None) -> str | None:
    """Return a sentence naming the full disk if it caused this error, else None."""
    while error is not None:
        if isinstance(error, DiskFull):
            return "The database's disk is full: nothing can be stored until there is room again."
        if isinstance(error, OSError) and error.errno in _FULL:
            return "The disk for files is full: nothing can be stored until there is room again."
        error = error.__cause__
    return None
