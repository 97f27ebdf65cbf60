"""Facets: number of matching documents per value of a field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from retrieval.access import reading
from retrieval.conditions.model import Field
from retrieval.conditions.parse import parse_field
from retrieval.conditions.sql import answer_json_sql
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.documents.documents import matching_source
from retrieval.errors import ErrorCode
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope
from retrieval.principals import Viewer

MAX_FACETS = 10
MAX_FACET_VALUES = 50


def _count_values(columns: LiteralString, matched: LiteralString, row_counts: LiteralString) -> LiteralString:
    """Return a statement that counts the values of the columns in the matching documents."""
    return f"""
    with matched as materialized (
        select {"d.*" if row_counts else "d.id"}, array[{columns}]::jsonb[] as fields from {matched}
    ),
    grouped as (
        select f.number, f.field, count(*) as documents from matched m
        cross join lateral unnest(m.fields) with ordinality f(field, number) group by f.number, f.field
    ),
    members as (
        select number, value, documents from grouped cross join lateral (
            select distinct value from jsonb_array_elements(
                case jsonb_typeof(field) when 'array' then field else jsonb_build_array(field) end)
        ) e where jsonb_typeof(value) in ('string', 'number', 'boolean')
    ),
    counted as (
        select number, value, sum(documents)::bigint as documents from members group by 1, 2 {row_counts}
    ),
    ordered as (
        select *, row_number() over (
            partition by number order by documents desc, (value #>> '{{}}') collate "C", jsonb_typeof(value)
        ) as position
        from counted
    )
    select number, value, documents from ordered where position <= %(values)s order by number, position
"""


def _count_rows(position: LiteralString, key: LiteralString, condition: LiteralString) -> LiteralString:
    """Return a clause that counts the values of a column of table rows."""
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
    """Number of documents, or table rows, with a value."""

    value: str | float | bool
    documents: int


@dataclass(frozen=True, slots=True)
class FieldCount(Count):
    """Count for the requested field with this number, from 1."""

    number: int


def parse_fields(names: Sequence[str], code: ErrorCode, *, path: str) -> dict[str, Field]:
    """Parse field names. Raises ServiceError `code` with the path of the invalid field."""
    return {name: parse_field(name, code, path=f"{path}[{index}]") for index, name in enumerate(names)}


async def count_values(
    db: Database, scope: Scope, document_filter: DocumentFilter, fields: Mapping[str, Field], *, viewer: Viewer | None
) -> dict[str, list[Count]]:
    """Return the most frequent values of each field, ties in text order."""
    if not fields:
        return {}
    matched, params = matching_source(document_filter)
    values: dict[str, Any] = {f"facet_{n}": about.name for n, about in enumerate(fields.values())}
    columns, row_counts = [], ""
    for n, about in enumerate(fields.values()):
        columns.append("null" if about.is_row else answer_json_sql(about, "d", f"%(facet_{n})s"))
        if about.is_row:
            row_counts += _count_rows(str(n + 1), f"%(facet_{n})s", document_filter.row_sql("d"))
    statement = _count_values(", ".join(columns), matched, row_counts)
    rows = await reading.fetch_matching(
        FieldCount,
        db,
        statement,
        params | values | partitions.scope_params(scope) | {"values": MAX_FACET_VALUES},
        document_filter,
        viewer,
    )
    # A list counts once for each member. Row columns (`row.<column>`) count matching rows, not documents.
    counts: dict[str, list[Count]] = {name: [] for name in fields}
    for row in rows:
        counts[[*fields][row.number - 1]].append(Count(row.value, row.documents))
    return counts
