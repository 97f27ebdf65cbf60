"""Readiness of each role, with a sentence for each problem.

- every role: the database responds and has a compatible schema;
- api: PostgreSQL commits writes and accepted work is dispatched; requests-only checks ignore both;
- api, worker, dispatcher: the folder of LOCAL file storage is the service's, writable, with free space;
- dispatcher: required loops succeed.

Prefect's view of workers is checked in `local.health`.
"""

from __future__ import annotations

import asyncio
from typing import Final, LiteralString

from psycopg.errors import UndefinedTable

from retrieval.database import disk_full, revisions
from retrieval.database.database import Database
from retrieval.database.rows import Params
from retrieval.readiness import dispatch, files_folder
from retrieval.settings import Settings

_SMALL_MEMORY: LiteralString = "select set_config('work_mem', '64kB', true)"
# Exceeds `_SMALL_MEMORY`, so PostgreSQL writes about 1 MB to disk.
_SPILL_TO_DISK: LiteralString = "select count(*) from generate_series(1, %(rows)s::bigint)"
_SPILL_ROWS: Final = 50_000
_WRITE_ROW: LiteralString = """
    insert into rate_windows (caller, minute, requests) values ('readiness', 0, 1)
    on conflict (caller) do update set requests = 1
"""
_WRITE_STATEMENTS: tuple[tuple[LiteralString, Params], ...] = (
    (_SMALL_MEMORY, {}),
    (_SPILL_TO_DISK, {"rows": _SPILL_ROWS}),
    (_WRITE_ROW, {}),
)


def write_problem(db: Database) -> str | None:
    """Commit a write from a thread; return the problem of PostgreSQL, or None."""
    try:
        with db.transaction() as connection:
            for statement, values in _WRITE_STATEMENTS:
                connection.execute(statement, values)
    except disk_full.WRITE_ERRORS as error:
        return disk_full.full_disk_reason(error) or disk_full.READ_ONLY_MESSAGE
    return None


async def async_write_problem(db: Database) -> str | None:
    """Commit a write on the event loop; return the problem of PostgreSQL, or None."""
    try:
        async with db.async_transaction() as connection:
            for statement, values in _WRITE_STATEMENTS:
                await connection.async_execute(statement, values)
    except disk_full.WRITE_ERRORS as error:
        return disk_full.full_disk_reason(error) or disk_full.READ_ONLY_MESSAGE
    return None


NOT_MIGRATED = "The database is not migrated yet."

_READ_VERSION: LiteralString = "select version_num as version from alembic_version"
_READ_FOLDER_ID: LiteralString = "select id from files_folder"


async def api_problems(db: Database, settings: Settings, *, requests_only: bool = False) -> tuple[str, ...]:
    """Return the problems of the API. `requests_only`: check only the serving of requests, for load balancers."""
    try:
        # Between a migration and the first process of the next version, older processes serve the newer schema.
        if reason := _schema_problem(await db.async_fetch_one(str, _READ_VERSION), allow_newer=requests_only):
            return (reason,)
    except UndefinedTable:
        return (NOT_MIGRATED,)
    if requests_only:
        # Only for its exception without a database: a read-only one still serves searches.
        await async_write_problem(db)
        return await _async_files_problems(db, settings)
    return (*await storage_problems(db, settings), *(await dispatch.async_read_dispatch(db)).reasons)


async def storage_problems(db: Database, settings: Settings) -> tuple[str, ...]:
    """Return the problems of stores: PostgreSQL refuses writes, or the files folder is full or wrong."""
    unwritable = await async_write_problem(db)
    return (*((unwritable,) if unwritable else ()), *await _async_files_problems(db, settings))


async def _async_files_problems(db: Database, settings: Settings) -> tuple[str, ...]:
    return await asyncio.to_thread(_files_problems, settings, await db.async_fetch_one(str, _READ_FOLDER_ID))


def worker_problems(db: Database, settings: Settings) -> tuple[str, ...]:
    """Return the problems of a worker on this machine, without its state in Prefect."""
    try:
        # During an upgrade the worker runs next to processes of the next version.
        if reason := _schema_problem(db.fetch_one(str, _READ_VERSION), allow_newer=True):
            return (reason,)
    except UndefinedTable:
        return (NOT_MIGRATED,)
    return _files_problems(settings, db.fetch_one(str, _READ_FOLDER_ID))


def dispatcher_problems(db: Database, settings: Settings) -> tuple[str, ...]:
    """Return the problems of a dispatcher."""
    return worker_problems(db, settings) or dispatch.read_dispatch(db).reasons


def _schema_problem(revision: str | None, *, allow_newer: bool = False) -> str | None:
    newest = revisions.newest_revision()
    if revision is None:
        return NOT_MIGRATED
    if revision == newest or (revision > newest and allow_newer):
        return None
    if revision < revisions.BASELINE_REVISION:
        return f"The database's schema, {revision}, {revisions.UPGRADE_ADVICE}."
    if revision < newest:
        return f"The database has schema {revision}, this version needs {newest}: run `retrieval migrate`."
    return (
        f"The database has schema {revision} of a newer version; this version knows {newest}: start the newer version"
        " here."
    )


def _files_problems(settings: Settings, folder_id: str | None) -> tuple[str, ...]:
    reason = files_folder.folder_problem(settings, folder_id)
    return (reason,) if reason else ()
