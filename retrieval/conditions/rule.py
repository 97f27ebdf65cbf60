"""Evaluation of conditions on a document in memory; `retrieval.conditions.sql` is the same rule in SQL."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from retrieval import failure_causes
from retrieval.conditions.model import (
    FAILURE,
    ORDERS,
    PACKED_PATH,
    TEXTS,
    All,
    AnyOf,
    Condition,
    Described,
    Field,
    Instant,
    Leaf,
    Not,
    Value,
    equal_values,
    instant_of,
    parse_instant,
)

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


@dataclass(frozen=True, slots=True)
class Nothing:
    """A document without any field."""

    name: None = None
    source: None = None
    document_type: None = None
    error: None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    properties: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    created_at: None = None
    updated_at: None = None


def restricts(condition: Condition) -> bool:
    """Tell whether the condition excludes a document without any field."""
    return not matches(condition, Nothing())


def split_rows(condition: Condition | None) -> tuple[Condition | None, Condition | None]:
    """The part of a condition that reads documents alone, and the part that reads rows; None for one that is empty.

    Both parts must hold. What combines the two by `any` or `not` is decided for each row.
    """
    if condition is None or not reads_rows(condition):
        return condition, None
    if not isinstance(condition, All):
        return None, condition
    parts = [split_rows(part) for part in condition.parts]
    of_documents = tuple(document for document, _ in parts if document is not None)
    of_rows = tuple(row for _, row in parts if row is not None)
    return All(of_documents) if of_documents else None, All(of_rows)


def reads_rows(condition: Condition) -> bool:
    """Tell whether a field of the condition is a column of a row or a field of a record."""
    match condition:
        case All(parts) | AnyOf(parts):
            return any(map(reads_rows, parts))
        case Not(part):
            return reads_rows(part)
        case Leaf(about):
            return about.is_row


def count_fields(condition: Condition) -> int:
    """Count the fields that the condition looks at."""
    match condition:
        case All(parts) | AnyOf(parts):
            return sum(map(count_fields, parts))
        case Not(part):
            return count_fields(part)
        case Leaf():
            return 1


def matches(condition: Condition, document: Described) -> bool:
    """Evaluate the condition on the document."""
    match condition:
        case All(parts):
            return all(matches(part, document) for part in parts)
        case AnyOf(parts):
            return any(matches(part, document) for part in parts)
        case Not(part):
            return not matches(part, document)
        case Leaf(about, op, values):
            return _holds(_value(about, document), op, values)


def _value(about: Field, document: Described) -> object:
    """Value of the field in the document; None if it is absent."""
    if about.is_row:
        return None
    if about.is_metadata:
        return document.metadata.get(about.name)
    if about.name in TEXTS:
        return getattr(document, TEXTS[about.name])
    if about.name in {"createdAt", "updatedAt"}:
        at = document.created_at if about.name == "createdAt" else document.updated_at
        return None if at is None else instant_of(at)
    if about.name == FAILURE:
        return failure_causes.find_cause(document.error)
    return _property(about, document.properties)


def _property(about: Field, properties: Mapping[str, Any]) -> object:
    if about.name == "modifiedAt":
        text = properties.get(about.name)
        return parse_instant(text) if isinstance(text, str) else None
    name = PACKED_PATH if about.name == "path" and "path" not in properties else about.name
    return properties.get(name)


def _holds(stored: object, op: str, values: tuple[Value, ...]) -> bool:
    if op == "exists":
        return (stored is not None) is values[0]
    members = stored if isinstance(stored, list) else [stored]
    if op in {"eq", "in", "ne", "nin"}:
        holds = any(_equal(member, value) for member in members for value in values)
        return holds is (op in {"eq", "in"})
    if op in ORDERS:
        return any(_in_order(member, op, values[0]) for member in members)
    if op == "contains" and isinstance(stored, list):
        return any(_equal(member, values[0]) for member in stored)
    return _within(stored, op, values[0])


def _within(text: object, op: str, part: Value) -> bool:
    if not isinstance(text, str) or not isinstance(part, str):
        return False
    if op == "contains":
        return part in text
    return text.startswith(part) if op == "startsWith" else text.endswith(part)


def _equal(member: object, value: Value) -> bool:
    if isinstance(value, Instant):
        return _as_instant(member) == value
    return equal_values(member, value)


def _in_order(member: object, op: str, value: Value) -> bool:
    compare = _ORDERS[op]
    if isinstance(value, Instant):
        moment = _as_instant(member)
        return moment is not None and compare(moment.milliseconds, value.milliseconds)
    if isinstance(value, str):
        return isinstance(member, str) and compare(member, value)
    if isinstance(member, bool) or not isinstance(member, int | float):
        return False
    return compare(Decimal(repr(member)), Decimal(repr(value)))


def _as_instant(member: object) -> Instant | None:
    if isinstance(member, str):
        return parse_instant(member)
    return member if isinstance(member, Instant) else None
