"""Conditions as SQL on the `documents` table; every expression is true or false, never null."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString

from retrieval import failure_causes
from retrieval.conditions.model import (
    DATE,
    FAILURE,
    OFFSET,
    ORDERS,
    PACKED_PATH,
    TEXTS,
    All,
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
    """The condition on the document under `alias`, and its parameters, named `<prefix>_…`."""
    writer = _Writer(alias, prefix)
    return writer.write(condition), writer.params


ROW: LiteralString = "row_fields"
"""The alias under which conditions read the fields of one row."""


def has_row(chunk: LiteralString, condition: str) -> str:
    """Condition that the chunk under this alias holds a row that satisfies the condition, by the alias `ROW`."""
    fields = f"jsonb_array_elements({chunk}.rows) {ROW} (fields)"
    return f"({chunk}.rows is not null and exists (select from {fields} where {condition}))"


def document_has_row(alias: LiteralString, condition: str) -> str:
    """Condition that the visible version of the document under this alias holds such a row."""
    chunks = f"chunks row_chunk where row_chunk.document_id = {alias}.id"
    matching = has_row("row_chunk", condition)
    return f"exists (select from {chunks} and row_chunk.generation = {alias}.active_generation and {matching})"


def json_of(about: Field, alias: LiteralString, key: str) -> str:
    """The field as jsonb, null where it is absent. `key`: the placeholder of a metadata key."""
    if about.is_row:
        return f"({ROW}.fields -> {key}::text)"
    if about.is_metadata:
        return f"({alias}.metadata -> {key}::text)"
    if about.name in TEXTS:
        return f"to_jsonb({alias}.{TEXTS[about.name]})"
    if about.name == FAILURE:
        return f"to_jsonb({failure_causes.cause_sql(f'{alias}.error')})"
    plain = f"{alias}.properties -> '{about.name}'"
    if about.name == "path":
        return f"(case when {alias}.properties ? 'path' then {plain} else {alias}.properties -> '{PACKED_PATH}' end)"
    return f"({plain})"


def instant_of(about: Field, alias: LiteralString) -> str:
    """A date field as a timestamptz to the millisecond, null where there is none."""
    columns = {"createdAt": "created_at", "updatedAt": "updated_at"}
    if about.name in columns:
        return f"date_trunc('milliseconds', {alias}.{columns[about.name]})"
    return read_instant(f"({alias}.properties ->> '{about.name}')")


def field_json(about: Field, alias: LiteralString, key: str) -> str:
    """The field as jsonb in the form that answers have, dates as text in UTC; null where it is absent."""
    if not about.is_date:
        return json_of(about, alias, key)
    moment = f"{instant_of(about, alias)} at time zone 'UTC'"
    return f"""to_jsonb(to_char({moment}, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))"""


def read_instant(text: str) -> str:
    """The moment that a text names, as `retrieval.conditions.model.parse_instant` reads it; null if it is no date."""
    return (
        f"(select case when t !~ '^(?:{DATE})$' then null when length(t) = 10 then (t || 'T00:00Z')::timestamptz"
        rf" else (regexp_replace(t, '(\.[0-9]{{3}})[0-9]+', '\1')"
        f" || case when t ~ '{OFFSET}$' then '' else 'Z' end)::timestamptz end from (values ({text})) as v (t))"
    )


def _compare_instants(comparison: str) -> Callable[[str], str]:
    """A comparison of the moment that a field, or a member of it, names."""
    return lambda member: f"{read_instant(member + ' #>> ' + _WHOLE)} {comparison}"


_WHOLE = "'{}'"
"""The path to a JSON value itself."""


@dataclass(slots=True)
class _Writer:
    """One statement's condition on its way."""

    alias: LiteralString
    prefix: str
    params: dict[str, Any] = field(default_factory=dict)

    def write(self, condition: Condition) -> str:
        match condition:
            case All(parts):
                return "(" + " and ".join(map(self.write, parts)) + ")"
            case AnyOf(parts):
                return "(" + " or ".join(map(self.write, parts)) + ")"
            case Not(part):
                return f"(not {self.write(part)})"
            case Leaf(about, "ne" | "nin", values):
                return f"(not {self._is_one_of(about, values)})"
            case Leaf():
                return self._leaf(condition)

    def _leaf(self, leaf: Leaf) -> str:
        about, op, value = leaf.field, leaf.op, leaf.values[0] if leaf.values else ""
        if op in {"eq", "in"}:
            return self._is_one_of(about, leaf.values)
        if op == "exists":
            return ("" if value else "not ") + self._exists(about)
        if op == "contains":
            return self._contains(about, value)
        if op in {"startsWith", "endsWith"}:
            column, part = self._json(about), f"{self._param(value)}::text"
            text = f"{column} #>> '{{}}'"
            text = f"starts_with({text}, {part})" if op == "startsWith" else f"right({text}, length({part})) = {part}"
            return f"coalesce(case jsonb_typeof({column}) when 'string' then {text} end, false)"
        if about.is_date:
            return self._in_order(about, op, value)
        return self._members(about, *self._compared(op, value))

    def _in_order(self, about: Field, op: str, value: Value) -> str:
        compared = f"coalesce({instant_of(about, self.alias)} {ORDERS[op]} {self._instant(value)}, false)"
        if about.name != "createdAt":
            return compared
        bound = self._instant(value)  # which the listing's index can be entered at: the column is finer than the rule
        by = f">= {bound}" if op in {"gt", "gte"} else f"< {bound} + interval '1 millisecond'"
        return f"({self.alias}.created_at {by} and {compared})"

    def _is_one_of(self, about: Field, values: Sequence[Value]) -> str:
        moments = [value for value in values if isinstance(value, Instant)]
        plain = [value for value in values if not isinstance(value, Instant)]
        if about.is_date:
            values_sql = self._param([moment.text for moment in moments])
            return f"coalesce({instant_of(about, self.alias)} = any({values_sql}::text[]::timestamptz[]), false)"
        ways = []
        if about.is_free and plain:
            shapes = [json.dumps({about.name: shape}) for value in plain for shape in (value, [value])]
            column = f"{ROW}.fields" if about.is_row else f"{self.alias}.metadata"
            ways.append(f"{column} @> any({self._param(shapes)}::jsonb[])")
        elif about.name in TEXTS and plain:
            texts = [value for value in plain if isinstance(value, str)]
            ways.append(f"coalesce({self.alias}.{TEXTS[about.name]} = any({self._param(texts)}::text[]), false)")
        elif plain:
            values_sql = self._param([json.dumps(value) for value in plain])
            ways.append(f"coalesce({self._json(about)} @> any({values_sql}::jsonb[]), false)")
        if moments:
            values_sql = self._param([moment.text for moment in moments])
            ways.append(
                self._members(about, "string", _compare_instants(f"= any({values_sql}::text[]::timestamptz[])"))
            )
        return "(" + (" or ".join(ways) or "false") + ")"

    def _exists(self, about: Field) -> str:
        if about.is_date:
            return f"({instant_of(about, self.alias)} is not null)"
        return f"coalesce(jsonb_typeof({self._json(about)}) <> 'null', false)"

    def _contains(self, about: Field, value: Value) -> str:
        column = self._json(about)
        if isinstance(value, Instant):
            text = read_instant("m #>> '{}'")
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

    def _compared(self, op: str, value: Value) -> tuple[str, Callable[[str], str]]:
        """The JSON type that can be compared with the value, and the comparison of a field or a member of it."""
        sign = ORDERS[op]
        if isinstance(value, Instant):
            return "string", _compare_instants(f"{sign} {self._instant(value)}")
        if isinstance(value, str):
            text = self._param(value)
            return "string", lambda member: f"({member} #>> '{{}}') collate \"C\" {sign} {text}::text"
        number = self._param(json.dumps(value))
        return "number", lambda member: f"{member} {sign} {number}::jsonb"

    def _members(self, about: Field, kind: str, compare: Callable[[str], str]) -> str:
        """Condition that the field, or a member of it if it is a list, is of the kind and compares so."""
        column = self._json(about)
        members = f"jsonb_array_elements({column}) m where jsonb_typeof(m) = '{kind}' and {compare('m')}"
        any_member = f"exists (select from {members})"
        alone = compare(column)
        of_kinds = f"when '{kind}' then {alone} when 'array' then {any_member}"
        return f"coalesce(case jsonb_typeof({column}) {of_kinds} end, false)"

    def _json(self, about: Field) -> str:
        return json_of(about, self.alias, self._param(about.name) if about.is_free else "")

    def _instant(self, value: Value) -> str:
        return f"{self._param(value.text if isinstance(value, Instant) else value)}::timestamptz"

    def _param(self, value: Any) -> str:
        name = f"{self.prefix}_{len(self.params)}"
        self.params[name] = value
        return f"%({name})s"
