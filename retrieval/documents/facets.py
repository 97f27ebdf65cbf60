"""Facets: number of matching documents per value of a field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from retrieval.access import reading
from retrieval.conditions.model import Field
from retrieval.conditions.parse import field_of
from retrieval.conditions.sql import field_json
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.documents.documents import of_scope
from retrieval.errors import ErrorCode
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope
from retrieval.principals import Viewer

FACETS = 10
"""Fields that one request may ask for."""
VALUES = 50
"""Values that each of them answers."""


def _count_values(columns: LiteralString, matched: LiteralString, of_rows: LiteralString) -> LiteralString:
    """Return the statement that counts the values of the columns among what matched."""
    return f"""
    with matched as materialized (select d.*, array[{columns}]::jsonb[] as fields from {matched}),
    members as (
        select f.number, f.field as value from matched m
        cross join lateral unnest(m.fields) with ordinality f(field, number)
        where jsonb_typeof(f.field) in ('string', 'number', 'boolean')
        union all
        select f.number, e.value from matched m
        cross join lateral unnest(m.fields) with ordinality f(field, number)
        cross join lateral (select distinct value from jsonb_array_elements(f.field)) e
        where jsonb_typeof(f.field) = 'array' and jsonb_typeof(e.value) in ('string', 'number', 'boolean')
    ),
    counted as (
        select number, value, count(*) as documents from members group by number, value {of_rows}
    ),
    ordered as (
        select *, row_number() over (
            partition by number
            order by documents desc, (value #>> '{{}}') collate "C", jsonb_typeof(value)
        ) as place
        from counted
    )
    select number, value, documents from ordered where place <= %(values)s order by number, place
"""


def _count_rows(position: LiteralString, key: LiteralString, condition: LiteralString) -> LiteralString:
    """Return the part of it that counts the values of a column of table rows."""
    return f"""
        union all
        select {position}, value, count(*) from matched d
        join chunks c on c.document_id = d.id and c.generation = d.active_generation and c.rows is not null
        cross join lateral jsonb_array_elements(c.rows) row_fields (fields)
        cross join lateral (select row_fields.fields -> {key}::text as value) v
        where jsonb_typeof(value) in ('string', 'number', 'boolean') and {condition} group by value
"""


@dataclass(frozen=True, slots=True)
class Count:
    """A value and the number of documents, or of rows, that have it."""

    value: str | float | bool
    documents: int


@dataclass(frozen=True, slots=True)
class FieldCount(Count):
    """A value of one of the requested fields, by its number from 1."""

    number: int


def parse_fields(names: Sequence[str], code: ErrorCode, *, where: str) -> dict[str, Field]:
    """The fields by their names, each once; ServiceError `code` naming one that is none."""
    return {name: field_of(name, code, where=f"{where}[{index}]") for index, name in enumerate(names)}


async def count_values(
    db: Database, scope: Scope, where: DocumentFilter, wanted: Mapping[str, Field], *, viewer: Viewer | None
) -> dict[str, list[Count]]:
    """For each of the fields its most frequent values, equals by the value as text.

    All documents that match are counted, each once for a value, whatever page is shown; a list by its members. Of a
    column (`row.<column>`) the rows are counted that match.
    """
    if not wanted:
        return {}
    matched, params = of_scope(where)
    values: dict[str, Any] = {f"facet_{n}": about.name for n, about in enumerate(wanted.values())}
    columns, of_rows = [], ""
    for n, about in enumerate(wanted.values()):
        columns.append("null" if about.is_row else field_json(about, "d", f"%(facet_{n})s"))
        if about.is_row:
            of_rows += _count_rows(str(n + 1), f"%(facet_{n})s", where.row_sql("d"))
    statement = _count_values(", ".join(columns), matched, of_rows)
    rows = await reading.fetch_matching(
        FieldCount, db, statement, params | values | partitions.scope_params(scope) | {"values": VALUES}, where, viewer
    )
    counts: dict[str, list[Count]] = {name: [] for name in wanted}
    names = list(wanted)
    for row in rows:
        counts[names[row.number - 1]].append(Count(row.value, row.documents))
    return counts
