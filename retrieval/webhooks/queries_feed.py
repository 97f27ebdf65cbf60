"""SQL of events for Prefect, stored until emission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

from sqlalchemy import Boolean, bindparam, delete, exists, func, not_, or_, select
from sqlalchemy.dialects.postgresql import insert

from retrieval import job_config
from retrieval.database.compiling import columns_of, compile_statement, equals, in_list, parameters
from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.database.schema import webhooks

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


_feed: Any = webhooks.EventFeed
_event: Any = webhooks.PrefectEvent
_ADD_FEED = compile_statement(insert(_feed).values(**parameters("name")).on_conflict_do_nothing())
_DELETE_FEED = compile_statement(delete(_feed).where(equals(_feed.name)))
_HAS_FEED = compile_statement(select(exists(select(_feed.name))))
_DELETE_OLD_EVENTS = compile_statement(
    delete(_event).where(or_(_event.at < func.now() - timedelta(days=1), not_(bindparam("on", type_=Boolean))))
)
_DELETE_EVENTS = compile_statement(delete(_event).where(in_list(_event.id, "ids")))


def switch_recording(db: Database, *, on: bool) -> None:
    """Start or stop recording events for Prefect, and drop events older than a day."""
    db.execute(_ADD_FEED if on else _DELETE_FEED, {"name": PREFECT_FEED})
    db.execute(_DELETE_OLD_EVENTS, {"on": on})


def keep_events(connection: Executor, rows: Sequence[tuple[str, str, Any]]) -> None:
    """Record events if Prefect receives any. `rows`: type, JSON data and time."""
    events = [row for row in rows if not row[0].startswith("DOCUMENTS_")]
    if not events or not connection.fetch_one(bool, _HAS_FEED, {}):
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


_LIST_EVENTS = compile_statement(select(*columns_of(_event, PrefectEvent)).order_by(_event.id).limit(EVENT_PAGE_SIZE))


def list_waiting(db: Database) -> list[PrefectEvent]:
    """Return the oldest waiting events."""
    return db.fetch(PrefectEvent, _LIST_EVENTS, {})


def mark_emitted(db: Database, ids: Sequence[int]) -> None:
    """Delete emitted events."""
    db.execute(_DELETE_EVENTS, {"ids": list(ids)})
