"""Parse conditions from decoded JSON, with the path of an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeGuard

from retrieval.conditions.model import (
    CONDITION_OPERATORS,
    DOCUMENT_FIELDS,
    INTEGER_RANGE_MESSAGE,
    MAX_DEPTH,
    MAX_LEAVES,
    MAX_LIST_VALUES,
    ORDER_OPERATORS,
    AllOf,
    AnyOf,
    Condition,
    Field,
    Instant,
    Leaf,
    Not,
    Value,
    exceeds_integer_range,
    is_storable,
    normalize_key,
    parse_instant,
)
from retrieval.errors import ErrorCode, ServiceError

_AFFIX_OPERATORS = ("startsWith", "endsWith")
_CONDITION_KEYS = ("all", "any", "not", "field")
_FIELD_PREFIXES = ("row.", "metadata.", "document.")


def parse_condition(data: object, code: ErrorCode, *, path: str) -> Condition:
    """Parse a condition. Raises ServiceError `code` with the path of the error below `path`."""
    return _Parser(code).parse(data, path, 0)


@dataclass(slots=True)
class _Parser:
    """Parser of a condition, with counters for the limits."""

    code: ErrorCode
    leaf_count: int = 0
    value_count: int = 0

    def parse(self, data: object, path: str, depth: int) -> Condition:
        if not isinstance(data, Mapping):
            self._refuse("A condition must be an object.", path)
        if data and all(isinstance(name, str) and name.startswith(_FIELD_PREFIXES) for name in data):
            return AllOf(tuple(self._parse_short_form(name, value, f"{path}.{name}") for name, value in data.items()))
        kinds = [kind for kind in _CONDITION_KEYS if data.get(kind) is not None]
        if len(kinds) != 1:
            self._refuse("A condition has exactly one of `all`, `any`, `not` and `field`.", path)
        if kinds == ["field"]:
            return self._parse_leaf(data, path)
        if depth == MAX_DEPTH:
            self._refuse(f"A condition may be {MAX_DEPTH} deep at most.", path)
        if kinds == ["not"]:
            return Not(self.parse(data["not"], f"{path}.not", depth + 1))
        kind = kinds[0]
        parts = data[kind]
        if not isinstance(parts, list | tuple) or not parts:
            self._refuse(f"`{kind}` must be an array of at least one condition.", f"{path}.{kind}")
        parsed = tuple(self.parse(part, f"{path}.{kind}[{n}]", depth + 1) for n, part in enumerate(parts))
        return AllOf(parsed) if kind == "all" else AnyOf(parsed)

    def _parse_leaf(self, data: Mapping[str, Any], path: str) -> Leaf:
        self.leaf_count += 1
        if self.leaf_count > MAX_LEAVES:
            self._refuse(f"A condition may have {MAX_LEAVES} leaves at most.", path)
        target, op = self.parse_field(data["field"], f"{path}.field"), data.get("op")
        if not isinstance(op, str) or op not in CONDITION_OPERATORS:
            self._refuse(f"`op` must be one of {', '.join(CONDITION_OPERATORS)}.", f"{path}.op")
        value_path, value = f"{path}.value", data.get("value")
        if op == "exists":
            if not isinstance(value, bool):
                self._refuse("With `exists` the value must be true or false.", value_path)
            return Leaf(target, op, (value,))
        if op in {"in", "nin"}:
            return Leaf(target, op, self._parse_values(target, op, value, value_path))
        return Leaf(target, op, (self._parse_value(target, op, value, value_path),))

    def _parse_short_form(self, name: str, value: object, path: str) -> Condition:
        """Parse the short form: `{"row.status": "open"}`, `{"row.amount": {"gte": 1000, "lt": 2000}}`."""
        if not isinstance(value, Mapping) or set(value) == {"date"}:
            op = "in" if isinstance(value, list | tuple) else "eq"
            return self._parse_leaf({"field": name, "op": op, "value": value}, path)
        if not value:
            self._refuse("An object of operators must not be empty.", path)
        leaves = [self._parse_leaf({"field": name, "op": op, "value": bound}, path) for op, bound in value.items()]
        return AllOf(tuple(leaves))

    def parse_field(self, name: object, path: str) -> Field:
        if isinstance(name, str) and name.startswith("row."):
            key = name.removeprefix("row.")
            if not key or not is_storable(key):
                self._refuse("`row.` is followed by the name of a column or of a record's field.", path)
            return Field(key, is_row=True)
        if isinstance(name, str) and name.startswith("metadata."):
            key = name.removeprefix("metadata.")
            if not is_storable(key):
                self._refuse("A metadata key must not hold a NUL character.", path)
            return Field(normalize_key(key), is_metadata=True)
        field_name = name.removeprefix("document.") if isinstance(name, str) and name.startswith("document.") else ""
        if field_name not in DOCUMENT_FIELDS:
            names = ", ".join(f"document.{field}" for field in DOCUMENT_FIELDS)
            self._refuse(f"`field` must be metadata.<key>, row.<column> or one of {names}.", path)
        return Field(field_name)

    def _parse_values(self, target: Field, op: str, value: object, path: str) -> tuple[Value, ...]:
        if not isinstance(value, list | tuple):
            self._refuse(f"With `{op}` the value must be an array.", path)
        self.value_count += len(value)
        if self.value_count > MAX_LIST_VALUES:
            self._refuse(f"The arrays of a condition may hold {MAX_LIST_VALUES} values at most.", path)
        return tuple(self._parse_value(target, op, item, f"{path}[{n}]") for n, item in enumerate(value))

    def _parse_value(self, target: Field, op: str, value: object, path: str) -> Value:
        if target.is_date:
            return self._parse_date(op, value, path)
        if isinstance(value, Mapping):
            if not target.is_free:
                self._refuse("A date is compared with metadata and with the three `…At` fields only.", path)
            if op in _AFFIX_OPERATORS:
                self._refuse(f"`{op}` takes a string.", path)
            return self._parse_instant(value.get("date"), path)
        if isinstance(value, bool) and (op in ORDER_OPERATORS or op == "contains"):
            self._refuse(f"`{op}` does not take true or false.", path)
        if op in _AFFIX_OPERATORS and not isinstance(value, str):
            self._refuse(f"`{op}` takes a string.", path)
        if not _is_scalar(value):
            hint = 'A value must be a string, a number, true, false or {"date": …}; for null see `exists`.'
            self._refuse(hint, path)
        if exceeds_integer_range(value):
            self._refuse(INTEGER_RANGE_MESSAGE, path)
        return value

    def _parse_date(self, op: str, value: object, path: str) -> Instant:
        if op == "contains" or op in _AFFIX_OPERATORS:
            self._refuse(f"`{op}` does not apply to a date.", path)
        return self._parse_instant(value.get("date") if isinstance(value, Mapping) else value, path)

    def _parse_instant(self, value: object, path: str) -> Instant:
        moment = parse_instant(value) if isinstance(value, str) else None
        if moment is None:
            self._refuse("A date is written as 2026-11-01 or 2026-11-01T09:30:00+01:00.", path)
        return moment

    def _refuse(self, message: str, path: str) -> NoReturn:
        raise ServiceError(self.code, message, field=path)


def parse_field(name: object, code: ErrorCode, *, path: str) -> Field:
    """Parse a field name of a condition. Raises ServiceError `code`."""
    return _Parser(code).parse_field(name, path)


def _is_scalar(value: object) -> TypeGuard[str | float | bool]:
    if isinstance(value, str):
        return is_storable(value)
    return isinstance(value, int | float) and value - value == 0  # neither infinite nor NaN
