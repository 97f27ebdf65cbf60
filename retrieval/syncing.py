"""How a connection is kept in step: how far it has come, what is left over, and documents that left the service.

A departure is noted with the page that tells of it and settled with the last page. Many at once are held: a bad listing
must not empty an index, so a person confirms them with a resync.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from psycopg import Connection

from retrieval.database import Database, Row
from retrieval.pipeline import removal
from retrieval.ports import DiscoveryRequest

PAGE = 500
SHARE = 0.2
"""Of a connection's documents: more than this do not leave at once without a person's word. One alone always may."""


@dataclass(frozen=True, slots=True)
class State:
    """Where the next listing begins: None for everything. `moved`: another account was authorized since the last."""

    cursor: str | None
    moved: bool


def state(db: Database, connection_id: str) -> State:
    row = db.row("select cursor from connections where id = %(id)s", {"id": connection_id})
    saved: Mapping[str, Any] = (row and row["cursor"]) or {}
    return State(saved.get("at"), bool(saved.get("accountChanged")))


_ITS: LiteralString = (
    " d.connection_id = %(connection)s and d.source = %(source)s and d.deleted_at is null"
    " and d.partition_id = (select partition_id from job_runs where id = %(run)s) and d.archive_id is null "
)
"""The connection's own documents, but for what was packed into them."""


def unfinished(db: Database, request: DiscoveryRequest) -> list[Row]:
    """Documents that an earlier run found and did not bring to an end, but for those that cannot be read."""
    return _compared(
        db,
        request,
        "select d.external_id, d.name, m.media_type, coalesce(m.properties, '{}') as properties,"
        " m.properties ->> 'listedVersion' as version"
        " from documents d left join run_documents m on m.document_id = d.id and m.job_run_id = d.job_run_id where"
        + _ITS
        + "and (d.status = 'CANCELLED' or d.status = 'FAILED' and m.stage is distinct from 'fetched')"
        " and not exists (select from run_documents r where r.job_run_id = %(run)s and r.document_id = d.id)"
        " and not exists (select from departures g where g.document_id = d.id)"
        f" order by d.external_id limit {PAGE}",
    )


def missing(db: Database, request: DiscoveryRequest) -> list[str]:
    """External ids of the connection's documents that this run's listing did not name, nor refuse by name.

    Not those of which it is known that they left: they leave with this run, or wait for a person.
    """
    rows = _compared(
        db,
        request,
        "select d.external_id from documents d where"
        + _ITS
        + "and not exists (select from run_documents r where r.job_run_id = %(run)s and r.document_id = d.id)"
        " and not exists (select from departures g where g.document_id = d.id)"
        " and not exists (select from run_documents r where r.job_run_id = %(run)s"
        " and r.properties ->> 'externalId' = d.external_id) order by d.external_id",
    )
    return [row["external_id"] for row in rows]


def _compared(db: Database, request: DiscoveryRequest, statement: LiteralString) -> list[Row]:
    """Of a question about all documents and all that a run listed: sets are compared, never pair by pair.

    Pairs are what the planner chooses while its statistics do not know of the run, and 20,000 by 20,000 take minutes.
    """
    with db.transaction() as connection:
        connection.execute("set local enable_nestloop = off")
        return connection.execute(statement, _values(request)).fetchall()


def note(
    connection: Connection[Any], *, request: DiscoveryRequest, listed: Sequence[str], departed: Sequence[str]
) -> None:
    """Within the page's transaction: who is there again stays, who has left is remembered until the last page."""
    values = {**_values(request), "listed": list(listed), "departed": list(departed)}
    connection.execute(
        "delete from departures g using documents d where g.document_id = d.id and d.external_id = any(%(listed)s) and"
        + _ITS,
        values,
    )
    connection.execute(
        "insert into departures (document_id, connection_id, job_run_id)"
        " select d.id, %(connection)s, %(run)s from documents d where d.external_id = any(%(departed)s) and"
        + _ITS
        + "on conflict (document_id) do nothing",
        values,
    )


def finish(
    connection: Connection[Any],
    *,
    request: DiscoveryRequest,
    cursor: str | None,
    moved: bool,
) -> None:
    """Within the last page's transaction: documents leave, or are held for a person, and the cursor moves on."""
    leaving = _leaving(connection, request)
    if _is_held(connection, request, len(leaving), moved=moved):
        connection.execute("update departures set held = true where document_id = any(%(ids)s)", {"ids": leaving})
    else:
        removal.take_away(connection, leaving)
        _forget(connection, request, leaving)
    connection.execute(
        """
        update job_runs set progress = progress || jsonb_build_object(
            'removed', %(left)s - (select count(*) from departures where document_id = any(%(ids)s)),
            'awaitingConfirmation', (select count(*) from departures g join documents d on d.id = g.document_id
                                     where g.connection_id = %(connection)s and g.held and d.deleted_at is null))
        where id = %(run)s
        """,
        {**_values(request), "ids": leaving, "left": len(leaving)},
    )
    connection.execute(
        "update connections set cursor = %(cursor)s where id = %(connection)s"
        " and (%(moved)s or cursor ->> 'accountChanged' is null)",
        {**_values(request), "cursor": json.dumps({"at": cursor}), "moved": moved},
    )


def _leaving(connection: Connection[Row], request: DiscoveryRequest) -> list[str]:
    rows = connection.execute(
        "select d.id from departures g join documents d on d.id = g.document_id"
        " where not g.held and" + _ITS + "order by d.id for no key update of d",
        _values(request),
    ).fetchall()
    return [row["id"] for row in rows]


def _forget(connection: Connection[Row], request: DiscoveryRequest, left: Sequence[str]) -> None:
    """What this run was to bring and the same run removed is no work any more, and no failure."""
    connection.execute(
        "delete from run_documents where job_run_id = %(run)s and document_id = any(%(ids)s) and status = 'QUEUED'",
        {**_values(request), "ids": list(left)},
    )


def _is_held(connection: Connection[Row], request: DiscoveryRequest, leaving: int, *, moved: bool) -> bool:
    """`moved`: also where another account was authorized since the run began, since half of it asked that one."""
    row = connection.execute(
        "select count(*) as documents, bool_or(c.cursor ? 'accountChanged') as moved"
        " from documents d join connections c on c.id = d.connection_id where" + _ITS,
        _values(request),
    ).fetchone()
    if row is None or not leaving:
        return False
    return bool(moved or row["moved"] or (leaving > 1 and leaving > SHARE * row["documents"]))


def _values(request: DiscoveryRequest) -> dict[str, Any]:
    return {"connection": request.connection_id, "source": request.source, "run": request.job_run_id}
