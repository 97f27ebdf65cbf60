"""Typed rows of statements, by dataclass, NamedTuple or SQLModel class.

    @dataclass(frozen=True, slots=True)
    class Run:
        id: str
        status: str

    def list_runs(db: Executor, job_id: str) -> list[Run]:
        return db.fetch(Run, "select id, status from job_runs where job_id = %(job)s", {"job": job_id})

A plain type (`str`, `int`, `dict`) reads the first column: `db.fetch_one(int, "select count(*) from …")`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import is_dataclass
from typing import Any, LiteralString, Protocol, TypeVar

from psycopg.rows import BaseRowFactory, class_row, scalar_row

RowT = TypeVar("RowT")
Params = dict[str, Any]


def row_factory(row_type: type[RowT]) -> BaseRowFactory[RowT]:
    """Return psycopg's row factory for a class with fields, or for the first column."""
    has_fields = is_dataclass(row_type) or hasattr(row_type, "_fields") or hasattr(row_type, "model_fields")
    return class_row(row_type) if has_fields else scalar_row


class Executor(Protocol):
    """Database or connection of a thread."""

    # Each statement of a Database is its own transaction, unless within `together`.
    def execute(self, statement: LiteralString, params: Params | None = None, /) -> object: ...

    def fetch(self, row_type: type[RowT], statement: LiteralString, params: Params | None = None) -> list[RowT]: ...

    def fetch_one(
        self, row_type: type[RowT], statement: LiteralString, params: Params | None = None
    ) -> RowT | None: ...


class AsyncExecutor(Protocol):
    """Database or connection of the event loop."""

    async def async_execute(self, statement: LiteralString, params: Params | None = None) -> object: ...

    async def async_fetch(
        self, row_type: type[RowT], statement: LiteralString, params: Params | None = None
    ) -> list[RowT]: ...

    async def async_fetch_one(
        self, row_type: type[RowT], statement: LiteralString, params: Params | None = None
    ) -> RowT | None: ...


def array_literal(values: Iterable[object]) -> str:
    """Format numbers or ids as a PostgreSQL array."""
    # psycopg needs ten times as long to send lists.
    return "{" + ",".join("null" if value is None else str(value) for value in values) + "}"
