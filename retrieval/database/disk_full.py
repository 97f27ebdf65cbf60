"""Errors of full disks: PostgreSQL, file store, upload folder."""

from __future__ import annotations

import errno

from psycopg.errors import DiskFull, ReadOnlySqlTransaction

# PostgreSQL has no room or is read-only, but still answers reads.
WRITE_ERRORS = (DiskFull, ReadOnlySqlTransaction)

# Retry-After in seconds: a person has to make room.
RETRY_AFTER_SECONDS = 60.0
READ_ONLY_MESSAGE = "The database takes no writes right now: it is read-only. Searches and other reads go on."
_DISK_FULL_CODES = frozenset({errno.ENOSPC, errno.EDQUOT})


def full_disk_reason(error: BaseException | None) -> str | None:
    """Return a sentence for a full disk, else None."""
    while error is not None:
        if isinstance(error, DiskFull):
            return "The database's disk is full: nothing can be stored until there is room again."
        if isinstance(error, OSError) and error.errno in _DISK_FULL_CODES:
            return "The disk for files is full: nothing can be stored until there is room again."
        error = error.__cause__
    return None
