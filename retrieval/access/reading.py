"""Reads of documents for a user, under policies of the database or by the same rule in the statement."""
# PostgreSQL uses no GIN index under a policy: statements that need one, for metadata, words or posting lists, are made
# by `scope_statement`.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, LiteralString, TypeVar

from retrieval.database.database import Database
from retrieval.database.rows import Params
from retrieval.filters import DocumentFilter
from retrieval.principals import Viewer

T = TypeVar("T")
_VISIBLE: LiteralString = """
    with documents as not materialized (
        select * from viewer.documents where partition_id = %(viewer_partition)s
           and %(viewer_names)s::jsonb ?| allowed and not %(viewer_names)s::jsonb ?| denied
    )
    select * from ("""


@dataclass(frozen=True, slots=True)
class ScopedStatement:
    """Statement whose `documents` are those that a viewer may see; `scope_statement` makes it."""

    text: LiteralString
    params: Mapping[str, Any]


def scope_statement(statement: LiteralString, params: Params, viewer: Viewer | None) -> ScopedStatement:
    """Limit a statement to the documents of a viewer (None: the application, which sees all)."""
    if viewer is None:
        return ScopedStatement(statement, params)
    names = {"viewer_partition": viewer.partition, "viewer_names": viewer.names}
    return ScopedStatement(f"{_VISIBLE}{statement}) scoped", {**params, **names})


def viewed_database(db: Database, viewer: Viewer | None) -> Database:
    """Return the database with the policies of a viewer (None: the application, which sees all)."""
    return db if viewer is None else db.viewed(viewer.settings)


async def fetch_matching(
    row_type: type[T],
    db: Database,
    statement: LiteralString,
    params: Params,
    where: DocumentFilter,
    viewer: Viewer | None,
) -> list[T]:
    """Execute a statement over the documents that match a filter and that the viewer may see."""
    if where.reads_fields:
        scoped = scope_statement(statement, params, viewer)
        return await db.async_fetch(row_type, scoped.text, dict(scoped.params))
    return await viewed_database(db, viewer).async_fetch(row_type, statement, params)
