"""Compile conditions to SQL on `documents`; expressions are true or false, never null."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString

from retrieval import failure_causes
from retrieval.conditions.model import (
    DATE_PATTERN,
    FAILURE_FIELD,
    OFFSET_PATTERN,
    ORDER_OPERATORS,
    PACKED_PATH_PROPERTY,
    TEXT_COLUMNS,
    AllOf,
    AnyOf,
    Condition,
    Field,
    Instant,
    Leaf,
    Not,
    Value,
)


def condition_sql(
    condition: Condition, alias: LiteralString, prefix: str = "filter_where"
) -> tuple[str, dict[str, Any]]:
    """Return the condition on the document `alias`, and its parameters `<prefix>_…`."""
    writer = _ConditionWriter(alias, prefix)
    return writer.write(condition), writer.params


# Alias of the fields of one row.
ROW_ALIAS: LiteralString = "row_fields"


def has_row(chunk: LiteralString, condition: str) -> str:
    """Return the condition that the chunk has a row satisfying `condition` on ROW_ALIAS."""
    fields = f"jsonb_array_elements({chunk}.rows) {ROW_ALIAS} (fields)"
    return f"({chunk}.rows is not null and exists (select from {fields} where {condition}))"


def document_has_row(alias: LiteralString, condition: str) -> str:
    """Return the condition that the visible version of the document has such a row."""
    chunks = f"chunks row_chunk where row_chunk.document_id = {alias}.id"
    matching = has_row("row_chunk", condition)
    return f"exists (select from {chunks} and row_chunk.generation = {alias}.active_generation and {matching})"


def json_sql(target: Field, alias: LiteralString, key: str) -> str:
    """Return the field as jsonb, null if absent. `key`: placeholder of a metadata key."""
    if target.is_row:
        return f"({ROW_ALIAS}.fields -> {key}::text)"
    if target.is_metadata:
        return f"({alias}.metadata -> {key}::text)"
    if target.name in TEXT_COLUMNS:
        return f"to_jsonb({alias}.{TEXT_COLUMNS[target.name]})"
    if target.name == FAILURE_FIELD:
        return f"to_jsonb({failure_causes.cause_sql(f'{alias}.error')})"
    plain = f"{alias}.properties -> '{target.name}'"
    if target.name == "path":
        packed = f"{alias}.properties -> '{PACKED_PATH_PROPERTY}'"
        return f"(case when {alias}.properties ? 'path' then {plain} else {packed} end)"
    return f"({plain})"


def field_instant_sql(target: Field, alias: LiteralString) -> str:
    """Return a date field as a timestamptz to the millisecond, null if absent."""
    columns = {"createdAt": "created_at", "updatedAt": "updated_at"}
    if target.name in columns:
        return f"date_trunc('milliseconds', {alias}.{columns[target.name]})"
    return text_instant_sql(f"({alias}.properties ->> '{target.name}')")


def answer_json_sql(target: Field, alias: LiteralString, key: str) -> str:
    """Return the field as jsonb in the format of answers, dates as UTC text; null if absent."""
    if not target.is_date:
        return json_sql(target, alias, key)
    moment = f"{field_instant_sql(target, alias)} at time zone 'UTC'"
    return f"""to_jsonb(to_char({moment}, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))"""


def text_instant_sql(text: str) -> str:
    """Return the instant of a text like `parse_instant`; null for other text."""
    return (
        f"(select case when t !~ '^(?:{DATE_PATTERN})$' then null"
        " when length(t) = 10 then (t || 'T00:00Z')::timestamptz"
        rf" else (regexp_replace(t, '(\.[0-9]{{3}})[0-9]+', '\1')"
        f" || case when t ~ '{OFFSET_PATTERN}$' then '' else 'Z' end)::timestamptz end from (values ({text})) as v (t))"
    )


def _compare_instants(comparison: str) -> Callable[[str], str]:
    """Return a comparison of the instant in a field or list member."""
    return lambda member: f"{text_instant_sql(member + ' #>> ' + _ROOT_PATH)} {comparison}"


_ROOT_PATH = "'{}'"


@dataclass(slots=True)
class _ConditionWriter:
    """SQL writer of one condition."""

    alias: LiteralString
    prefix: str
    params: dict[str, Any] = field(default_factory=dict)

    def write(self, condition: Condition) -> str:
        match condition:
            case AllOf(parts):
                return "(" + " and ".join(map(self.write, parts)) + ")"
            case AnyOf(parts):
                return "(" + " or ".join(map(self.write, parts)) + ")"
            case Not(part):
                return f"(not {self.write(part)})"
            case Leaf(target, "ne" | "nin", values):
                return f"(not {self._write_membership(target, values)})"
            case Leaf():
                return self._write_leaf(condition)

    def _write_leaf(self, leaf: Leaf) -> str:
        target, op, value = leaf.field, leaf.op, leaf.values[0] if leaf.values else ""
        if op in {"eq", "in"}:
            return self._write_membership(target, leaf.values)
        if op == "exists":
            return ("" if value else "not ") + self._write_exists(target)
        if op == "contains":
            return self._write_contains(target, value)
        if op in {"startsWith", "endsWith"}:
            column, part = self._json(target), f"{self._param(value)}::text"
            text = f"{column} #>> '{{}}'"
            text = f"starts_with({text}, {part})" if op == "startsWith" else f"right({text}, length({part})) = {part}"
            return f"coalesce(case jsonb_typeof({column}) when 'string' then {text} end, false)"
        if target.is_date:
            return self._write_date_order(target, op, value)
        return self._any_member(target, *self._comparison(op, value))

    def _write_date_order(self, target: Field, op: str, value: Value) -> str:
        compared = (
            f"coalesce({field_instant_sql(target, self.alias)} {ORDER_OPERATORS[op]} {self._instant(value)}, false)"
        )
        if target.name != "createdAt":
            return compared
        # The index of listings needs a bound on the column, which is finer than a millisecond.
        bound = self._instant(value)
        by = f">= {bound}" if op in {"gt", "gte"} else f"< {bound} + interval '1 millisecond'"
        return f"({self.alias}.created_at {by} and {compared})"

    def _write_membership(self, target: Field, values: Sequence[Value]) -> str:
        moments = [value for value in values if isinstance(value, Instant)]
        plain = [value for value in values if not isinstance(value, Instant)]
        if target.is_date:
            values_sql = self._param([moment.text for moment in moments])
            return (
                f"coalesce({field_instant_sql(target, self.alias)} = any({values_sql}::text[]::timestamptz[]), false)"
            )
        alternatives = []
        if target.is_free and plain:
            shapes = [json.dumps({target.name: shape}) for value in plain for shape in (value, [value])]
            column = f"{ROW_ALIAS}.fields" if target.is_row else f"{self.alias}.metadata"
            alternatives.append(f"{column} @> any({self._param(shapes)}::jsonb[])")
        elif target.name in TEXT_COLUMNS and plain:
            texts = [value for value in plain if isinstance(value, str)]
            alternatives.append(
                f"coalesce({self.alias}.{TEXT_COLUMNS[target.name]} = any({self._param(texts)}::text[]), false)"
            )
        elif plain:
            values_sql = self._param([json.dumps(value) for value in plain])
            alternatives.append(f"coalesce({self._json(target)} @> any({values_sql}::jsonb[]), false)")
        if moments:
            values_sql = self._param([moment.text for moment in moments])
            alternatives.append(
                self._any_member(target, "string", _compare_instants(f"= any({values_sql}::text[]::timestamptz[])"))
            )
        return "(" + (" or ".join(alternatives) or "false") + ")"

    def _write_exists(self, target: Field) -> str:
        if target.is_date:
            return f"({field_instant_sql(target, self.alias)} is not null)"
        return f"coalesce(jsonb_typeof({self._json(target)}) <> 'null', false)"

    def _write_contains(self, target: Field, value: Value) -> str:
        column = self._json(target)
        if isinstance(value, Instant):
            text = text_instant_sql("m #>> '{}'")
            member = (
                f"exists (select from jsonb_array_elements({column}) m"
                f" where jsonb_typeof(m) = 'string' and {text} = {self._instant(value)})"
            )
            return f"coalesce(case jsonb_typeof({column}) when 'array' then {member} end, false)"
        member = f"{column} @> {self._param(json.dumps(value))}::jsonb"
        within = f"strpos({column} #>> '{{}}', {self._param(value)}::text) > 0" if isinstance(value, str) else "false"
        return (
            f"coalesce(case jsonb_typeof({column}) when 'string' then {within} when 'array' then {member} end, false)"
        )

    def _comparison(self, op: str, value: Value) -> tuple[str, Callable[[str], str]]:
        """Return the comparable JSON type of the value, and the comparison of a field or list member."""
        sign = ORDER_OPERATORS[op]
        if isinstance(value, Instant):
            return "string", _compare_instants(f"{sign} {self._instant(value)}")
        if isinstance(value, str):
            text = self._param(value)
            return "string", lambda member: f"({member} #>> '{{}}') collate \"C\" {sign} {text}::text"
        number = self._param(json.dumps(value))
        return "number", lambda member: f"{member} {sign} {number}::jsonb"

    def _any_member(self, target: Field, kind: str, compare: Callable[[str], str]) -> str:
        """Return the SQL condition: the field, or a member of a list field, has the type and satisfies `compare`."""
        column = self._json(target)
        members = f"jsonb_array_elements({column}) m where jsonb_typeof(m) = '{kind}' and {compare('m')}"
        any_member = f"exists (select from {members})"
        single = compare(column)
        by_type = f"when '{kind}' then {single} when 'array' then {any_member}"
        return f"coalesce(case jsonb_typeof({column}) {by_type} end, false)"

    def _json(self, target: Field) -> str:
        return json_sql(target, self.alias, self._param(target.name) if target.is_free else "")

    def _instant(self, value: Value) -> str:
        return f"{self._param(value.text if isinstance(value, Instant) else value)}::timestamptz"

    def _param(self, value: Any) -> str:
        name = f"{self.prefix}_{len(self.params)}"
        self.params[name] = value
        return f"%({name})s"
