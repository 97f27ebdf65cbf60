"""Statements on events for Prefect, kept until they are emitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from retrieval import job_config
from retrieval.database.database import Database
from retrieval.database.rows import Executor

PREFECT = "prefect"
PAGE = 100
_INSERT: LiteralString = (
    "insert into prefect_events (type, data, at) select w.type, w.data || jsonb_strip_nulls(jsonb_build_object("
    "'source', r.source, 'connectionId', coalesce(w.data ->> 'connectionId', "
    + job_config.connection_of()
    + """))), w.at
    from unnest(%(types)s::text[], %(datas)s::jsonb[], %(ats)s::timestamptz[]) with ordinality
         as w (type, data, at, place)
    left join job_runs r on r.id = w.data ->> 'ingestJobRunId' left join jobs j on j.id = r.job_id
    order by w.place
"""
)


def switch_recording(db: Database, *, on: bool) -> None:
    """Start or stop recording events for Prefect by its setting; events not emitted for a day are dropped."""
    if on:
        db.execute("insert into event_feeds (name) values (%(name)s) on conflict do nothing", {"name": PREFECT})
    else:
        db.execute("delete from event_feeds where name = %(name)s", {"name": PREFECT})
    db.execute("delete from prefect_events where at < now() - interval '1 day' or not %(on)s", {"on": on})


def keep_events(connection: Executor, rows: Sequence[tuple[str, str, Any]]) -> None:
    """Record events for Prefect if it receives any. `rows`: type, data as JSON and time of each."""
    events = [row for row in rows if not row[0].startswith("DOCUMENTS_")]
    if not events or not connection.fetch(str, "select name from event_feeds limit 1"):
        return
    types, datas, ats = zip(*events, strict=True)
    connection.execute(_INSERT, {"types": list(types), "datas": list(datas), "ats": list(ats)})


@dataclass(frozen=True, slots=True)
class PrefectEvent:
    """An event that waits to be emitted to Prefect."""

    id: int
    event_id: UUID
    type: str
    data: Mapping[str, Any]
    at: datetime


def list_waiting(db: Database) -> list[PrefectEvent]:
    """Return the oldest events that were not emitted."""
    statement: LiteralString = "select id, event_id, type, data, at from prefect_events order by id limit %(page)s"
    return db.fetch(PrefectEvent, statement, {"page": PAGE})


def mark_emitted(db: Database, ids: Sequence[int]) -> None:
    """Delete emitted events, so that they are not emitted again."""
    db.execute("delete from prefect_events where id = any(%(ids)s)", {"ids": list(ids)})
