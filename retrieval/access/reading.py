"""Read documents as a user, under database policies or with the same rule in the statement."""
# What needs a GIN index (metadata, words, postings) uses `scope_statement`; the other searches use `viewed_database`.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, LiteralString, TypeVar

from retrieval.database.database import Database
from retrieval.database.rows import Params
from retrieval.filters import DocumentFilter
from retrieval.principals import Viewer

RowT = TypeVar("RowT")
_VISIBLE_DOCUMENTS: LiteralString = """
    with documents as not materialized (
        select * from viewer.documents where partition_id = %(viewer_partition)s
           and %(viewer_names)s::jsonb ?| allowed and not %(viewer_names)s::jsonb ?| denied
    )
    select * from ("""


@dataclass(frozen=True, slots=True)
class ScopedStatement:
    """Statement on the documents visible to a viewer."""

    text: LiteralString
    params: Mapping[str, Any]


def scope_statement(statement: LiteralString, params: Params, viewer: Viewer | None) -> ScopedStatement:
    """Restrict a statement to documents visible to the viewer; None: all documents."""
    if viewer is None:
        return ScopedStatement(statement, params)
    names = {"viewer_partition": viewer.partition, "viewer_names": viewer.names}
    return ScopedStatement(f"{_VISIBLE_DOCUMENTS}{statement}) scoped", {**params, **names})


def viewed_database(db: Database, viewer: Viewer | None) -> Database:
    """Return the database under the policies of the viewer; None: without policies."""
    return db if viewer is None else db.viewed(viewer.settings)


async def fetch_matching(
    row_type: type[RowT],
    db: Database,
    statement: LiteralString,
    params: Params,
    document_filter: DocumentFilter,
    viewer: Viewer | None,
) -> list[RowT]:
    """Execute a statement on documents that match the filter and are visible to the viewer."""
    if document_filter.reads_fields:
        scoped = scope_statement(statement, params, viewer)
        return await db.async_fetch(row_type, scoped.text, dict(scoped.params))
    return await viewed_database(db, viewer).async_fetch(row_type, statement, params)
