"""Probe of PostgreSQL's writes: room on its disk, and a write that is committed."""

from __future__ import annotations

from typing import Final, LiteralString

from retrieval.database import disk_full, sync_async
from retrieval.database.database import Database
from retrieval.database.sync_async import Statements

_SMALL: LiteralString = "select set_config('work_mem', '64kB', true)"
_SPILL: LiteralString = "select count(*) from generate_series(1, %(rows)s::bigint)"
"""More rows than `_SMALL` lets in memory: PostgreSQL writes them to its disk for as long as the statement runs."""
_ROWS: Final = 50_000
"""About a megabyte."""
_WRITE: LiteralString = """
    insert into rate_windows (caller, minute, requests) values ('readiness', 0, 1)
    on conflict (caller) do update set requests = 1
"""


def problem(db: Database) -> str | None:
    """Write and commit, from a thread; why PostgreSQL could not, None if it could."""
    try:
        with db.transaction() as connection:
            sync_async.run(connection, _write())
    except disk_full.UNWRITABLE as error:
        return disk_full.reason(error) or disk_full.READS_ONLY
    return None


async def async_problem(db: Database) -> str | None:
    """The same on the event loop."""
    try:
        async with db.async_transaction() as connection:
            await sync_async.async_run(connection, _write())
    except disk_full.UNWRITABLE as error:
        return disk_full.reason(error) or disk_full.READS_ONLY
    return None


def _write() -> Statements[None]:
    yield _SMALL, {}
    yield _SPILL, {"rows": _ROWS}
    yield _WRITE, {}
