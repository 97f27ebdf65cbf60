"""PostgreSQL: two pools, one for the API's event loop and one for threads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any, LiteralString, TypeVar

import structlog
from psycopg import AsyncConnection, Connection, OperationalError, errors
from psycopg.rows import BaseRowFactory, DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolClosed, PoolTimeout

from retrieval.database import half_vectors, json_numbers, statement_budget, tcp_keepalive
from retrieval.database.pools import Pools, View
from retrieval.database.rows import Params, row_factory
from retrieval.database.sessions import PLANS, ThreadConnection
from retrieval.database.statement_budget import LIMITS, as_milliseconds
from retrieval.database.statements import LATE_SECONDS, ONCE, LoopConnection, PlanMode, StatementPool, can_be_read

half_vectors.register_adapters()
json_numbers.register_adapters()

Row = DictRow
T = TypeVar("T")
_NONE: Mapping[str, str] = {}
WAIT = 5.0
"""Seconds a request waits for a connection before it is told that the service is unavailable."""

RECONNECT = 1.0
"""Seconds for which a pool retries a lost connection by itself; after that each request tries anew, so that the service
is back as soon as the database is, and not at the end of an ever longer pause."""

AWAY = (
    OperationalError,
    errors.IdleInTransactionSessionTimeout,
    errors.ReadOnlySqlTransaction,
    PoolTimeout,
    PoolClosed,
)
"""What psycopg raises while the database is away or only reads, as a standby does, or has ended what took too long."""

HELD = (errors.LockNotAvailable, errors.QueryCanceled, errors.DeadlockDetected)
"""What it raises where rows are held by another, or a limit of ours has ended a statement."""

log = structlog.get_logger()


UNLIMITED: LiteralString = (
    "select set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true)"
)
"""For the rest of a transaction that is known to be long."""
_SETTINGS: LiteralString = """
    select set_config('lock_timeout', %(lock)s, false), set_config('statement_timeout', %(statement)s, false),
           set_config('idle_in_transaction_session_timeout', %(idle)s, false),
           set_config('plan_cache_mode', 'force_custom_plan', false)
"""
"""A plan that was made while a table was small must not outlive its growth."""


_AS_VIEWER: LiteralString = (
    "select set_config('role', 'retrieval_viewer', false), set_config('search_path', 'viewer, public', false)"
)
"""The role by which documents are read for a user: it owns nothing, so that the policies of the tables hold for it. Its
`documents` is a view, which shows the state of the visible version."""


class Database:
    """Connections to one PostgreSQL. Both pools open on first use, so a process pays for what it uses.

    role: whose `LIMITS` its connections have; none if absent.
    """

    def __init__(self, url: str, *, size: int = 8, role: str | None = None, view: View | None = None) -> None:
        self._url = url
        self._size = size
        self._role = role
        self._limits = LIMITS[role] if role else None
        self._name = f"retrieval {role}" if role else "retrieval"
        self._usual: PlanMode = "force_custom_plan" if role else "auto"
        self._view = view
        self._viewing = view.settings if view is not None else _NONE
        self._pools = view.pools if view is not None else Pools()
        self._of_viewers = view.pools if view is not None else Pools()
        self._joined, self._joined_here = self._pools.joined, self._pools.joined_here
        self._opening = self._pools.opening

    def __repr__(self) -> str:
        return "Database(…)"

    def sibling(self, *, size: int, role: str) -> Database:
        """Return a database with a separate pool, whose users do not compete for connections with this one's."""
        return Database(self._url, size=size, role=role)

    def viewed(self, settings: Mapping[str, str]) -> Database:
        """Return the database as a user sees it: a role with row-level security reads these settings. It has its own
        connections."""
        return Database(self._url, size=self._size, role=self._role, view=View(settings, self._of_viewers))

    @property
    def is_viewed(self) -> bool:
        """Tell whether row-level security limits the rows to those of a user."""
        return self._view is not None

    @property
    def url(self) -> str:
        """With the password in it: for connections of one's own, never for a log."""
        return self._url

    @contextmanager
    def transaction(self) -> Iterator[ThreadConnection]:
        """A connection in a transaction: committed at the end, rolled back on an exception; within `together` a part
        of its transaction."""
        joined = self._joined_here.get()
        if joined is not None:
            with joined.transaction():
                yield joined
            return
        with self._connection() as connection, connection.transaction():
            yield connection

    @contextmanager
    def tuned(self, settings: Mapping[str, str] = _NONE, *, plan_once: bool = True) -> Iterator[ThreadConnection]:
        """Connection with session settings that do not affect others; each statement is its own transaction. Within
        `together` it joins that transaction.

        plan_once: statements are planned once for all values. For those that find rows by keys, whose plan is always
        the same; prepare them.
        """
        session_settings = {**settings, PLANS: ONCE if plan_once else self._usual}
        joined = self._joined_here.get()
        if joined is not None:
            with joined.transaction():
                joined.choose_here(session_settings)
                yield joined
            return
        with self._taken() as connection:
            connection.choose(session_settings)
            yield connection

    @contextmanager
    def together(self) -> Iterator[None]:
        """One transaction for all that this thread does until the end of the block."""
        with self.transaction() as connection:
            token = self._joined_here.set(connection)
            try:
                yield
            finally:
                self._joined_here.reset(token)

    def execute(self, statement: LiteralString, params: Params | None = None) -> int:
        """Execute one statement and return the number of its rows; see `rows`."""
        with self._statement() as connection:
            return connection.execute(statement, params).rowcount

    def fetch(self, row_type: type[T], statement: LiteralString, params: Params | None = None) -> list[T]:
        """Return the rows of one statement as instances of a class (`retrieval.database.rows`)."""
        with self._statement() as connection:
            return connection.fetch(row_type, statement, params)

    def fetch_one(self, row_type: type[T], statement: LiteralString, params: Params | None = None) -> T | None:
        """Return the first row of one statement."""
        with self._statement() as connection:
            return connection.fetch_one(row_type, statement, params)

    def rows(self, statement: LiteralString, params: Params | None = None) -> list[Row]:
        """Return the rows of one statement as dictionaries, a transaction of its own unless within `together`."""
        with self._statement() as connection:
            cursor = connection.execute(statement, params)
            return cursor.fetchall() if cursor.description else []

    def row(self, statement: LiteralString, params: Params | None = None) -> Row | None:
        rows = self.rows(statement, params)
        return rows[0] if rows else None

    @asynccontextmanager
    async def async_transaction(self) -> AsyncIterator[LoopConnection]:
        """Async form of `transaction`; within `async_together` it joins that transaction."""
        joined = self._joined.get()
        if joined is not None:
            async with joined.transaction():
                yield joined
            return
        pool = await self._async_connections()
        async with pool.connection(self._viewing) as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def async_together(self) -> AsyncIterator[None]:
        """One transaction for all that the caller does on the event loop until the end of the block."""
        async with self.async_transaction() as connection:
            token = self._joined.set(connection)
            try:
                yield
            finally:
                self._joined.reset(token)

    async def async_execute(
        self, statement: LiteralString, params: Params | None = None, *, plan_once: bool = False
    ) -> None:
        """Execute one statement and discard its rows."""
        await self._async_fetch(dict_row, statement, params, plan_once=plan_once)

    async def async_fetch(
        self, row_type: type[T], statement: LiteralString, params: Params | None = None, *, plan_once: bool = False
    ) -> list[T]:
        """Return the rows of one statement as instances of a class (`retrieval.database.rows`).

        A transaction of its own unless within `async_together`.

        plan_once: not planned for its values each time, which takes longer than to find a few rows by their keys.
        """
        return await self._async_fetch(row_factory(row_type), statement, params, plan_once=plan_once)

    async def async_fetch_one(
        self, row_type: type[T], statement: LiteralString, params: Params | None = None, *, plan_once: bool = False
    ) -> T | None:
        """Return the first row of one statement."""
        rows = await self._async_fetch(row_factory(row_type), statement, params, plan_once=plan_once)
        return rows[0] if rows else None

    async def async_rows(
        self, statement: LiteralString, params: Params | None = None, *, plan_once: bool = False
    ) -> list[Row]:
        """Return the rows of one statement as dictionaries; `async_fetch` is typed."""
        return await self._async_fetch(dict_row, statement, params, plan_once=plan_once)

    async def async_row(
        self, statement: LiteralString, params: Params | None = None, *, plan_once: bool = False
    ) -> Row | None:
        rows = await self.async_rows(statement, params, plan_once=plan_once)
        return rows[0] if rows else None

    async def _async_fetch(
        self, factory: BaseRowFactory[T], statement: LiteralString, params: Params | None, *, plan_once: bool
    ) -> list[T]:
        joined = self._joined.get()
        if joined is not None:
            return await joined.rows(factory, statement, params)
        pool = await self._async_connections()
        return await pool.rows(factory, statement, params, plan_once=plan_once, viewing=self._viewing)

    @contextmanager
    def _statement(self) -> Iterator[ThreadConnection]:
        """A connection for one statement: that of `together`, or one of the pool."""
        joined = self._joined_here.get()
        if joined is not None:
            yield joined
            return
        with self._connection() as connection:
            yield connection

    @contextmanager
    def _connection(self) -> Iterator[ThreadConnection]:
        with self._taken() as connection:
            connection.usual(self._usual)
            yield connection

    @contextmanager
    def _taken(self) -> Iterator[ThreadConnection]:
        """A connection of the pool, for as long as the reader may take (`limits`)."""
        bound = statement_budget.current_bound()
        usual = str(round(self._limits.statement * 1000)) if self._limits else "0"
        with self._connections().connection() as connection:
            connection.end_after(bound.milliseconds if bound else usual, usual)
            connection.view(self._viewing)
            with bound() if bound else nullcontext():
                yield connection

    def _connections(self) -> ConnectionPool[ThreadConnection]:
        with self._opening:
            if self._pools.threads is None:
                self._pools.threads = ConnectionPool(
                    self._url,
                    connection_class=ThreadConnection,
                    kwargs=self._options(),
                    min_size=1,
                    max_size=self._size,
                    timeout=WAIT,
                    reconnect_timeout=RECONNECT,
                    check=_check,
                    configure=self._configure,
                    open=True,
                )
            return self._pools.threads

    async def _async_connections(self) -> StatementPool:
        """Return the pool of the event loop, opened on first use; opening twice is harmless."""
        statements = self._pools.loop
        if statements is None:
            statements = self._pools.loop = StatementPool(
                AsyncConnectionPool(
                    self._url,
                    connection_class=LoopConnection,
                    kwargs=self._options(),
                    min_size=1,
                    max_size=self._size,
                    timeout=WAIT,
                    reconnect_timeout=RECONNECT,
                    check=_async_check,
                    configure=self._async_configure,
                    open=False,
                ),
                usual=self._usual,
            )
        if statements.pool.closed:
            await statements.pool.open(wait=False)
        return statements

    def _options(self) -> dict[str, Any]:
        return {
            "row_factory": dict_row,
            "autocommit": True,
            "application_name": self._name,
            **tcp_keepalive.connection_options(self._url),
        }

    def _configure(self, connection: ThreadConnection) -> None:
        if self._view is not None:
            connection.execute(_AS_VIEWER)
        if self._limits:
            connection.seconds = self._limits.statement + LATE_SECONDS
            connection.execute(_SETTINGS, as_milliseconds(self._limits))

    async def _async_configure(self, connection: LoopConnection) -> None:
        if self._view is not None:
            await connection.execute(_AS_VIEWER)
        if self._limits:
            connection.seconds = self._limits.statement + LATE_SECONDS
            await connection.execute(_SETTINGS, as_milliseconds(self._limits))

    def pool_waits(self) -> int:
        """Return how many requests found no free connection since the last call."""
        waits = 0
        for pools in (self._pools, self._of_viewers):
            threads = pools.threads.pop_stats() if pools.threads is not None else {}
            loops = pools.loop.pool.pop_stats() if pools.loop is not None else {}
            waits += threads.get("requests_queued", 0) + loops.get("requests_queued", 0)
        return waits

    def close(self) -> None:
        """Close what is open; the next use opens it again."""
        for pools in (self._pools, self._of_viewers):
            if pools.threads is not None:
                pools.threads.close()
                pools.threads = None

    async def async_close(self) -> None:
        """Close the pool of the event loop, on that loop."""
        for pools in (self._pools, self._of_viewers):
            if pools.loop is not None:
                await pools.loop.close()
                pools.loop = None


@contextmanager
def passing_over(event: str, **what: object) -> Iterator[None]:
    """Leave the block where its rows are held by another, and say so: it is taken up again later."""
    try:
        yield
    except HELD as error:
        log.warning(event, reason=type(error).__name__, **what)


def _check(connection: Connection[Any]) -> None:
    """Refuse a connection that the server has closed while it lay in the pool; the pool makes another."""
    if can_be_read(connection.fileno()):
        connection.close()
        raise OperationalError("the connection was closed while it was idle")


async def _async_check(connection: AsyncConnection[Any]) -> None:
    if can_be_read(connection.fileno()):
        await connection.close()
        raise OperationalError("the connection was closed while it was idle")
