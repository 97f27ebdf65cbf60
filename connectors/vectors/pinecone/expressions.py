"""Filters in the vendor's words: as much of them as labels can say, so that what matches is always let through.

Labels (`retrieval.documents.vector_metadata`) know a document's id, type, source and its metadata by value, in marks;
of a document with too many marks only that it has them. What they cannot say (orders, dates, parts of texts, what is
not there) restricts nothing here: our own tables filter again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from retrieval.conditions.model import All, AnyOf, Condition, Instant, Leaf, Not
from retrieval.documents import vector_metadata as labels

if TYPE_CHECKING:
    from retrieval.filters import DocumentFilter

Expression = dict[str, Any]

_NOTHING: Expression = {"document": {"$eq": ""}}
"""What no vector has; lists of no values are refused there."""
_EXACT = {"type": "type", "source": "source"}
"""Fields that a label holds as they are."""


def expression(where: DocumentFilter | None) -> Expression | None:
    """What the index is asked to leave out; None: nothing."""
    if where is None:
        return None
    clauses: list[Expression] = []
    if where.document_ids:
        clauses.append({"document": {"$in": list(where.document_ids)}})
    if where.sources:
        clauses.append({"source": {"$in": list(where.sources)}})
    if where.types:
        by_way = {"$and": [{"type": {"$eq": "URL"}}, {"source": {"$in": list(where.types)}}]}
        clauses.append({"$or": [{"type": {"$in": list(where.types)}}, by_way]})
    clauses.extend(_marked(key, values) for key, values in where.wanted())
    condition = None if where.where is None else of_condition(where.where)
    if condition is not None:
        clauses.append(condition)
    return {"$and": clauses} if clauses else None


def of_condition(condition: Condition, *, holds: bool = True) -> Expression | None:
    """What lets through all for which the condition holds, or does not hold; None: everything."""
    match condition:
        case Not(part):
            return of_condition(part, holds=not holds)
        case All(parts) | AnyOf(parts):
            said = [of_condition(part, holds=holds) for part in parts]
            return _every(said) if isinstance(condition, All) is holds else _some(said)
        case Leaf():
            return _leaf(condition, equal=holds is (condition.op in {"eq", "in"}))


def _every(said: Sequence[Expression | None]) -> Expression | None:
    clauses = [one for one in said if one is not None]
    return {"$and": clauses} if clauses else None


def _some(said: Sequence[Expression | None]) -> Expression | None:
    clauses = [one for one in said if one is not None]
    return {"$or": clauses} if len(clauses) == len(said) else None


def _leaf(leaf: Leaf, *, equal: bool) -> Expression | None:
    """`equal`: the field must be one of the values; otherwise it must not."""
    if leaf.op not in {"eq", "in", "ne", "nin"} or any(isinstance(value, Instant) for value in leaf.values):
        return None
    if not leaf.field.is_metadata:
        name = _EXACT.get(leaf.field.name)
        texts = [value for value in leaf.values if isinstance(value, str)]
        if name is None:
            return None
        if not texts:
            return _NOTHING if equal else None
        return {name: {"$in" if equal else "$nin": texts}}
    return _marked(leaf.field.name, leaf.values) if equal else None


def _marked(key: str, values: Sequence[Any]) -> Expression:
    return {"marks": {"$in": [*dict.fromkeys(labels.mark(key, one) for one in values), labels.ANY]}}
