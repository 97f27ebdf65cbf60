"""Evaluate conditions on documents in memory, with the semantics of `retrieval.conditions.sql`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from retrieval import failure_causes
from retrieval.conditions.model import (
    FAILURE_FIELD,
    ORDER_OPERATORS,
    PACKED_PATH_PROPERTY,
    TEXT_COLUMNS,
    AllOf,
    AnyOf,
    Condition,
    DescribedDocument,
    Field,
    Instant,
    Leaf,
    Not,
    Value,
    equal_values,
    instant_of,
    parse_instant,
)

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


@dataclass(frozen=True, slots=True)
class EmptyDocument:
    """Document without any field."""

    name: None = None
    source: None = None
    document_type: None = None
    error: None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    properties: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    created_at: None = None
    updated_at: None = None


def is_restrictive(condition: Condition) -> bool:
    """Return True if the condition excludes a document without any field."""
    return not matches(condition, EmptyDocument())


def split_rows(condition: Condition | None) -> tuple[Condition | None, Condition | None]:
    """Split a condition into a conjunction of a document part and a row part; None for an empty part."""
    if condition is None or not reads_rows(condition):
        return condition, None
    # `any` and `not` over both kinds are decided for each row.
    if not isinstance(condition, AllOf):
        return None, condition
    parts = [split_rows(part) for part in condition.parts]
    document_parts = tuple(document for document, _ in parts if document is not None)
    row_parts = tuple(row for _, row in parts if row is not None)
    return AllOf(document_parts) if document_parts else None, AllOf(row_parts)


def reads_rows(condition: Condition) -> bool:
    """Return True if the condition tests a column of a row or a field of a record."""
    match condition:
        case AllOf(parts) | AnyOf(parts):
            return any(map(reads_rows, parts))
        case Not(part):
            return reads_rows(part)
        case Leaf(target):
            return target.is_row


def count_fields(condition: Condition) -> int:
    """Count the tested fields."""
    match condition:
        case AllOf(parts) | AnyOf(parts):
            return sum(map(count_fields, parts))
        case Not(part):
            return count_fields(part)
        case Leaf():
            return 1


def matches(condition: Condition, document: DescribedDocument) -> bool:
    """Return True if the condition holds for the document."""
    match condition:
        case AllOf(parts):
            return all(matches(part, document) for part in parts)
        case AnyOf(parts):
            return any(matches(part, document) for part in parts)
        case Not(part):
            return not matches(part, document)
        case Leaf(target, op, values):
            return _leaf_holds(_field_value(target, document), op, values)


def _field_value(target: Field, document: DescribedDocument) -> object:
    """Return the field value of the document; None if absent."""
    if target.is_row:
        return None
    if target.is_metadata:
        return document.metadata.get(target.name)
    if target.name in TEXT_COLUMNS:
        return getattr(document, TEXT_COLUMNS[target.name])
    if target.name in {"createdAt", "updatedAt"}:
        at = document.created_at if target.name == "createdAt" else document.updated_at
        return None if at is None else instant_of(at)
    if target.name == FAILURE_FIELD:
        return failure_causes.find_cause(document.error)
    return _property_value(target, document.properties)


def _property_value(target: Field, properties: Mapping[str, Any]) -> object:
    if target.name == "modifiedAt":
        text = properties.get(target.name)
        return parse_instant(text) if isinstance(text, str) else None
    name = PACKED_PATH_PROPERTY if target.name == "path" and "path" not in properties else target.name
    return properties.get(name)


def _leaf_holds(stored: object, op: str, values: tuple[Value, ...]) -> bool:
    if op == "exists":
        return (stored is not None) is values[0]
    members = stored if isinstance(stored, list) else [stored]
    if op in {"eq", "in", "ne", "nin"}:
        holds = any(_is_equal(member, value) for member in members for value in values)
        return holds is (op in {"eq", "in"})
    if op in ORDER_OPERATORS:
        return any(_is_ordered(member, op, values[0]) for member in members)
    if op == "contains" and isinstance(stored, list):
        return any(_is_equal(member, values[0]) for member in stored)
    return _matches_text(stored, op, values[0])


def _matches_text(text: object, op: str, part: Value) -> bool:
    if not isinstance(text, str) or not isinstance(part, str):
        return False
    if op == "contains":
        return part in text
    return text.startswith(part) if op == "startsWith" else text.endswith(part)


def _is_equal(member: object, value: Value) -> bool:
    if isinstance(value, Instant):
        return _as_instant(member) == value
    return equal_values(member, value)


def _is_ordered(member: object, op: str, value: Value) -> bool:
    compare = _COMPARISONS[op]
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
