"""PostgreSQL: two pools, one for the API's event loop and one for threads, and the migration to the newest schema."""

from __future__ import annotations

import select
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Lock
from typing import Any, LiteralString

from psycopg import AsyncConnection, Connection, OperationalError
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolClosed, PoolTimeout

Row = DictRow
Params = dict[str, Any]
WAIT = 5.0
"""Seconds a request waits for a connection before it is told that the service is unavailable."""

RECONNECT = 1.0
"""Seconds for which a pool retries a lost connection by itself; after that each request tries anew, so that the service
is back as soon as the database is, and not at the end of an ever longer pause."""

AWAY = (OperationalError, PoolTimeout, PoolClosed)
"""What psycopg raises while the database is away."""


class Database:
    """Connections to one PostgreSQL. Both pools open on first use, so a process pays for what it uses."""

    def __init__(self, url: str, *, size: int = 8) -> None:
        self._url = url
        self._size = size
        self._pool: ConnectionPool[Connection[Row]] | None = None
        self._async_pool: AsyncConnectionPool[AsyncConnection[Row]] | None = None
        self._opening = Lock()
        self._joined: ContextVar[AsyncConnection[Row] | None] = ContextVar("joined", default=None)

    def __repr__(self) -> str:
        return "Database(…)"

    def sibling(self, *, size: int) -> Database:
        """The same database by connections of its own, which nobody else waits for."""
        return Database(self._url, size=size)

    @property
    def url(self) -> str:
        """With the password in it: for connections of one's own, never for a log."""
        return self._url

    @contextmanager
    def transaction(self) -> Iterator[Connection[Row]]:
        """A connection in a transaction: committed at the end, rolled back on an exception."""
        with self._connections().connection() as connection, connection.transaction():
            yield connection

    def rows(self, statement: LiteralString, params: Params | None = None) -> list[Row]:
        """One statement, which is a transaction of its own and one round trip, from a thread."""
        with self._connections().connection() as connection:
            cursor = connection.execute(statement, params)
            return cursor.fetchall() if cursor.description else []

    def row(self, statement: LiteralString, params: Params | None = None) -> Row | None:
        rows = self.rows(statement, params)
        return rows[0] if rows else None

    @asynccontextmanager
    async def async_transaction(self) -> AsyncIterator[AsyncConnection[Row]]:
        """The same on the event loop; within `async_together` a part of its transaction."""
        joined = self._joined.get()
        if joined is not None:
            async with joined.transaction():
                yield joined
            return
        pool = await self._async_connections()
        async with pool.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def async_together(self) -> AsyncIterator[None]:
        """One transaction for all that the caller does on the event loop until the end of the block."""
        async with self.async_transaction() as connection:
            before = self._joined.set(connection)
            try:
                yield
            finally:
                self._joined.reset(before)

    async def async_rows(self, statement: LiteralString, params: Params | None = None) -> list[Row]:
        """One statement on the event loop, a transaction of its own unless within `async_together`."""
        joined = self._joined.get()
        if joined is not None:
            return await _fetch(joined, statement, params)
        pool = await self._async_connections()
        async with pool.connection() as connection:
            return await _fetch(connection, statement, params)

    async def async_row(self, statement: LiteralString, params: Params | None = None) -> Row | None:
        rows = await self.async_rows(statement, params)
        return rows[0] if rows else None

    def _connections(self) -> ConnectionPool[Connection[Row]]:
        with self._opening:
            if self._pool is None:
                self._pool = ConnectionPool(
                    self._url,
                    connection_class=Connection[Row],
                    kwargs={"row_factory": dict_row, "autocommit": True},
                    min_size=1,
                    max_size=self._size,
                    timeout=WAIT,
                    reconnect_timeout=RECONNECT,
                    check=_check,
                    open=True,
                )
            return self._pool

    async def _async_connections(self) -> AsyncConnectionPool[AsyncConnection[Row]]:
        """Opening twice does nothing, so whoever comes while it opens may just as well open it."""
        if self._async_pool is None:
            self._async_pool = AsyncConnectionPool(
                self._url,
                connection_class=AsyncConnection[Row],
                kwargs={"row_factory": dict_row, "autocommit": True},
                min_size=1,
                max_size=self._size,
                timeout=WAIT,
                reconnect_timeout=RECONNECT,
                check=_async_check,
                open=False,
            )
        if self._async_pool.closed:
            await self._async_pool.open(wait=False)
        return self._async_pool

    def close(self) -> None:
        """Close what is open; the next use opens it again."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    async def async_close(self) -> None:
        """The same on the event loop that has used it."""
        if self._async_pool is not None:
            await self._async_pool.close()
            self._async_pool = None


async def _fetch(connection: AsyncConnection[Row], statement: LiteralString, params: Params | None) -> list[Row]:
    cursor = await connection.execute(statement, params)
    return await cursor.fetchall() if cursor.description else []


def _check(connection: Connection[Any]) -> None:
    """Refuse a connection that the server has closed while it lay in the pool; the pool makes another."""
    if _has_ended(connection.fileno()):
        connection.close()
        raise OperationalError("the connection was closed while it was idle")


async def _async_check(connection: AsyncConnection[Any]) -> None:
    if _has_ended(connection.fileno()):
        await connection.close()
        raise OperationalError("the connection was closed while it was idle")


def _has_ended(socket: int) -> bool:
    """Told without asking the server: nothing is due on an idle connection, so one that can be read has ended."""
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))


def migrate(url: str) -> None:
    """Bring the schema to the newest revision; several processes may try at once, one does it."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).resolve().parent.parent / "migrations"))
    config.attributes["url"] = url
    command.upgrade(config, "head")
