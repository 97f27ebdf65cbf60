"""Audit log: one entry for every requested write, completed or refused; never content or secrets.

An answer to a write is sent after its entry is committed, so no write that a client knows of lacks one. Entries that
are waited for at the same time are written by one statement.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import date, datetime
from enum import StrEnum
from typing import Any, LiteralString

from psycopg import OperationalError

from retrieval import ids
from retrieval.database import pagination
from retrieval.database.database import Database
from retrieval.database.pagination import Page, PageRequest
from retrieval.database.rows import Executor

TOGETHER = 500
"""Entries that one statement writes at most."""

WAIT_SECONDS = 20.0
"""How long a write waits for its entry: for a statement that is under way and for its own."""

OLD = 5000
"""Entries that one statement deletes at most."""

_LONGEST = 200
"""Characters of an object's id that are kept: a client may name anything in a path."""


class Source(StrEnum):
    """By which way a write came."""

    API = "API"
    CLI = "CLI"
    PREFECT = "PREFECT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Audit entry of a write. `object_id` None: the write concerns no object, or was refused before one was known.

    `principal`: the user that it was done for; at the command line the user of the operating system. `subject`: of the
    request's token, if it had no key. `request_id`: the service's own, `client_request_id`: the client's. `object_ids`,
    `object_count` and `changes`: see `write_details`; None where there are none.
    """

    organization_id: str
    method: str
    route: str
    object_type: str
    object_id: str | None
    status: int
    source: Source
    key_id: str | None = None
    key_name: str | None = None
    principal: str | None = None
    request_id: str | None = None
    subject: str | None = None
    object_ids: list[str] | None = None
    object_count: int | None = None
    changes: list[dict[str, Any]] | None = None
    client_request_id: str | None = None
    id: str = field(default_factory=ids.audit_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(Entry):
    """Stored audit entry."""

    created_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", Source(self.source))


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which entries; None is any. `about`: the id of its object. `start` and `end`: days (UTC), both included."""

    object_type: str | None = None
    about: str | None = None
    key_name: str | None = None
    refused: bool | None = None
    start: date | None = None
    end: date | None = None


_NAMES = tuple(field.name for field in fields(Entry))
_WHAT: LiteralString = (
    "organization_id, id, key_id, key_name, principal, method, route, object_type, object_id, status, request_id,"
    " source, subject, object_ids, object_count, changes, client_request_id"
)
_INSERT: LiteralString = (
    "insert into audit_entries ("
    + _WHAT
    + ") select "
    + _WHAT
    + " from jsonb_to_recordset(%(entries)s::jsonb) as entry (organization_id text, id text, key_id text,"
    " key_name text, principal text, method text, route text, object_type text, object_id text, status smallint,"
    " request_id text, source text, subject text, object_ids text[], object_count int, changes jsonb,"
    " client_request_id text)"
)
COUNTED = 100_000
"""Entries that a list counts at most."""
_MATCHED: LiteralString = (
    " from audit_entries where organization_id = %(organization)s"
    " and (%(object_type)s::text is null or object_type = %(object_type)s)"
    " and (%(about)s::text is null or object_id = %(about)s or %(about)s = any(object_ids))"
    " and (%(key_name)s::text is null or key_name = %(key_name)s)"
    " and (%(refused)s::bool is null or (status >= 400) = %(refused)s)"
    " and (%(start)s::date is null or created_at >= %(start)s::date::timestamp at time zone 'utc')"
    " and (%(end)s::date is null or created_at < (%(end)s::date + 1)::timestamp at time zone 'utc')"
)
_FORGET: LiteralString = (
    "delete from audit_entries where ctid = any(array(select ctid from audit_entries"
    " where created_at < now() - make_interval(days => %(days)s) limit %(most)s))"
)


class Writer:
    """Write entries from an event loop. Entries that arrive during a statement are written together by the next."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: list[tuple[Entry, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def write(self, entry: Entry) -> None:
        """Returns once the entry is committed; raises what the database raises, OperationalError after `WAIT_SECONDS`.

        An entry that was waited for in vain may be written all the same.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, done))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all())
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await done
        except TimeoutError as error:
            raise OperationalError(f"The entry of the audit log was not written within {WAIT_SECONDS:g} s.") from error

    async def _write_all(self) -> None:
        while self._waiting:
            entries, self._waiting = self._waiting[:TOGETHER], self._waiting[TOGETHER:]
            failed: BaseException | None = None
            try:
                await self._db.async_execute(_INSERT, _values([entry for entry, _ in entries]), plan_once=True)
            except BaseException as error:  # noqa: BLE001  (callers must not wait for ever)
                failed = error
            for _, done in entries:
                if done.done():
                    continue
                if failed is None:
                    done.set_result(None)
                else:
                    done.set_exception(failed if isinstance(failed, Exception) else RuntimeError("cancelled"))
            if failed is not None and not isinstance(failed, Exception):
                raise failed


def write_entries(db: Executor, entries: Sequence[Entry]) -> None:
    """Write entries from a thread, or within the transaction of the writes they describe."""
    db.execute(_INSERT, _values(entries))


async def list_part(
    db: Database, organization: str, part: PageRequest, wanted: Filter | None = None, *, oldest_first: bool = False
) -> Page[Written]:
    """The organization's entries, newest first unless `oldest_first`; of those that are wanted."""
    values = {"organization": organization, **asdict(wanted or Filter()), **pagination.page_params(part)}
    statement = "select created_at, " + _WHAT + _MATCHED + pagination.order_by_age(oldest_first=oldest_first)
    return pagination.cut_page(await db.async_fetch(Written, statement, values), part)


async def count_entries(db: Database, organization: str, wanted: Filter) -> int | None:
    """Count the organization's entries that are wanted; None for more than `COUNTED`."""
    statement = "select count(*) from (select" + _MATCHED + " limit %(most)s) matched"
    values = {"organization": organization, **asdict(wanted), "most": COUNTED + 1}
    total = await db.async_fetch_one(int, statement, values) or 0
    return total if total <= COUNTED else None


def delete_old_entries(db: Database, days: int) -> int:
    """Delete entries older than so many days, a bounded number; how many."""
    return db.execute(_FORGET, {"days": days, "most": OLD})


def _values(entries: Sequence[Entry]) -> dict[str, str]:
    rows = [
        {name: getattr(entry, name) for name in _NAMES} | {"object_id": _short(entry.object_id)} for entry in entries
    ]
    return {"entries": json.dumps(rows)}


def _short(text: str | None) -> str | None:
    return None if text is None else text[:_LONGEST].replace("\x00", "\ufffd")
