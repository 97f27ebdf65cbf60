"""What is written on documents: whom they are for. What was packed into one follows it, by a trigger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, LiteralString

from psycopg import Connection

from retrieval.access import new_versions
from retrieval.database.database import Database, Row
from retrieval.principals import Access, stored

_SET: LiteralString = """
    update documents d set access = w.access::jsonb, access_at = clock_timestamp(), updated_at = clock_timestamp()
    from unnest(%(documents)s::text[], %(accesses)s::text[]) w (id, access)
    where d.id = w.id and d.deleted_at is null and d.access is distinct from w.access::jsonb
"""


def set_document_access(connection: Connection[Row], accesses: Mapping[str, Access | None]) -> int:
    """Give documents, by id, the access that they have from now on; None opens one. How many were changed.

    In the caller's transaction. Nothing is embedded again.
    """
    ids = sorted(accesses)
    values = {"documents": ids, "accesses": [stored(accesses[one]) for one in ids]}
    return connection.execute(_SET, values).rowcount


_KEPT: LiteralString = new_versions.kept("(select number from run)")


async def recorded(db: Database, statement: LiteralString, values: dict[str, Any]) -> list[Row]:
    """The rows of a statement of `jobs.acceptance`, one for each document; none if the namespace is not there."""
    kept = "" if values["access"] is None else _KEPT
    for _ in range(TRIES):
        if rows := await db.async_rows(statement.replace("KEPT", kept), values, plan_once=True):
            return rows
    return []


TRIES = 2
"""Of a statement that finds a scope which another transaction has just made."""
