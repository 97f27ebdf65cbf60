"""Synchronization of a connection: its cursor, unfinished items, and documents removed at the service.

A departure is recorded with its page and settled with the last page. Many at once are held for confirmation by a
resync: a faulty listing must not empty an index.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from psycopg import Connection

from retrieval import job_config
from retrieval.database.database import Database, Row
from retrieval.documents import connection_documents
from retrieval.filters import AWAITS_REMOVAL
from retrieval.ports import DiscoveryRequest
from retrieval.statuses import Stage, sql

PAGE = 500
SHARE = 0.2
"""Of a connection's documents: more than this do not leave at once without confirmation. One alone always may."""


@dataclass(frozen=True, slots=True)
class SyncState:
    """Start of the next listing: None for everything. `moved`: another account was authorized since the last.

    `chosen`: hash of the last selection. `shares`: items have access lists.
    """

    cursor: str | None
    moved: bool
    chosen: str = ""
    shares: bool = False


def state(db: Database, connection_id: str) -> SyncState:
    row = db.row("select cursor, permissions from connections where id = %(id)s", {"id": connection_id})
    saved: Mapping[str, Any] = (row and row["cursor"]) or {}
    shares = row is not None and row["permissions"] == "SOURCE"
    return SyncState(saved.get("at"), bool(saved.get("accountChanged")), saved.get("chosen", ""), shares)


_ITS: LiteralString = """
    documents d join connection_documents h on h.document_id = d.id and h.connection_id = %(connection)s
        and d.source = %(source)s and d.deleted_at is null and d.archive_id is null
"""
"""The documents that the connection has, but for what was packed into them."""
_DEPARTED: LiteralString = (
    " exists (select from departures g where g.document_id = d.id and g.connection_id = %(connection)s)"
)


def begin(db: Database, request: DiscoveryRequest) -> None:
    """Delete departures of runs with another selection that ended before their last page.

    They did not move the cursor, so this run lists the same removals again; items that they removed may be selected
    now.
    """
    db.rows(_LEFT_OVER, _values(request))


_LEFT_OVER: LiteralString = f"""
    delete from departures g using job_runs r join jobs j on j.id = r.job_id
    where g.connection_id = %(connection)s and not g.held and r.id = g.job_run_id and r.finished_at is not null
      and {job_config.REQUEST} is distinct from
          (select {job_config.REQUEST} from job_runs mine join jobs j on j.id = mine.job_id where mine.id = %(run)s)
"""


def unfinished(db: Database, request: DiscoveryRequest) -> list[Row]:
    """Documents that an earlier run found and did not bring to an end, but for those that cannot be read."""
    return _compared(
        db,
        request,
        "select d.external_id, d.name, m.media_type, coalesce(m.properties, '{}') as properties,"
        " m.properties ->> 'listedVersion' as version from"
        + _ITS
        + "left join run_documents m on m.document_id = d.id and m.job_run_id = d.job_run_id where"
        " (d.status = 'CANCELLED' or d.status = 'FAILED' and m.stage is distinct from " + sql(Stage.FETCHED) + ")"
        " and not exists (select from run_documents r where r.job_run_id = %(run)s and r.document_id = d.id)"
        " and not" + _DEPARTED + f" order by d.external_id limit {PAGE}",
    )


def missing(db: Database, request: DiscoveryRequest) -> list[str]:
    """External ids of the connection's documents that this run's listing did not name, nor refuse by name.

    Not those of which it is known that they left: they leave with this run, or wait for a person.
    """
    rows = _compared(
        db,
        request,
        "select d.external_id from"
        + _ITS
        + "where not exists (select from run_documents r where r.job_run_id = %(run)s and r.document_id = d.id) and not"
        + _DEPARTED
        + " and not exists (select from run_documents r where r.job_run_id = %(run)s"
        " and r.properties ->> 'externalId' = d.external_id) order by d.external_id",
    )
    return [row["external_id"] for row in rows]


def held(db: Database, request: DiscoveryRequest) -> list[str]:
    """External ids of the connection's documents, but for those of which it is known that they left."""
    statement: LiteralString = "select d.external_id from" + _ITS + "where not" + _DEPARTED + " order by d.external_id"
    return [row["external_id"] for row in db.rows(statement, _values(request))]


def would_leave(db: Database, request: DiscoveryRequest, departed: Sequence[str], *, moved: bool) -> tuple[int, int]:
    """Count the connection's documents with these external ids that `finish` would remove, or hold for a person."""
    values = {**_values(request), "departed": list(departed)}
    rows = db.rows(
        "select d.id, exists (select from connection_documents o where o.document_id = d.id"
        " and o.connection_id <> %(connection)s) as shared from" + _ITS + "where d.external_id = any(%(departed)s)",
        values,
    )
    with db.transaction() as connection:
        if _is_held(connection, request, len(rows), moved=moved):
            return 0, len(rows)
    return sum(not row["shared"] for row in rows), 0


def _compared(db: Database, request: DiscoveryRequest, statement: LiteralString) -> list[Row]:
    """Compare all documents with all listed ids as sets, never pair by pair.

    Pairs are what the planner chooses while its statistics do not know of the run, and 20,000 by 20,000 take minutes.
    """
    with db.transaction() as connection:
        connection.execute("set local enable_nestloop = off")
        return connection.execute(statement, _values(request)).fetchall()


def note(
    connection: Connection[Any],
    *,
    request: DiscoveryRequest,
    listed: Sequence[str],
    departed: Sequence[str],
    had: Sequence[str] | None = None,
) -> None:
    """Within the page's transaction: who is there again stays, who has left is remembered until the last page.

    `had`: those of the listed that can be had, which are the connection's from now on; all if it is not given.
    """
    values = {**_values(request), "listed": list(listed), "departed": list(departed)}
    connection_documents.require_living(connection, values["connection"])
    connection_documents.add(connection, values["connection"], values["run"], listed if had is None else had)
    connection.execute(
        "delete from departures g using"
        + _ITS
        + "where g.document_id = d.id and g.connection_id = %(connection)s and d.external_id = any(%(listed)s)",
        values,
    )
    connection.execute(
        "insert into departures (document_id, connection_id, job_run_id) select d.id, %(connection)s, %(run)s from"
        + _ITS
        + "where d.external_id = any(%(departed)s) on conflict (document_id, connection_id) do nothing",
        values,
    )


def finish(
    connection: Connection[Any],
    *,
    request: DiscoveryRequest,
    cursor: str | None,
    moved: bool,
    chosen: str = "",
) -> None:
    """Within the last page's transaction: documents leave, or are held for a person, and the cursor moves on.

    What another connection has too leaves this one only. `chosen`: the mark of what was listed.
    """
    values = _values(request)
    connection_documents.require_living(connection, values["connection"])
    leaving, removed = _leaving(connection, request), 0
    if _is_held(connection, request, len(leaving), moved=moved):
        connection.execute(
            "update departures set held = true where document_id = any(%(ids)s) and connection_id = %(connection)s",
            {**values, "ids": leaving},
        )
    elif leaving:
        removed_rows = connection_documents.let_go(connection, values["connection"], leaving, keep=False)
        _forget(connection, request, removed_rows.last)
        removed = len(removed_rows.last)
    connection.execute(
        """
        update job_runs set progress = progress || jsonb_build_object('removed', %(removed)s::int,
            'awaitingConfirmation', (select count(*) from departures o join documents d on d.id = o.document_id
                                     where o.connection_id = %(connection)s and o.held and d.deleted_at is null and """
        + AWAITS_REMOVAL
        + """)) where id = %(run)s
        """,
        {**values, "removed": removed},
    )
    connection.execute(
        "update connections set cursor = %(cursor)s, listed_at = now() where id = %(connection)s"
        " and (%(moved)s or cursor ->> 'accountChanged' is null)",
        {**values, "cursor": json.dumps({"at": cursor} | ({"chosen": chosen} if chosen else {})), "moved": moved},
    )


def _leaving(connection: Connection[Row], request: DiscoveryRequest) -> list[str]:
    rows = connection.execute(
        "select d.id from"
        + _ITS
        + "join departures g on g.document_id = d.id and g.connection_id = %(connection)s and not g.held"
        " order by d.id for no key update of d",
        _values(request),
    ).fetchall()
    return [row["id"] for row in rows]


def _forget(connection: Connection[Row], request: DiscoveryRequest, left: Sequence[str]) -> None:
    """Drop items that the run was to fetch and then removed: they are neither pending nor failed."""
    connection.execute(
        "delete from run_documents where job_run_id = %(run)s and document_id = any(%(ids)s) and status = 'QUEUED'",
        {**_values(request), "ids": list(left)},
    )


def _is_held(connection: Connection[Row], request: DiscoveryRequest, leaving: int, *, moved: bool) -> bool:
    """Tell whether removals are held. `moved`: also if another account was authorized since the run began."""
    row = connection.execute(
        "select (select count(*) from" + _ITS + ") as documents, c.cursor ? 'accountChanged' as moved"
        " from connections c where c.id = %(connection)s",
        _values(request),
    ).fetchone()
    if row is None or not leaving:
        return False
    return bool(moved or row["moved"] or (leaving > 1 and leaving > SHARE * row["documents"]))


def _values(request: DiscoveryRequest) -> dict[str, Any]:
    return {"connection": request.connection_id, "source": request.source, "run": request.job_run_id}
