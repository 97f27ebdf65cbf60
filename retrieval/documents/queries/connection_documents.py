"""Assign documents of content services to connections.

listed by A ──▶ pair (A, document) ──▶ A reports its removal, or is revoked ─▶ no pair with A
                                                                                    │ no pair left
                          kept without a connection (revoked with KEEP) ◀───────────┴──▶ removed

`documents.connection_id` is the connection with the newest listing, null without any. Archive members have the
connections of their archive and no pairs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from retrieval import job_config
from retrieval.database.database import Database
from retrieval.database.rows import AsyncExecutor, Executor
from retrieval.documents.queries import deletion
from retrieval.errors import Fatal
from retrieval.filters import root_id_sql

# Documents released per transaction.
RELEASE_BATCH_SIZE = 500

# Connections of the document `d`.
CONNECTION_IDS: LiteralString = f"""
    array(select h.connection_id from connection_documents h where h.document_id = {root_id_sql("d")}
          order by h.listed_at desc, h.connection_id)
"""

_BEST_CONNECTION: LiteralString = """
    (select h.connection_id from connection_documents h join connections c on c.id = h.connection_id
     where h.document_id = d.id order by c.status = 'ACTIVE' desc, h.listed_at desc, h.connection_id limit 1)
"""


@dataclass(frozen=True, slots=True)
class ConnectionDocumentCount:
    """Document counts of a connection: exclusive, and shared with other connections."""

    own: int
    shared: int


@dataclass(frozen=True, slots=True)
class ReleasedDocuments:
    """Documents released by a connection: shared with other connections, and without any other."""

    shared: tuple[str, ...]
    last: tuple[str, ...]


def require_active_connection(connection: Executor, connection_id: str) -> None:
    """Lock the connection against revocation within a page's transaction. Raises Fatal if it is revoked."""
    status = connection.fetch_one(
        str, "select status from connections where id = %(id)s for share", {"id": connection_id}
    )
    if status in (None, "REVOKED"):
        raise Fatal("The connection is no longer ACTIVE: authorize it again, or use another one.")


def add_documents(connection: Executor, connection_id: str, job_run_id: str, external_ids: Sequence[str]) -> None:
    """Assign documents of the run's partition and source to the connection."""
    connection.execute(
        """
        insert into connection_documents (connection_id, document_id)
        select %(connection)s, d.id from job_runs r
        join documents d on d.partition_id = r.partition_id and d.source = r.source
        where r.id = %(run)s and d.external_id = any(%(external_ids)s) and d.deleted_at is null and d.archive_id is null
        order by d.id on conflict (document_id, connection_id) do nothing
        """,
        {"connection": connection_id, "run": job_run_id, "external_ids": list(external_ids)},
    )


def release_from_connection(
    connection: Executor, connection_id: str, document_ids: Sequence[str], *, keep: bool
) -> ReleasedDocuments:
    """Release documents from a connection. Documents without another one are removed, or kept if `keep`."""
    values: dict[str, Any] = {"connection": connection_id, "ids": list(document_ids)}
    locked = connection.fetch(str, deletion.LOCK_DOCUMENTS, values)
    connection.execute(_DELETE_PAIRS, values)
    values["ids"] = locked
    statement: LiteralString = "select distinct document_id from connection_documents where document_id = any(%(ids)s)"
    shared = set(connection.fetch(str, statement, values))
    last = [document_id for document_id in locked if document_id not in shared]
    remaining = locked if keep else sorted(shared)
    connection.execute(_REASSIGN_DOCUMENTS, {**values, "ids": remaining})
    connection.execute(_REASSIGN_MEMBERS, {**values, "ids": remaining})
    if not keep:
        deletion.delete_documents(connection, last)
    return ReleasedDocuments(tuple(sorted(shared)), tuple(last))


_DELETE_PAIRS: LiteralString = """
    with settled as (
        delete from departures where connection_id = %(connection)s and document_id = any(%(ids)s)
    )
    delete from connection_documents where connection_id = %(connection)s and document_id = any(%(ids)s)
"""
_REASSIGN_DOCUMENTS: LiteralString = f"""
    update documents d set connection_id = {_BEST_CONNECTION}, updated_at = now()
    where d.id = any(%(ids)s) and d.connection_id = %(connection)s
"""
_REASSIGN_MEMBERS: LiteralString = """
    with recursive packed as (
        select d.id, root.connection_id from documents d join documents root on root.id = d.archive_id
        where root.id = any(%(ids)s) and d.deleted_at is null
        union select d.id, p.connection_id from documents d join packed p on d.archive_id = p.id
        where d.deleted_at is null
    )
    update documents d set connection_id = p.connection_id from packed p
    where d.id = p.id and d.connection_id is distinct from p.connection_id
"""


# Remove the connections that confirmed a departure from documents still listed by others.
CONFIRM_DEPARTURES: LiteralString = """
    with confirmed as (
        delete from departures where held and document_id = any(%(ids)s) returning document_id, connection_id
    ),
    left_to_others as (
        delete from connection_documents h using confirmed c
        where h.document_id = c.document_id and h.connection_id = c.connection_id
    )
    update documents d set connection_id = (
        select h.connection_id from connection_documents h where h.document_id = d.id and not exists (
            select from confirmed c where c.document_id = h.document_id and c.connection_id = h.connection_id
        ) order by h.listed_at desc, h.connection_id limit 1
    )
    from confirmed c where d.id = c.document_id and d.connection_id = c.connection_id and d.deleted_at is null
"""


# Connection that fetches a document `d` for job `j`: the run's own, else another active one.
FETCHING_CONNECTION: LiteralString = f"""
    select c.id from connection_documents h join connections c on c.id = h.connection_id and c.status = 'ACTIVE'
    where h.document_id = d.id order by (c.id = {job_config.connection_id_sql()}) desc, h.listed_at desc, c.id limit 1
"""


async def count_connection_documents(db: AsyncExecutor, connection_id: str) -> ConnectionDocumentCount:
    """Count the documents of the connection."""
    return await db.async_fetch_one(
        ConnectionDocumentCount, _COUNT_DOCUMENTS, {"connection": connection_id}
    ) or ConnectionDocumentCount(0, 0)


_COUNT_DOCUMENTS: LiteralString = """
    select count(*) filter (where not others) as own, count(*) filter (where others) as shared from (
        select exists (
            select from connection_documents o
            where o.document_id = h.document_id and o.connection_id <> h.connection_id
        ) as others
        from connection_documents h join documents d on d.id = h.document_id and d.deleted_at is null
        where h.connection_id = %(connection)s
    ) held
"""

# Sweep kind by `keep`; `sweeps.document_id` is the connection id.
RELEASE_SWEEP_KINDS = {True: "connection kept", False: "connection removed"}


def release_documents(db: Database, connection_id: str, *, keep: bool, seconds: float) -> bool:
    """Release all documents of a revoked connection in slices, for up to `seconds`; return True when finished."""
    deadline = time.monotonic() + seconds
    while True:
        with db.transaction() as connection:
            document_ids = connection.fetch(
                str,
                "select document_id from connection_documents where connection_id = %(connection)s"
                " order by document_id limit %(limit)s",
                {"connection": connection_id, "limit": RELEASE_BATCH_SIZE},
            )
            release_from_connection(connection, connection_id, document_ids, keep=keep)
            if len(document_ids) < RELEASE_BATCH_SIZE:
                connection.execute(
                    "delete from sweeps where document_id = %(connection)s and kind = %(kind)s",
                    {"connection": connection_id, "kind": RELEASE_SWEEP_KINDS[keep]},
                )
                return True
        if time.monotonic() > deadline:
            return False
