"""Readiness of each role: its conditions, with a sentence for each that fails.

- every role: the database responds and has the schema of this version, or of a compatible newer one;
- api: PostgreSQL writes and commits; the check for requests alone skips this, since searches need no writes;
- api, worker, dispatcher: the folder of LOCAL file storage is the service's own, writable, and has room;
- dispatcher: its loops succeed; api, except in the check for requests alone: accepted work is dispatched.

Prefect reports if it sees a worker (`local.health`); the process itself reports if it is shutting down.
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

_SMALL: LiteralString = "select set_config('work_mem', '64kB', true)"
_SPILL: LiteralString = "select count(*) from generate_series(1, %(rows)s::bigint)"
"""More rows than `_SMALL` lets in memory: PostgreSQL writes them to its disk for as long as the statement runs."""
_ROWS: Final = 50_000
"""About a megabyte."""
_WRITE: LiteralString = """
    insert into rate_windows (caller, minute, requests) values ('readiness', 0, 1)
    on conflict (caller) do update set requests = 1
"""
_WRITES: tuple[tuple[LiteralString, Params], ...] = ((_SMALL, {}), (_SPILL, {"rows": _ROWS}), (_WRITE, {}))


def write_problem(db: Database) -> str | None:
    """Write and commit, from a thread; why PostgreSQL could not, None if it could."""
    try:
        with db.transaction() as connection:
            for statement, values in _WRITES:
                connection.execute(statement, values)
    except disk_full.WRITE_ERRORS as error:
        return disk_full.full_disk_reason(error) or disk_full.READ_ONLY_MESSAGE
    return None


async def async_write_problem(db: Database) -> str | None:
    """Async form of `write_problem`."""
    try:
        async with db.async_transaction() as connection:
            for statement, values in _WRITES:
                await connection.async_execute(statement, values)
    except disk_full.WRITE_ERRORS as error:
        return disk_full.full_disk_reason(error) or disk_full.READ_ONLY_MESSAGE
    return None


NOT_MIGRATED = "The database is not migrated yet."

_VERSION: LiteralString = "select version_num as version from alembic_version"
_FOLDER: LiteralString = "select id from files_folder"


async def api_problems(db: Database, settings: Settings, *, requests_only: bool = False) -> tuple[str, ...]:
    """Why the API is not ready; empty if it is. `requests_only`: whether this process can serve requests, even if
    ingestion is stalled, as a load balancer wants to know; a newer schema, which takes away nothing that this version
    uses, is then no reason: between a migration and the first process of the next version there is no other."""
    try:
        if reason := _schema(await db.async_fetch_one(str, _VERSION), is_newer_fine=requests_only):
            return (reason,)
    except UndefinedTable:
        return (NOT_MIGRATED,)
    if requests_only:
        await async_write_problem(db)  # one that takes no writes still answers searches; one that is away raises
        return await _async_files(db, settings)
    return (*await storage_problems(db, settings), *(await dispatch.async_look(db)).reasons)


async def storage_problems(db: Database, settings: Settings) -> tuple[str, ...]:
    """Why nothing can be stored: PostgreSQL takes no writes, or the folder of files is full or wrong."""
    unwritable = await async_write_problem(db)
    return (*((unwritable,) if unwritable else ()), *await _async_files(db, settings))


async def _async_files(db: Database, settings: Settings) -> tuple[str, ...]:
    return await asyncio.to_thread(_files, settings, await db.async_fetch_one(str, _FOLDER))


def worker_problems(db: Database, settings: Settings) -> tuple[str, ...]:
    """Why a worker of this machine cannot work, but for what Prefect knows of it. A newer schema is no reason: it goes
    on beside the processes of the next version until it is ended; an orchestrator would end it before these work."""
    try:
        if reason := _schema(db.fetch_one(str, _VERSION), is_newer_fine=True):
            return (reason,)
    except UndefinedTable:
        return (NOT_MIGRATED,)
    return _files(settings, db.fetch_one(str, _FOLDER))


def dispatcher_problems(db: Database, settings: Settings) -> tuple[str, ...]:
    """Why accepted work is not dispatched."""
    return worker_problems(db, settings) or dispatch.read_dispatch(db).reasons


def _schema(revision: str | None, *, is_newer_fine: bool = False) -> str | None:
    newest = revisions.newest_revision()
    if revision is None:
        return NOT_MIGRATED
    if revision == newest or (revision > newest and is_newer_fine):
        return None
    if revision < revisions.BASELINE_REVISION:
        return f"The database's schema, {revision}, {revisions.UPGRADE_ADVICE}."
    if revision < newest:
        return f"The database has schema {revision}, this version needs {newest}: run `retrieval migrate`."
    return (
        f"The database has schema {revision} of a newer version, this one knows {newest}: start the newer version here."
    )


def _files(settings: Settings, folder_id: str | None) -> tuple[str, ...]:
    reason = files_folder.folder_problem(settings, folder_id)
    return (reason,) if reason else ()
