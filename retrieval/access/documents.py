"""What is written on documents: whom they are for. What was packed into one follows it, by a trigger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, LiteralString

from psycopg import Connection

from retrieval import principals
from retrieval.access import new_versions
from retrieval.database import scopes
from retrieval.database.database import Database, Row
from retrieval.errors import ErrorCode, ServiceError
from retrieval.ports import Scope
from retrieval.principals import Access, Viewer, stored

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


_HIDDEN: LiteralString = (
    """
    select 1 as yes from documents d
    join partitions p on p.id = d.partition_id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s
    where d.deleted_at is null and d.source = %(source)s and d.external_id = any(%(external_ids)s) and not """
    + principals.visible("d")
    + " limit 1"
)


_KEPT: LiteralString = new_versions.kept("(select number from run)")


_KNOWN: LiteralString = """
    select d.id from documents d
    join partitions p on p.id = d.partition_id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
    where d.deleted_at is null and d.source = %(source)s and d.external_id = any(%(external_ids)s)
    for no key update of d
"""


async def recorded(
    db: Database,
    scope: Scope,
    statement: LiteralString,
    values: dict[str, Any],
    *,
    source: str,
    external_ids: Sequence[str],
    viewer: Viewer | None,
) -> list[Row]:
    """What a statement of `jobs.acceptance` answers, a row for each document; none if the namespace is not there.

    FORBIDDEN, and nothing is recorded, if it would replace a document that is hidden from the viewer, whoever made it
    and hid it meanwhile.
    """
    condition, params = principals.condition(viewer, "documents")
    kept = "" if values["access"] is None else _KEPT
    told = {**params, **values, "source": source, "external_ids": list(external_ids)}
    asked = statement.replace("VISIBLE", condition).replace("KEPT", kept), told
    for _ in range(TRIES):
        await require_visible(db, scope, source, external_ids, viewer)
        with suppress(_Incomplete):
            if viewer is None:
                rows = await db.async_rows(*asked, plan_once=True)
            else:
                rows = await _whole(db, *asked, viewer, len(external_ids))
            if rows:
                return rows
    return []


async def _whole(
    db: Database, statement: LiteralString, values: dict[str, Any], viewer: Viewer, number: int
) -> list[Row]:
    """So many rows, or _Incomplete, and nothing is recorded. What is hidden within the documents keeps its access."""
    async with db.async_together():
        known = [row["id"] for row in await db.async_rows(_KNOWN, values)] if values["access"] is not None else []
        hidden = await db.async_rows(*new_versions.hidden(viewer, known)) if known else []
        rows = await db.async_rows(statement, values)
        if len(rows) < number:
            raise _Incomplete
        for row in hidden:
            await db.async_rows(new_versions.BACK, new_versions.had(row))
    return rows


TRIES = 3
"""Of a statement that finds a scope, or a document, which another transaction has just made."""


class _Incomplete(Exception):
    """Not all was recorded: nothing is to be."""


async def require_visible(
    db: Database, scope: Scope, source: str, external_ids: Sequence[str], viewer: Viewer | None
) -> None:
    """FORBIDDEN if what is ingested on behalf of a user would replace a document that is hidden from that user."""
    if viewer is None:
        return
    values = {**viewer.params(), **scopes.params(scope), "source": source, "external_ids": list(external_ids)}
    if await db.async_row(_HIDDEN, values) is not None:
        message = "A document of this identity is there already, and is not for this user. Use another externalId."
        raise ServiceError(ErrorCode.FORBIDDEN, message, reason="hidden_document")
