"""Typed rows. Each function of a package's `queries.py` is one statement and returns instances of a row class.

    @dataclass(frozen=True, slots=True)
    class Run:
        id: str
        status: str

    def list_runs(db: Executor, job_id: str) -> list[Run]:
        return db.fetch(Run, "select id, status from job_runs where job_id = %(job)s", {"job": job_id})

The class is a frozen dataclass with slots, a NamedTuple, or the SQLModel class of the table, with a field per column.
For a plain type (`str`, `int`, `datetime`, `dict`) it is the first column: `db.fetch(str, "select id from …")`, and
`db.fetch_one(int, "select count(*) from …")`. `fetch_one` returns None where there is no row, `execute` runs a
statement without its rows. An `Executor` is a `Database`, where each statement is a transaction of its own
unless within `together`, or the connection that `Database.transaction` and `tuned` give. On the event loop
`AsyncExecutor` has the same as `async_fetch`, `async_fetch_one` and `async_execute`.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any, LiteralString, Protocol, TypeVar

from psycopg.rows import BaseRowFactory, class_row, scalar_row

T = TypeVar("T")
Params = dict[str, Any]


def row_factory(row_type: type[T]) -> BaseRowFactory[T]:
    """Return how psycopg makes a row: an instance of a class with named fields, or the value of the first column."""
    has_fields = is_dataclass(row_type) or hasattr(row_type, "_fields") or hasattr(row_type, "model_fields")
    return class_row(row_type) if has_fields else scalar_row


class Executor(Protocol):
    """A database or a connection of a thread."""

    def execute(self, statement: LiteralString, params: Params | None = None, /) -> object: ...

    def fetch(self, row_type: type[T], statement: LiteralString, params: Params | None = None) -> list[T]: ...

    def fetch_one(self, row_type: type[T], statement: LiteralString, params: Params | None = None) -> T | None: ...


class AsyncExecutor(Protocol):
    """A database or a connection of the event loop."""

    async def async_execute(self, statement: LiteralString, params: Params | None = None) -> object: ...

    async def async_fetch(
        self, row_type: type[T], statement: LiteralString, params: Params | None = None
    ) -> list[T]: ...

    async def async_fetch_one(
        self, row_type: type[T], statement: LiteralString, params: Params | None = None
    ) -> T | None: ...
