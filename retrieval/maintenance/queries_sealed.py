"""Statements on columns that hold sealed values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from retrieval.database.rows import Executor


@dataclass(frozen=True, slots=True)
class Sealed:
    """A column that holds sealed values. `identity`: the primary key, in its order."""

    table: LiteralString
    column: LiteralString
    identity: tuple[LiteralString, ...]
    row_name: Callable[..., str]
    """Returns the name that a value is sealed for, by the primary key."""


@dataclass(frozen=True, slots=True)
class SealedValue:
    """A sealed value with the primary key of its row."""

    identity: Sequence[Any]
    sealed: bytes


def list_values(db: Executor, column: Sealed, key: str, after: SealedValue | None, limit: int) -> list[SealedValue]:
    """Return values that another key sealed, in the order of the primary key."""
    identity = ", ".join(column.identity)
    bound = "" if after is None else f" and ({identity}) > ({_placeholders(column)})"
    statement: LiteralString = (
        f"select array[{identity}] as identity, {column.column} as sealed from {column.table}"
        f" where substring({column.column} from 2 for get_byte(nullif({column.column}, ''), 0)) <> %(active)s{bound}"
        f" order by {identity} limit %(page)s"
    )
    values = {} if after is None else _identity(column, after)
    return db.fetch(SealedValue, statement, {**values, "active": key.encode(), "page": limit})


def replace_value(db: Executor, column: Sealed, value: SealedValue, fresh: bytes) -> bool:
    """Replace a value unless it was replaced since it was read."""
    statement: LiteralString = (
        f"update {column.table} set {column.column} = %(fresh)s where ({', '.join(column.identity)})"
        f" = ({_placeholders(column)}) and {column.column} = %(sealed)s returning true"
    )
    values = {**_identity(column, value), "sealed": value.sealed, "fresh": fresh}
    return bool(db.fetch_one(bool, statement, values))


def _identity(column: Sealed, value: SealedValue) -> dict[str, Any]:
    return dict(zip(column.identity, value.identity, strict=True))


def _placeholders(column: Sealed) -> LiteralString:
    return ", ".join([f"%({name})s" for name in column.identity])
