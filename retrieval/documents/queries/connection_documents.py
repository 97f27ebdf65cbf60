"""Connections of documents: an item of a content service belongs to every connection that lists it.

    listed by A ──▶ pair (A, document) ──▶ A reports its removal, or is revoked ─▶ no pair with A
                                                                                        │ none is left
                              kept without a connection (revoked with KEEP) ◀───────────┴──▶ removed

`documents.connection_id` names one of the holders, the newest that listed it; null once the last one is removed.
Members of an archive belong to its connections, and have no pairs of their own.
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
from retrieval.filters import root_of

SLICE = 500
"""Documents that one transaction lets go of."""

CONNECTIONS: LiteralString = f"""
    array(select h.connection_id from connection_documents h where h.document_id = {root_of("d")}
          order by h.listed_at desc, h.connection_id)
"""
"""Who has the document `d`."""

_BEST: LiteralString = """
    (select h.connection_id from connection_documents h join connections c on c.id = h.connection_id
     where h.document_id = d.id order by c.status = 'ACTIVE' desc, h.listed_at desc, h.connection_id limit 1)
"""


@dataclass(frozen=True, slots=True)
class Held:
    """Number of a connection's documents: exclusive ones, and those shared with other connections."""

    own: int
    shared: int


@dataclass(frozen=True, slots=True)
class LetGo:
    """Documents that lost a connection: those that others have too, and those that were removed or kept without."""

    shared: tuple[str, ...]
    last: tuple[str, ...]


def require_living(connection: Executor, connection_id: str) -> None:
    """Within a page's transaction: no connection that is being revoked gets another document. Fatal if it was."""
    status = connection.fetch_one(
        str, "select status from connections where id = %(id)s for share", {"id": connection_id}
    )
    if status in (None, "REVOKED"):
        raise Fatal("The connection is no longer ACTIVE: authorize it again, or use another one.")


def add_documents(connection: Executor, connection_id: str, job_run_id: str, external_ids: Sequence[str]) -> None:
    """The connection has the documents with these external ids of the run's partition and source."""
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


def let_go(connection: Executor, connection_id: str, document_ids: Sequence[str], *, keep: bool) -> LetGo:
    """The connection has them no longer. Where it was the last one they are removed, or kept without a connection."""
    values: dict[str, Any] = {"connection": connection_id, "ids": list(document_ids)}
    statement: LiteralString = (
        "select id from documents where id = any(%(ids)s) and deleted_at is null order by id for no key update"
    )
    living = connection.fetch(str, statement, values)
    connection.execute(_LET_GO, values)
    values["ids"] = living
    statement = "select distinct document_id from connection_documents where document_id = any(%(ids)s)"
    shared = set(connection.fetch(str, statement, values))
    last = [document_id for document_id in living if document_id not in shared]
    stay = living if keep else sorted(shared)
    connection.execute(_PASS_ON, {**values, "ids": stay})
    connection.execute(_PACKED_TOO, {**values, "ids": stay})
    if not keep:
        deletion.delete_documents(connection, last)
    return LetGo(tuple(sorted(shared)), tuple(last))


_LET_GO: LiteralString = """
    with settled as (
        delete from departures where connection_id = %(connection)s and document_id = any(%(ids)s)
    )
    delete from connection_documents where connection_id = %(connection)s and document_id = any(%(ids)s)
"""
_PASS_ON: LiteralString = f"""
    update documents d set connection_id = {_BEST}, updated_at = now()
    where d.id = any(%(ids)s) and d.connection_id = %(connection)s
"""
_PACKED_TOO: LiteralString = """
    with recursive packed as (
        select d.id, root.connection_id from documents d join documents root on root.id = d.archive_id
        where root.id = any(%(ids)s) and d.deleted_at is null
        union select d.id, p.connection_id from documents d join packed p on d.archive_id = p.id
        where d.deleted_at is null
    )
    update documents d set connection_id = p.connection_id from packed p
    where d.id = p.id and d.connection_id is distinct from p.connection_id
"""


CONFIRM: LiteralString = """
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
"""Those of the documents that are gone for one connection, and stay since another has them, are no more the first's."""


LIVING: LiteralString = f"""
    select c.id from connection_documents h join connections c on c.id = h.connection_id and c.status = 'ACTIVE'
    where h.document_id = d.id order by (c.id = {job_config.connection_of()}) desc, h.listed_at desc, c.id limit 1
"""
"""By whom a document `d` is fetched for a run of job `j`: by the run's own connection, or by another that has it."""


async def count_held(db: AsyncExecutor, connection_id: str) -> Held:
    """Count the documents that the connection has."""
    return await db.async_fetch_one(Held, _COUNT, {"connection": connection_id}) or Held(0, 0)


_COUNT: LiteralString = """
    select count(*) filter (where not others) as own, count(*) filter (where others) as shared from (
        select exists (
            select from connection_documents o
            where o.document_id = h.document_id and o.connection_id <> h.connection_id
        ) as others
        from connection_documents h join documents d on d.id = h.document_id and d.deleted_at is null
        where h.connection_id = %(connection)s
    ) held
"""

KINDS = {True: "connection kept", False: "connection removed"}
"""Of the sweep that lets go of a revoked connection's documents; its `document_id` is the connection's id."""


def release_documents(db: Database, connection_id: str, *, keep: bool, seconds: float) -> bool:
    """Remove a revoked connection from its documents in slices, for `seconds`; return True when none is left."""
    ends = time.monotonic() + seconds
    while True:
        with db.transaction() as connection:
            document_ids = connection.fetch(
                str,
                "select document_id from connection_documents where connection_id = %(connection)s"
                " order by document_id limit %(limit)s",
                {"connection": connection_id, "limit": SLICE},
            )
            let_go(connection, connection_id, document_ids, keep=keep)
            if len(document_ids) < SLICE:
                connection.execute(
                    "delete from sweeps where document_id = %(connection)s and kind = %(kind)s",
                    {"connection": connection_id, "kind": KINDS[keep]},
                )
                return True
        if time.monotonic() > ends:
            return False
