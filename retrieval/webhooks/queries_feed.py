"""SQL of events for Prefect, stored until emission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from retrieval import job_config
from retrieval.database.database import Database
from retrieval.database.rows import Executor

PREFECT_FEED = "prefect"
EVENT_PAGE_SIZE = 100
_INSERT_EVENTS: LiteralString = (
    "insert into prefect_events (type, data, at) select w.type, w.data || jsonb_strip_nulls(jsonb_build_object("
    "'source', r.source, 'connectionId', coalesce(w.data ->> 'connectionId', "
    + job_config.connection_id_sql()
    + """))), w.at
    from unnest(%(types)s::text[], %(datas)s::jsonb[], %(ats)s::timestamptz[]) with ordinality
         as w (type, data, at, position)
    left join job_runs r on r.id = w.data ->> 'ingestJobRunId' left join jobs j on j.id = r.job_id
    order by w.position
"""
)


def switch_recording(db: Database, *, on: bool) -> None:
    """Start or stop recording events for Prefect, and drop events older than a day."""
    if on:
        db.execute("insert into event_feeds (name) values (%(name)s) on conflict do nothing", {"name": PREFECT_FEED})
    else:
        db.execute("delete from event_feeds where name = %(name)s", {"name": PREFECT_FEED})
    db.execute("delete from prefect_events where at < now() - interval '1 day' or not %(on)s", {"on": on})


def keep_events(connection: Executor, rows: Sequence[tuple[str, str, Any]]) -> None:
    """Record events if Prefect receives any. `rows`: type, JSON data and time."""
    events = [row for row in rows if not row[0].startswith("DOCUMENTS_")]
    if not events or not connection.fetch(str, "select name from event_feeds limit 1"):
        return
    types, datas, ats = zip(*events, strict=True)
    connection.execute(_INSERT_EVENTS, {"types": list(types), "datas": list(datas), "ats": list(ats)})


@dataclass(frozen=True, slots=True)
class PrefectEvent:
    """Event to emit to Prefect."""

    id: int
    event_id: UUID
    type: str
    data: Mapping[str, Any]
    at: datetime


def list_waiting(db: Database) -> list[PrefectEvent]:
    """Return the oldest waiting events."""
    statement: LiteralString = "select id, event_id, type, data, at from prefect_events order by id limit %(page)s"
    return db.fetch(PrefectEvent, statement, {"page": EVENT_PAGE_SIZE})


def mark_emitted(db: Database, ids: Sequence[int]) -> None:
    """Delete emitted events."""
    db.execute("delete from prefect_events where id = any(%(ids)s)", {"ids": list(ids)})
