"""Work in several statements that is written once and done on either kind of connection, in the caller's transaction.

def raise_all(ids: list[str]) -> Statements[int]:
    rows = yield "select … where id = any(%(ids)s)", {"ids": ids}
    yield "update …", {…}
    return len(rows)

sync_async.run(connection, raise_all(ids))                # in a thread
await sync_async.async_run(connection, raise_all(ids))    # on the event loop
"""

from __future__ import annotations

from collections.abc import Generator
from typing import LiteralString, TypeAlias, TypeVar

from psycopg import AsyncConnection, Connection

from retrieval.database.database import Row
from retrieval.database.rows import Params

T = TypeVar("T")
Statement: TypeAlias = tuple[LiteralString, Params]
Statements: TypeAlias = Generator[Statement, list[Row], T]
"""Yields a statement with its parameters, is sent its rows ([] where it answers none), and returns what came of all."""


def run(connection: Connection[Row], statements: Statements[T]) -> T:
    """Execute the statements one after the other; what they return. An error of the database ends them."""
    try:
        statement = next(statements)
        while True:
            cursor = connection.execute(*statement)
            statement = statements.send(cursor.fetchall() if cursor.description else [])
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        statements.close()


async def async_run(connection: AsyncConnection[Row], statements: Statements[T]) -> T:
    """Async form of `run`."""
    try:
        statement = next(statements)
        while True:
            cursor = await connection.execute(*statement)
            statement = statements.send(await cursor.fetchall() if cursor.description else [])
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        statements.close()
