"""Reads a condition from decoded JSON; what is wrong is refused and named by its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeGuard

from retrieval.conditions.model import (
    DEPTH,
    FIELDS,
    LEAVES,
    OPS,
    ORDERS,
    VALUES,
    WHOLE_WORDS,
    All,
    AnyOf,
    Condition,
    Field,
    Instant,
    Leaf,
    Not,
    Value,
    is_beyond,
    is_storable,
    normalize_key,
    parse_instant,
)
from retrieval.errors import ErrorCode, ServiceError

_ENDS = ("startsWith", "endsWith")
_KINDS = ("all", "any", "not", "field")
_PREFIXES = ("row.", "metadata.", "document.")


def parse_condition(data: object, code: ErrorCode, *, where: str) -> Condition:
    """A condition from decoded JSON; ServiceError `code` naming the place that is wrong. `where`: the object's path."""
    return _Parser(code).read(data, where, 0)


@dataclass(slots=True)
class _Parser:
    """One condition on its way: what of it was counted so far."""

    code: ErrorCode
    leaves: int = 0
    listed: int = 0

    def read(self, data: object, place: str, depth: int) -> Condition:
        if not isinstance(data, Mapping):
            self._refuse("A condition must be an object.", place)
        if data and all(isinstance(name, str) and name.startswith(_PREFIXES) for name in data):
            return All(tuple(self._brief(name, value, f"{place}.{name}") for name, value in data.items()))
        kinds = [kind for kind in _KINDS if data.get(kind) is not None]
        if len(kinds) != 1:
            self._refuse("A condition has exactly one of `all`, `any`, `not` and `field`.", place)
        if kinds == ["field"]:
            return self._leaf(data, place)
        if depth == DEPTH:
            self._refuse(f"A condition may be {DEPTH} deep at most.", place)
        if kinds == ["not"]:
            return Not(self.read(data["not"], f"{place}.not", depth + 1))
        kind = kinds[0]
        parts = data[kind]
        if not isinstance(parts, list | tuple) or not parts:
            self._refuse(f"`{kind}` must be an array of at least one condition.", f"{place}.{kind}")
        read = tuple(self.read(part, f"{place}.{kind}[{n}]", depth + 1) for n, part in enumerate(parts))
        return All(read) if kind == "all" else AnyOf(read)

    def _leaf(self, data: Mapping[str, Any], place: str) -> Leaf:
        self.leaves += 1
        if self.leaves > LEAVES:
            self._refuse(f"A condition may have {LEAVES} leaves at most.", place)
        about, op = self.field(data["field"], f"{place}.field"), data.get("op")
        if not isinstance(op, str) or op not in OPS:
            self._refuse(f"`op` must be one of {', '.join(OPS)}.", f"{place}.op")
        at, value = f"{place}.value", data.get("value")
        if op == "exists":
            if not isinstance(value, bool):
                self._refuse("With `exists` the value must be true or false.", at)
            return Leaf(about, op, (value,))
        if op in {"in", "nin"}:
            return Leaf(about, op, self._list(about, op, value, at))
        return Leaf(about, op, (self._value(about, op, value, at),))

    def _brief(self, name: str, value: object, place: str) -> Condition:
        """The short form: `{"row.status": "open"}`, `{"row.amount": {"gte": 1000, "lt": 2000}}`."""
        if not isinstance(value, Mapping) or set(value) == {"date"}:
            op = "in" if isinstance(value, list | tuple) else "eq"
            return self._leaf({"field": name, "op": op, "value": value}, place)
        if not value:
            self._refuse("An object of operators must not be empty.", place)
        leaves = [self._leaf({"field": name, "op": op, "value": bound}, place) for op, bound in value.items()]
        return All(tuple(leaves))

    def field(self, name: object, place: str) -> Field:
        """A field by its name."""
        if isinstance(name, str) and name.startswith("row."):
            key = name.removeprefix("row.")
            if not key or not is_storable(key):
                self._refuse("`row.` is followed by the name of a column or of a record's field.", place)
            return Field(key, is_row=True)
        if isinstance(name, str) and name.startswith("metadata."):
            key = name.removeprefix("metadata.")
            if not is_storable(key):
                self._refuse("A metadata key must not hold a NUL character.", place)
            return Field(normalize_key(key), is_metadata=True)
        field_name = name.removeprefix("document.") if isinstance(name, str) and name.startswith("document.") else ""
        if field_name not in FIELDS:
            names = ", ".join(f"document.{field}" for field in FIELDS)
            self._refuse(f"`field` must be metadata.<key>, row.<column> or one of {names}.", place)
        return Field(field_name)

    def _list(self, about: Field, op: str, value: object, place: str) -> tuple[Value, ...]:
        if not isinstance(value, list | tuple):
            self._refuse(f"With `{op}` the value must be an array.", place)
        self.listed += len(value)
        if self.listed > VALUES:
            self._refuse(f"The arrays of a condition may hold {VALUES} values at most.", place)
        return tuple(self._value(about, op, item, f"{place}[{n}]") for n, item in enumerate(value))

    def _value(self, about: Field, op: str, value: object, place: str) -> Value:
        if about.is_date:
            return self._date_of(op, value, place)
        if isinstance(value, Mapping):
            if not about.is_free:
                self._refuse("A date is compared with metadata and with the three `…At` fields only.", place)
            if op in _ENDS:
                self._refuse(f"`{op}` takes a string.", place)
            return self._instant(value.get("date"), place)
        if isinstance(value, bool) and (op in ORDERS or op == "contains"):
            self._refuse(f"`{op}` does not take true or false.", place)
        if op in _ENDS and not isinstance(value, str):
            self._refuse(f"`{op}` takes a string.", place)
        if not _is_scalar(value):
            hint = 'A value must be a string, a number, true, false or {"date": …}; for null see `exists`.'
            self._refuse(hint, place)
        if is_beyond(value):
            self._refuse(WHOLE_WORDS, place)
        return value

    def _date_of(self, op: str, value: object, place: str) -> Instant:
        if op == "contains" or op in _ENDS:
            self._refuse(f"`{op}` does not apply to a date.", place)
        return self._instant(value.get("date") if isinstance(value, Mapping) else value, place)

    def _instant(self, value: object, place: str) -> Instant:
        moment = parse_instant(value) if isinstance(value, str) else None
        if moment is None:
            self._refuse("A date is written as 2026-11-01 or 2026-11-01T09:30:00+01:00.", place)
        return moment

    def _refuse(self, message: str, place: str) -> NoReturn:
        raise ServiceError(self.code, message, field=place)


def field_of(name: object, code: ErrorCode, *, where: str) -> Field:
    """A field by its name, as conditions spell it."""
    return _Parser(code).field(name, where)


def _is_scalar(value: object) -> TypeGuard[str | float | bool]:
    if isinstance(value, str):
        return is_storable(value)
    return isinstance(value, int | float) and value - value == 0  # neither infinite nor NaN
