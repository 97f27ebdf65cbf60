"""Synchronization of a connection: cursor, unfinished items and departures (documents removed at the service)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, NamedTuple, TypeVar

from sqlalchemy import Boolean, bindparam, delete, false, func, or_, select, true, update

from retrieval import job_config
from retrieval.database import schema
from retrieval.database.compiling import compile_statement, equals, in_list, parameters
from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.documents.queries import connection_documents, deletion
from retrieval.filters import AWAITS_REMOVAL
from retrieval.ports import DiscoveryRequest
from retrieval.statuses import Stage, stage_names

UNFINISHED_PAGE_SIZE = 500
RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True)
class SyncState:
    """Start of the next listing. `chosen`: hash of the last selection."""

    cursor: str | None
    account_changed: bool
    chosen: str = ""
    has_access_lists: bool = False


_connection: Any = schema.Connection
_cursor = _connection.cursor
_READ_STATE = compile_statement(
    select(
        _cursor["at"].astext.label("cursor"),
        func.coalesce(_cursor["accountChanged"].astext == "true", false()).label("account_changed"),
        func.coalesce(_cursor["chosen"].astext, "").label("chosen"),
        (_connection.permissions == "SOURCE").label("has_access_lists"),
    ).where(equals(_connection.id))
)
_MOVE_CURSOR = compile_statement(
    update(_connection)
    .where(
        equals(_connection.id, "connection"),
        or_(bindparam("account_changed", type_=Boolean), _cursor["accountChanged"].astext.is_(None)),
    )
    .values(listed_at=func.now(), **parameters("cursor"))
)
_departure: Any = schema.Departure
_HOLD_DEPARTURES = compile_statement(
    update(_departure)
    .where(in_list(_departure.document_id, "ids"), equals(_departure.connection_id, "connection"))
    .values(held=true())
)
_run_document: Any = schema.RunDocument
_DELETE_QUEUED = compile_statement(
    delete(_run_document).where(
        equals(_run_document.job_run_id, "run"),
        in_list(_run_document.document_id, "ids"),
        _run_document.status == "QUEUED",
    )
)


def read_state(db: Executor, connection_id: str) -> SyncState:
    return db.fetch_one(SyncState, _READ_STATE, {"id": connection_id}) or SyncState(None, account_changed=False)


# Documents of the connection, without packed documents.
CONNECTION_DOCUMENTS: LiteralString = """
    documents d join connection_documents h on h.document_id = d.id and h.connection_id = %(connection)s
        and d.source = %(source)s and d.deleted_at is null and d.archive_id is null
"""
_DEPARTED_CONDITION: LiteralString = (
    " exists (select from departures g where g.document_id = d.id and g.connection_id = %(connection)s)"
)


def delete_stale_departures(db: Executor, request: DiscoveryRequest) -> None:
    """Delete departures of incomplete runs with another selection."""
    # Those runs did not move the cursor, so this run lists the same removals again; the items may be selected now.
    db.execute(
        f"""
        delete from departures g using job_runs r join jobs j on j.id = r.job_id
        where g.connection_id = %(connection)s and not g.held and r.id = g.job_run_id and r.finished_at is not null
          and {job_config.SOURCE_REQUEST} is distinct from
              (select {job_config.SOURCE_REQUEST} from job_runs mine join jobs j on j.id = mine.job_id
               where mine.id = %(run)s)
        """,
        discovery_params(request),
    )


@dataclass(frozen=True, slots=True)
class UnfinishedItem:
    """Document listed but not finished by an earlier run."""

    external_id: str
    name: str
    media_type: str
    properties: Mapping[str, Any]
    version: str


def list_unfinished(db: Database, request: DiscoveryRequest) -> list[UnfinishedItem]:
    """List readable documents that an earlier run did not finish."""
    return _fetch_compared(
        UnfinishedItem,
        db,
        request,
        "select d.external_id, d.name, coalesce(m.media_type, '') as media_type, coalesce(m.properties, '{}') as"
        " properties, coalesce(m.properties ->> 'listedVersion', '') as version from"
        + CONNECTION_DOCUMENTS
        + "left join run_documents m on m.document_id = d.id and m.job_run_id = d.job_run_id where"
        " (d.status = 'CANCELLED' or d.status = 'FAILED' and m.stage is distinct from "
        + stage_names(Stage.FETCHED)
        + ")"
        " and not exists (select from run_documents r where r.job_run_id = %(run)s and r.document_id = d.id)"
        " and not" + _DEPARTED_CONDITION + f" order by d.external_id limit {UNFINISHED_PAGE_SIZE}",
    )


def list_missing(db: Database, request: DiscoveryRequest) -> list[str]:
    """List documents of the connection absent from this run's listing, except known departures."""
    return _fetch_compared(
        str,
        db,
        request,
        "select d.external_id from"
        + CONNECTION_DOCUMENTS
        + "where not exists (select from run_documents r where r.job_run_id = %(run)s and r.document_id = d.id) and not"
        + _DEPARTED_CONDITION
        + " and not exists (select from run_documents r where r.job_run_id = %(run)s"
        " and r.properties ->> 'externalId' = d.external_id) order by d.external_id",
    )


def list_present_ids(db: Database, request: DiscoveryRequest) -> list[str]:
    """List the external ids of documents that the service has not reported as removed."""
    statement: LiteralString = (
        "select d.external_id from"
        + CONNECTION_DOCUMENTS
        + "where not"
        + _DEPARTED_CONDITION
        + " order by d.external_id"
    )
    return db.fetch(str, statement, discovery_params(request))


def list_ingested(db: Database, request: DiscoveryRequest, *, excluded_id: str, limit: int) -> list[str]:
    """List the last ingested documents of the connection, except for one external id."""
    statement: LiteralString = (
        "select d.external_id from"
        + CONNECTION_DOCUMENTS
        + "where d.active_generation > 0 and d.external_id <> %(excluded)s and not"
        + _DEPARTED_CONDITION
        + " order by d.updated_at desc limit %(limit)s"
    )
    return db.fetch(str, statement, {**discovery_params(request), "excluded": excluded_id, "limit": limit})


class RemovalCounts(NamedTuple):
    """Numbers of documents to remove, and to hold until a person confirms their removal."""

    removed: int
    held: int


def count_removals(
    db: Database, request: DiscoveryRequest, departed_ids: Sequence[str], *, account_changed: bool
) -> RemovalCounts:
    """Count the documents to be removed or held by `finish_listing`."""
    values = {**discovery_params(request), "departed": list(departed_ids)}
    shared_flags = db.fetch(
        bool,
        "select exists (select from connection_documents o where o.document_id = d.id"
        " and o.connection_id <> %(connection)s) from"
        + CONNECTION_DOCUMENTS
        + "where d.external_id = any(%(departed)s)",
        values,
    )
    if _needs_confirmation(db, request, len(shared_flags), account_changed=account_changed):
        return RemovalCounts(removed=0, held=len(shared_flags))
    return RemovalCounts(removed=shared_flags.count(False), held=0)


def _fetch_compared(
    row_type: type[RowT], db: Database, request: DiscoveryRequest, statement: LiteralString
) -> list[RowT]:
    """Fetch rows with a set comparison of all documents and listed ids."""
    # Without statistics of the run the planner chooses a nested loop: 20,000 by 20,000 rows take minutes.
    with db.transaction() as connection:
        connection.execute("set local enable_nestloop = off")
        return connection.fetch(row_type, statement, discovery_params(request))


def record_page(
    connection: Executor,
    *,
    request: DiscoveryRequest,
    listed: Sequence[str],
    departed: Sequence[str],
    fetchable: Sequence[str] | None = None,
) -> None:
    """Record returned and departed items of a page in its transaction. `fetchable`: default all listed."""
    values = {**discovery_params(request), "listed": list(listed), "departed": list(departed)}
    connection_documents.require_active_connection(connection, values["connection"])
    connection_documents.add_documents(
        connection, values["connection"], values["run"], listed if fetchable is None else fetchable
    )
    connection.execute(
        "delete from departures g using"
        + CONNECTION_DOCUMENTS
        + "where g.document_id = d.id and g.connection_id = %(connection)s and d.external_id = any(%(listed)s)",
        values,
    )
    connection.execute(
        "insert into departures (document_id, connection_id, job_run_id) select d.id, %(connection)s, %(run)s from"
        + CONNECTION_DOCUMENTS
        + "where d.external_id = any(%(departed)s) on conflict (document_id, connection_id) do nothing",
        values,
    )


def finish_listing(
    connection: Executor,
    request: DiscoveryRequest,
    *,
    cursor: str | None,
    account_changed: bool,
    chosen: str = "",
) -> None:
    """Remove or hold departed documents and move the cursor, in the last page's transaction."""
    # A faulty listing must not empty an index: many departures are held for confirmation. A document that
    # another connection also has is only detached from this one.
    values = discovery_params(request)
    connection_documents.require_active_connection(connection, values["connection"])
    leaving = _lock_departed(connection, request)
    removed = 0
    if _needs_confirmation(connection, request, len(leaving), account_changed=account_changed):
        connection.execute(_HOLD_DEPARTURES, {**values, "ids": leaving})
    elif leaving:
        deleted_ids = connection_documents.release_from_connection(
            connection, values["connection"], leaving, keep=False
        ).last
        _delete_queued(connection, request, deleted_ids)
        removed = len(deleted_ids)
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
    position = json.dumps({"at": cursor} | ({"chosen": chosen} if chosen else {}))
    connection.execute(_MOVE_CURSOR, {**values, "cursor": position, "account_changed": account_changed})


def _lock_departed(connection: Executor, request: DiscoveryRequest) -> list[str]:
    return connection.fetch(
        str,
        "select d.id from"
        + CONNECTION_DOCUMENTS
        + "join departures g on g.document_id = d.id and g.connection_id = %(connection)s and not g.held"
        " order by d.id for no key update of d",
        discovery_params(request),
    )


def _delete_queued(connection: Executor, request: DiscoveryRequest, removed_ids: Sequence[str]) -> None:
    """Delete queued entries of removed items from the run."""
    connection.execute(_DELETE_QUEUED, {**discovery_params(request), "ids": list(removed_ids)})


def _needs_confirmation(db: Executor, request: DiscoveryRequest, leaving: int, *, account_changed: bool) -> bool:
    """Return whether removals are held: for a changed account or a large share of the documents."""
    if not leaving:
        return False
    documents = db.fetch_one(int, "select count(*) from" + CONNECTION_DOCUMENTS, discovery_params(request)) or 0
    is_other_account = account_changed or read_state(db, str(request.connection_id)).account_changed
    return is_other_account or deletion.needs_confirmation(leaving, documents)


def discovery_params(request: DiscoveryRequest) -> dict[str, Any]:
    """Return the parameters of `CONNECTION_DOCUMENTS`, and the run."""
    return {"connection": request.connection_id, "source": request.source, "run": request.job_run_id}
