"""PostgreSQL: two pools, one for the API's event loop and one for threads, and the migration to the newest schema."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, LiteralString

from psycopg import AsyncConnection, Connection, OperationalError
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolClosed, PoolTimeout

Row = DictRow
Params = dict[str, Any]
WAIT = 5.0
"""Seconds a request waits for a connection before it is told that the service is unavailable."""

AWAY = (OperationalError, PoolTimeout, PoolClosed)
"""What psycopg raises while the database is away."""


class Database:
    """Connections to one PostgreSQL. Both pools open on first use, so a process pays for what it uses."""

    def __init__(self, url: str, *, size: int = 8) -> None:
        self._url = url
        self._size = size
        self._pool: ConnectionPool[Connection[Row]] | None = None
        self._async_pool: AsyncConnectionPool[AsyncConnection[Row]] | None = None

    def __repr__(self) -> str:
        return "Database(…)"

    @property
    def url(self) -> str:
        """With the password in it: for connections of one's own, never for a log."""
        return self._url

    @contextmanager
    def transaction(self) -> Iterator[Connection[Row]]:
        """A connection in a transaction: committed at the end, rolled back on an exception."""
        if self._pool is None:
            self._pool = ConnectionPool(
                self._url,
                connection_class=Connection[Row],
                kwargs={"row_factory": dict_row},
                min_size=1,
                max_size=self._size,
                timeout=WAIT,
                open=True,
                check=None,
            )
        with self._pool.connection() as connection:
            yield connection

    def rows(self, statement: LiteralString, params: Params | None = None) -> list[Row]:
        """One statement in a transaction of its own, from a thread."""
        with self.transaction() as connection:
            cursor = connection.execute(statement, params)
            return cursor.fetchall() if cursor.description else []

    def row(self, statement: LiteralString, params: Params | None = None) -> Row | None:
        rows = self.rows(statement, params)
        return rows[0] if rows else None

    @asynccontextmanager
    async def async_transaction(self) -> AsyncIterator[AsyncConnection[Row]]:
        """The same on the event loop."""
        if self._async_pool is None:
            self._async_pool = AsyncConnectionPool(
                self._url,
                connection_class=AsyncConnection[Row],
                kwargs={"row_factory": dict_row},
                min_size=1,
                max_size=self._size,
                timeout=WAIT,
                open=False,
            )
            await self._async_pool.open(wait=False)
        async with self._async_pool.connection() as connection:
            yield connection

    async def async_rows(self, statement: LiteralString, params: Params | None = None) -> list[Row]:
        async with self.async_transaction() as connection:
            cursor = await connection.execute(statement, params)
            return await cursor.fetchall() if cursor.description else []

    async def async_row(self, statement: LiteralString, params: Params | None = None) -> Row | None:
        rows = await self.async_rows(statement, params)
        return rows[0] if rows else None

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


def migrate(url: str) -> None:
    """Bring the schema to the newest revision; several processes may try at once, one does it."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).resolve().parent.parent / "migrations"))
    config.attributes["url"] = url
    command.upgrade(config, "head")
