"""Audit log: one entry per requested write, completed or refused, without content or secrets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import date, datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from psycopg import OperationalError
from sqlalchemy.dialects.postgresql import JSONB

from retrieval import ids
from retrieval.database import pagination
from retrieval.database.compiling import compile_statement, equals, equals_if_given, select_page
from retrieval.database.database import Database
from retrieval.database.pagination import Page, PageRequest
from retrieval.database.rows import Executor
from retrieval.database.schema import identity

ENTRIES_PER_INSERT = 500

# An entry waits for the running insert and for its own.
WAIT_SECONDS = 20.0

ENTRIES_PER_DELETE = 5000

# Clients may put any text into a path.
_MAX_OBJECT_ID_CHARACTERS = 200


class Source(StrEnum):
    """Channel of a write."""

    API = "API"
    CLI = "CLI"
    PREFECT = "PREFECT"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Audit entry of a write. `object_id` None: no object, or refused before it was known.

    `principal`: acting user, at the command line the user of the operating system; `subject`: of a request token;
    `object_ids`, `object_count`, `changes`: see `write_details`.
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
class StoredAuditEntry(AuditEntry):
    """Stored audit entry."""

    created_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", Source(self.source))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Filter of entries; None matches any. `about`: object id; `start`, `end`: days (UTC), inclusive."""

    object_type: str | None = None
    about: str | None = None
    key_name: str | None = None
    refused: bool | None = None
    start: date | None = None
    end: date | None = None


MAX_COUNTED_ENTRIES = 100_000
_table: Any = identity.AuditEntry
_ENTRY_FIELDS = tuple(field.name for field in fields(AuditEntry))
_sent = sa.func.jsonb_to_recordset(sa.bindparam("entries", type_=JSONB))
_sent_columns = (sa.column(name, _table.__table__.c[name].type) for name in _ENTRY_FIELDS)
_sent_entries = _sent.table_valued(*_sent_columns).render_derived("entry", with_types=True)
_INSERT_ENTRIES = compile_statement(sa.insert(_table).from_select(_ENTRY_FIELDS, sa.select(_sent_entries)))
_about, _refused = sa.bindparam("about", type_=sa.Text), sa.cast(sa.bindparam("refused"), sa.Boolean)
_start, _end = sa.bindparam("start", type_=sa.Date), sa.bindparam("end", type_=sa.Date)

_matches = sa.and_(
    equals(_table.organization_id, "organization"),
    equals_if_given(_table.object_type),
    sa.or_(_about.is_(None), _table.object_id == _about, _about == sa.any_(_table.object_ids)),
    equals_if_given(_table.key_name),
    sa.or_(_refused.is_(None), (_table.status >= 400) == _refused),
    sa.or_(_start.is_(None), _table.created_at >= sa.func.timezone("utc", sa.cast(_start, sa.DateTime))),
    sa.or_(_end.is_(None), _table.created_at < sa.func.timezone("utc", sa.cast(_end + 1, sa.DateTime))),
)
_LIST_NEWEST, _LIST_OLDEST = (
    select_page(_table, StoredAuditEntry, _matches, newest_first=newest_first) for newest_first in (True, False)
)
_counted = sa.select(sa.text("")).select_from(_table).where(_matches).limit(MAX_COUNTED_ENTRIES + 1)
_COUNT_ENTRIES = compile_statement(sa.select(sa.func.count()).select_from(_counted.subquery("matched")))
_row_id: Any = sa.column("ctid")
_is_old = _table.created_at < sa.func.now() - sa.bindparam("days", type_=sa.Integer) * sa.text("interval '1 day'")
_old_rows = sa.select(_row_id).select_from(_table).where(_is_old).limit(ENTRIES_PER_DELETE).scalar_subquery()
_DELETE_OLD = compile_statement(sa.delete(_table).where(_row_id == sa.any_(sa.func.array(_old_rows))))


class AuditWriter:
    """Write entries from an event loop, batched while an insert is running."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: list[tuple[AuditEntry, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def write(self, entry: AuditEntry) -> None:
        """Return after the commit of the entry. Raises database errors, OperationalError after WAIT_SECONDS."""
        # Responses wait for the commit, so no acknowledged write lacks an entry. After a timeout the entry may still
        # be written.
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
            entries, self._waiting = self._waiting[:ENTRIES_PER_INSERT], self._waiting[ENTRIES_PER_INSERT:]
            failed: BaseException | None = None
            try:
                await self._db.async_execute(_INSERT_ENTRIES, _values([entry for entry, _ in entries]), plan_once=True)
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


def write_entries(db: Executor, entries: Sequence[AuditEntry]) -> None:
    """Write entries from a thread, or in the transaction of the described writes."""
    db.execute(_INSERT_ENTRIES, _values(entries))


async def list_entries(
    db: Database,
    organization: str,
    part: PageRequest,
    entry_filter: AuditFilter | None = None,
    *,
    oldest_first: bool = False,
) -> Page[StoredAuditEntry]:
    """List the matching entries by age."""
    values = {"organization": organization, **asdict(entry_filter or AuditFilter()), **pagination.page_params(part)}
    statement = _LIST_OLDEST if oldest_first else _LIST_NEWEST
    return pagination.cut_page(await db.async_fetch(StoredAuditEntry, statement, values), part)


async def count_entries(db: Database, organization: str, entry_filter: AuditFilter) -> int | None:
    """Count the matching entries; None above MAX_COUNTED_ENTRIES."""
    values = {"organization": organization, **asdict(entry_filter)}
    total = await db.async_fetch_one(int, _COUNT_ENTRIES, values) or 0
    return total if total <= MAX_COUNTED_ENTRIES else None


def delete_old_entries(db: Database, days: int) -> int:
    """Delete a bounded number of entries older than `days`; return the number."""
    return db.execute(_DELETE_OLD, {"days": days})


def _values(entries: Sequence[AuditEntry]) -> dict[str, str]:
    rows = [
        {name: getattr(entry, name) for name in _ENTRY_FIELDS} | {"object_id": _truncate(entry.object_id)}
        for entry in entries
    ]
    return {"entries": json.dumps(rows)}


def _truncate(text: str | None) -> str | None:
    return None if text is None else text[:_MAX_OBJECT_ID_CHARACTERS].replace("\x00", "\ufffd")
