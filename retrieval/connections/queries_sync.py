"""Synchronization of a connection: its cursor, unfinished items, and documents removed at the service.

A departure is recorded with its page and settled with the last page. Many at once are held for confirmation by a
resync: a faulty listing must not empty an index.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, TypeVar

from retrieval import job_config
from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.documents.queries import connection_documents, deletion
from retrieval.filters import AWAITS_REMOVAL
from retrieval.ports import DiscoveryRequest
from retrieval.statuses import Stage, stage_names

PAGE = 500
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SyncState:
    """Start of the next listing: None for everything. `moved`: another account was authorized since the last.

    `chosen`: hash of the last selection. `shares`: items have access lists.
    """

    cursor: str | None
    moved: bool
    chosen: str = ""
    shares: bool = False


def read_state(db: Executor, connection_id: str) -> SyncState:
    state = db.fetch_one(
        SyncState,
        "select cursor ->> 'at' as cursor, coalesce(cursor ->> 'accountChanged' = 'true', false) as moved,"
        " coalesce(cursor ->> 'chosen', '') as chosen, permissions = 'SOURCE' as shares"
        " from connections where id = %(id)s",
        {"id": connection_id},
    )
    return state or SyncState(None, moved=False)


ITS: LiteralString = """
    documents d join connection_documents h on h.document_id = d.id and h.connection_id = %(connection)s
        and d.source = %(source)s and d.deleted_at is null and d.archive_id is null
"""
"""The documents that the connection has, but for what was packed into them."""
_DEPARTED: LiteralString = (
    " exists (select from departures g where g.document_id = d.id and g.connection_id = %(connection)s)"
)


def delete_left_over(db: Executor, request: DiscoveryRequest) -> None:
    """Delete departures of runs with another selection that ended before their last page.

    They did not move the cursor, so this run lists the same removals again; items that they removed may be selected
    now.
    """
    db.execute(
        f"""
        delete from departures g using job_runs r join jobs j on j.id = r.job_id
        where g.connection_id = %(connection)s and not g.held and r.id = g.job_run_id and r.finished_at is not null
          and {job_config.REQUEST} is distinct from
              (select {job_config.REQUEST} from job_runs mine join jobs j on j.id = mine.job_id where mine.id = %(run)s)
        """,
        discovery_values(request),
    )


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A document that an earlier run listed and did not finish."""

    external_id: str
    name: str
    media_type: str
    properties: Mapping[str, Any]
    version: str


def list_unfinished(db: Database, request: DiscoveryRequest) -> list[Unfinished]:
    """Documents that an earlier run found and did not bring to an end, but for those that cannot be read."""
    return _compared(
        Unfinished,
        db,
        request,
        "select d.external_id, d.name, coalesce(m.media_type, '') as media_type, coalesce(m.properties, '{}') as"
        " properties, coalesce(m.properties ->> 'listedVersion', '') as version from"
        + ITS
        + "left join run_documents m on m.document_id = d.id and m.job_run_id = d.job_run_id where"
        " (d.status = 'CANCELLED' or d.status = 'FAILED' and m.stage is distinct from "
        + stage_names(Stage.FETCHED)
        + ")"
        " and not exists (select from run_documents r where r.job_run_id = %(run)s and r.document_id = d.id)"
        " and not" + _DEPARTED + f" order by d.external_id limit {PAGE}",
    )


def list_missing(db: Database, request: DiscoveryRequest) -> list[str]:
    """External ids of the connection's documents that this run's listing did not name, nor refuse by name.

    Not those of which it is known that they left: they leave with this run, or wait for a person.
    """
    return _compared(
        str,
        db,
        request,
        "select d.external_id from"
        + ITS
        + "where not exists (select from run_documents r where r.job_run_id = %(run)s and r.document_id = d.id) and not"
        + _DEPARTED
        + " and not exists (select from run_documents r where r.job_run_id = %(run)s"
        " and r.properties ->> 'externalId' = d.external_id) order by d.external_id",
    )


def list_held(db: Database, request: DiscoveryRequest) -> list[str]:
    """External ids of the connection's documents, but for those of which it is known that they left."""
    statement: LiteralString = "select d.external_id from" + ITS + "where not" + _DEPARTED + " order by d.external_id"
    return db.fetch(str, statement, discovery_values(request))


def list_ingested(db: Database, request: DiscoveryRequest, *, but: str, limit: int) -> list[str]:
    """External ids of the connection's documents that were ingested last, but for one external id."""
    statement: LiteralString = (
        "select d.external_id from"
        + ITS
        + "where d.active_generation > 0 and d.external_id <> %(but)s and not"
        + _DEPARTED
        + " order by d.updated_at desc limit %(limit)s"
    )
    return db.fetch(str, statement, {**discovery_values(request), "but": but, "limit": limit})


def count_leaving(db: Database, request: DiscoveryRequest, departed: Sequence[str], *, moved: bool) -> tuple[int, int]:
    """Count those of these documents that `finish_listing` would remove, and those that it would hold for a person."""
    values = {**discovery_values(request), "departed": list(departed)}
    are_shared = db.fetch(
        bool,
        "select exists (select from connection_documents o where o.document_id = d.id"
        " and o.connection_id <> %(connection)s) from" + ITS + "where d.external_id = any(%(departed)s)",
        values,
    )
    if _is_held(db, request, len(are_shared), moved=moved):
        return 0, len(are_shared)
    return are_shared.count(False), 0


def _compared(row_type: type[T], db: Database, request: DiscoveryRequest, statement: LiteralString) -> list[T]:
    """Compare all documents with all listed ids as sets, never pair by pair.

    Pairs are what the planner chooses while its statistics do not know of the run, and 20,000 by 20,000 take minutes.
    """
    with db.transaction() as connection:
        connection.execute("set local enable_nestloop = off")
        return connection.fetch(row_type, statement, discovery_values(request))


def record_page(
    connection: Executor,
    *,
    request: DiscoveryRequest,
    listed: Sequence[str],
    departed: Sequence[str],
    had: Sequence[str] | None = None,
) -> None:
    """Within the page's transaction: who is there again stays, who has left is remembered until the last page.

    `had`: those of the listed that can be had, which are the connection's from now on; all if it is not given.
    """
    values = {**discovery_values(request), "listed": list(listed), "departed": list(departed)}
    connection_documents.require_active_connection(connection, values["connection"])
    connection_documents.add_documents(connection, values["connection"], values["run"], listed if had is None else had)
    connection.execute(
        "delete from departures g using"
        + ITS
        + "where g.document_id = d.id and g.connection_id = %(connection)s and d.external_id = any(%(listed)s)",
        values,
    )
    connection.execute(
        "insert into departures (document_id, connection_id, job_run_id) select d.id, %(connection)s, %(run)s from"
        + ITS
        + "where d.external_id = any(%(departed)s) on conflict (document_id, connection_id) do nothing",
        values,
    )


def finish_listing(
    connection: Executor,
    *,
    request: DiscoveryRequest,
    cursor: str | None,
    moved: bool,
    chosen: str = "",
) -> None:
    """Within the last page's transaction: documents leave, or are held for a person, and the cursor moves on.

    What another connection has too leaves this one only. `chosen`: the mark of what was listed.
    """
    values = discovery_values(request)
    connection_documents.require_active_connection(connection, values["connection"])
    leaving, removed = _leaving(connection, request), 0
    if _is_held(connection, request, len(leaving), moved=moved):
        connection.execute(
            "update departures set held = true where document_id = any(%(ids)s) and connection_id = %(connection)s",
            {**values, "ids": leaving},
        )
    elif leaving:
        last_ids = connection_documents.release_from_connection(
            connection, values["connection"], leaving, keep=False
        ).last
        _forget(connection, request, last_ids)
        removed = len(last_ids)
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


def _leaving(connection: Executor, request: DiscoveryRequest) -> list[str]:
    return connection.fetch(
        str,
        "select d.id from"
        + ITS
        + "join departures g on g.document_id = d.id and g.connection_id = %(connection)s and not g.held"
        " order by d.id for no key update of d",
        discovery_values(request),
    )


def _forget(connection: Executor, request: DiscoveryRequest, removed_ids: Sequence[str]) -> None:
    """Drop items that the run was to fetch and then removed: they are neither pending nor failed."""
    connection.execute(
        "delete from run_documents where job_run_id = %(run)s and document_id = any(%(ids)s) and status = 'QUEUED'",
        {**discovery_values(request), "ids": list(removed_ids)},
    )


def _is_held(db: Executor, request: DiscoveryRequest, leaving: int, *, moved: bool) -> bool:
    """Tell whether removals are held. `moved`: also if another account was authorized since the run began."""
    if not leaving:
        return False
    documents = db.fetch_one(int, "select count(*) from" + ITS, discovery_values(request)) or 0
    is_moved = moved or read_state(db, str(request.connection_id)).moved
    return is_moved or deletion.needs_confirmation(leaving, documents)


def discovery_values(request: DiscoveryRequest) -> dict[str, Any]:
    """Return the parameters of `ITS`, and the run."""
    return {"connection": request.connection_id, "source": request.source, "run": request.job_run_id}
