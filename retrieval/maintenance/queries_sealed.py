"""Statements on columns with sealed values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from retrieval.database.rows import Executor


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """Column with sealed values. `identity`: primary key columns."""

    table: LiteralString
    column: LiteralString
    identity: tuple[LiteralString, ...]
    # Returns the sealing name by primary key.
    row_name: Callable[..., str]


@dataclass(frozen=True, slots=True)
class SealedValue:
    """Sealed value with its primary key."""

    identity: Sequence[Any]
    sealed: bytes


def list_values(
    db: Executor, column: SealedColumn, key: str, after: SealedValue | None, limit: int
) -> list[SealedValue]:
    """Return values sealed with another key, in primary key order."""
    identity = ", ".join(column.identity)
    bound = "" if after is None else f" and ({identity}) > ({_placeholders(column)})"
    statement: LiteralString = (
        f"select array[{identity}] as identity, {column.column} as sealed from {column.table}"
        f" where substring({column.column} from 2 for get_byte(nullif({column.column}, ''), 0)) <> %(active)s{bound}"
        f" order by {identity} limit %(page)s"
    )
    values = {} if after is None else _identity(column, after)
    return db.fetch(SealedValue, statement, {**values, "active": key.encode(), "page": limit})


def replace_value(db: Executor, column: SealedColumn, value: SealedValue, fresh: bytes) -> bool:
    """Replace a value unless changed after the read."""
    statement: LiteralString = (
        f"update {column.table} set {column.column} = %(fresh)s where ({', '.join(column.identity)})"
        f" = ({_placeholders(column)}) and {column.column} = %(sealed)s returning true"
    )
    values = {**_identity(column, value), "sealed": value.sealed, "fresh": fresh}
    return bool(db.fetch_one(bool, statement, values))


def _identity(column: SealedColumn, value: SealedValue) -> dict[str, Any]:
    return dict(zip(column.identity, value.identity, strict=True))


def _placeholders(column: SealedColumn) -> LiteralString:
    return ", ".join([f"%({name})s" for name in column.identity])
