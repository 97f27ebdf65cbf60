"""PostgreSQL with separate connection pools for the event loop and for threads."""

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
from retrieval.database.sessions import PLAN_MODE, ThreadConnection
from retrieval.database.statement_budget import ROLE_LIMITS, as_milliseconds
from retrieval.database.statements import (
    GENERIC_PLAN,
    LATE_SECONDS,
    LoopConnection,
    PlanMode,
    StatementPool,
    is_readable,
)

half_vectors.register_adapters()
json_numbers.register_adapters()

Row = DictRow
RowT = TypeVar("RowT")
_NO_SETTINGS: Mapping[str, str] = {}
# Settings of the policies, in each view.
_NOTHING_VISIBLE: Mapping[str, str] = {"app.partition": "", "app.names": ""}
# Seconds to wait for a connection before the service reports itself unavailable.
WAIT_SECONDS = 5.0

# Seconds of a pool's own retries; then each request tries anew, so that the service is back as soon as the database is.
RECONNECT_SECONDS = 1.0

# Errors of an unreachable or read-only database (a standby), or of exceeded limits.
UNAVAILABLE_ERRORS = (
    OperationalError,
    errors.IdleInTransactionSessionTimeout,
    errors.ReadOnlySqlTransaction,
    PoolTimeout,
    PoolClosed,
)

# Errors of rows locked by another transaction, or of our limits.
LOCK_ERRORS = (errors.LockNotAvailable, errors.QueryCanceled, errors.DeadlockDetected)

log = structlog.get_logger()


# For the rest of a long transaction.
UNLIMITED_TRANSACTION: LiteralString = (
    "select set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true)"
)
# A plan of a small table must not outlive the table's growth.
_SESSION_SETTINGS: LiteralString = """
    select set_config('lock_timeout', %(lock)s, false), set_config('statement_timeout', %(statement)s, false),
           set_config('idle_in_transaction_session_timeout', %(idle)s, false),
           set_config('plan_cache_mode', 'force_custom_plan', false)
"""


# The role owns nothing, so row-level security applies; its `documents` view shows the visible version.
_AS_VIEWER: LiteralString = (
    "select set_config('role', 'retrieval_viewer', false), set_config('search_path', 'viewer, public', false)"
)


class Database:
    """Connections to PostgreSQL, opened on first use, with the limits of a role."""

    def __init__(self, url: str, *, size: int = 8, role: str | None = None, view: View | None = None) -> None:
        self._url = url
        self._size = size
        self._role = role
        self._limits = ROLE_LIMITS[role] if role else None
        self._name = f"retrieval {role}" if role else "retrieval"
        self._default_mode: PlanMode = "force_custom_plan" if role else "auto"
        self._view = view
        self._viewer_settings = view.settings if view is not None else _NO_SETTINGS
        self._pools = view.pools if view is not None else Pools()
        self._viewer_pools = view.pools if view is not None else Pools()
        self._loop_transaction, self._thread_transaction = self._pools.loop_transaction, self._pools.thread_transaction
        self._opening = self._pools.opening

    def __repr__(self) -> str:
        return "Database(…)"

    def sibling(self, *, size: int, role: str) -> Database:
        """Return a database with separate pools."""
        return Database(self._url, size=size, role=role)

    def viewed(self, settings: Mapping[str, str]) -> Database:
        """Return the database under row-level security for a user's settings, with separate connections."""
        complete_settings = {**_NOTHING_VISIBLE, **settings}  # a connection keeps those of the viewer before
        return Database(self._url, size=self._size, role=self._role, view=View(complete_settings, self._viewer_pools))

    @property
    def is_viewed(self) -> bool:
        """Return True under row-level security."""
        return self._view is not None

    @property
    def url(self) -> str:
        """Connection URL with the password."""
        return self._url

    @contextmanager
    def transaction(self) -> Iterator[ThreadConnection]:
        """Open a transaction, or a savepoint within `together`."""
        joined = self._thread_transaction.get()
        if joined is not None:
            with joined.transaction():
                yield joined
            return
        with self._connection() as connection, connection.transaction():
            yield connection

    @contextmanager
    def tuned(
        self, settings: Mapping[str, str] = _NO_SETTINGS, *, plan_once: bool = True
    ) -> Iterator[ThreadConnection]:
        """Yield a connection with session settings; each statement commits by itself."""
        # `plan_once` suits prepared statements by key, with the same plan for all values.
        session_settings = {**settings, PLAN_MODE: GENERIC_PLAN if plan_once else self._default_mode}
        joined = self._thread_transaction.get()
        if joined is not None:
            with joined.transaction():
                joined.apply_local_settings(session_settings)
                yield joined
            return
        with self._lend_connection() as connection:
            connection.apply_settings(session_settings)
            yield connection

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run all statements of this thread in one transaction until the end of the block."""
        with self.transaction() as connection:
            token = self._thread_transaction.set(connection)
            try:
                yield
            finally:
                self._thread_transaction.reset(token)

    def execute(self, statement: LiteralString, params: Params | None = None) -> int:
        """Execute a statement and return the number of rows."""
        with self._statement() as connection:
            return connection.execute(statement, params).rowcount

    def fetch(self, row_type: type[RowT], statement: LiteralString, params: Params | None = None) -> list[RowT]:
        """Return rows as instances of a class (`retrieval.database.rows`)."""
        with self._statement() as connection:
            return connection.fetch(row_type, statement, params)

    def fetch_one(self, row_type: type[RowT], statement: LiteralString, params: Params | None = None) -> RowT | None:
        with self._statement() as connection:
            return connection.fetch_one(row_type, statement, params)

    def rows(self, statement: LiteralString, params: Params | None = None) -> list[Row]:
        """Return rows as dictionaries."""
        with self._statement() as connection:
            cursor = connection.execute(statement, params)
            return cursor.fetchall() if cursor.description else []

    def row(self, statement: LiteralString, params: Params | None = None) -> Row | None:
        rows = self.rows(statement, params)
        return rows[0] if rows else None

    @asynccontextmanager
    async def async_transaction(self) -> AsyncIterator[LoopConnection]:
        """Open a transaction, or a savepoint within `async_together`."""
        joined = self._loop_transaction.get()
        if joined is not None:
            async with joined.transaction():
                yield joined
            return
        pool = await self._async_connections()
        async with pool.connection(self._viewer_settings) as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def async_together(self) -> AsyncIterator[None]:
        """Run all statements of the caller in one transaction until the end of the block."""
        async with self.async_transaction() as connection:
            token = self._loop_transaction.set(connection)
            try:
                yield
            finally:
                self._loop_transaction.reset(token)

    async def async_execute(
        self, statement: LiteralString, params: Params | None = None, *, plan_once: bool = False
    ) -> None:
        """Execute a statement."""
        await self._async_fetch(dict_row, statement, params, plan_once=plan_once)

    async def async_fetch(
        self, row_type: type[RowT], statement: LiteralString, params: Params | None = None, *, plan_once: bool = False
    ) -> list[RowT]:
        """Return rows as instances of a class (`retrieval.database.rows`)."""
        # `plan_once` saves the planning per call, longer than the lookup of a few rows by key.
        return await self._async_fetch(row_factory(row_type), statement, params, plan_once=plan_once)

    async def async_fetch_one(
        self, row_type: type[RowT], statement: LiteralString, params: Params | None = None, *, plan_once: bool = False
    ) -> RowT | None:
        rows = await self._async_fetch(row_factory(row_type), statement, params, plan_once=plan_once)
        return rows[0] if rows else None

    async def async_rows(
        self, statement: LiteralString, params: Params | None = None, *, plan_once: bool = False
    ) -> list[Row]:
        """Return rows as dictionaries."""
        return await self._async_fetch(dict_row, statement, params, plan_once=plan_once)

    async def async_row(
        self, statement: LiteralString, params: Params | None = None, *, plan_once: bool = False
    ) -> Row | None:
        rows = await self.async_rows(statement, params, plan_once=plan_once)
        return rows[0] if rows else None

    async def _async_fetch(
        self, factory: BaseRowFactory[RowT], statement: LiteralString, params: Params | None, *, plan_once: bool
    ) -> list[RowT]:
        joined = self._loop_transaction.get()
        if joined is not None:
            return await joined.rows(factory, statement, params)
        pool = await self._async_connections()
        return await pool.rows(factory, statement, params, plan_once=plan_once, viewer_settings=self._viewer_settings)

    @contextmanager
    def _statement(self) -> Iterator[ThreadConnection]:
        joined = self._thread_transaction.get()
        if joined is not None:
            yield joined
            return
        with self._connection() as connection:
            yield connection

    @contextmanager
    def _connection(self) -> Iterator[ThreadConnection]:
        with self._lend_connection() as connection:
            connection.reset_plans(self._default_mode)
            yield connection

    @contextmanager
    def _lend_connection(self) -> Iterator[ThreadConnection]:
        """Yield a pooled connection with the time limit of the reader."""
        budget = statement_budget.current_budget()
        default_timeout = str(round(self._limits.statement * 1000)) if self._limits else "0"
        with self._connections().connection() as connection:
            connection.set_timeout(budget.milliseconds if budget else default_timeout, default_timeout)
            connection.set_viewer(self._viewer_settings)
            with budget() if budget else nullcontext():
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
                    timeout=WAIT_SECONDS,
                    reconnect_timeout=RECONNECT_SECONDS,
                    check=_check_connection,
                    configure=self._configure,
                    open=True,
                )
            return self._pools.threads

    async def _async_connections(self) -> StatementPool:
        # Opening twice is harmless.
        statements = self._pools.loop
        if statements is None:
            statements = self._pools.loop = StatementPool(
                AsyncConnectionPool(
                    self._url,
                    connection_class=LoopConnection,
                    kwargs=self._options(),
                    min_size=1,
                    max_size=self._size,
                    timeout=WAIT_SECONDS,
                    reconnect_timeout=RECONNECT_SECONDS,
                    check=_async_check_connection,
                    configure=self._async_configure,
                    open=False,
                ),
                default_mode=self._default_mode,
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
            connection.execute(_SESSION_SETTINGS, as_milliseconds(self._limits))

    async def _async_configure(self, connection: LoopConnection) -> None:
        if self._view is not None:
            await connection.execute(_AS_VIEWER)
        if self._limits:
            connection.seconds = self._limits.statement + LATE_SECONDS
            await connection.execute(_SESSION_SETTINGS, as_milliseconds(self._limits))

    def pool_waits(self) -> int:
        """Return the number of requests without a free connection since the last call."""
        waits = 0
        for pools in (self._pools, self._viewer_pools):
            threads = pools.threads.pop_stats() if pools.threads is not None else {}
            loops = pools.loop.pool.pop_stats() if pools.loop is not None else {}
            waits += threads.get("requests_queued", 0) + loops.get("requests_queued", 0)
        return waits

    def close(self) -> None:
        """Close the pool of threads; the next use opens a new one."""
        for pools in (self._pools, self._viewer_pools):
            if pools.threads is not None:
                pools.threads.close()
                pools.threads = None

    async def async_close(self) -> None:
        """Close the pool of the event loop."""
        for pools in (self._pools, self._viewer_pools):
            if pools.loop is not None:
                await pools.loop.close()
                pools.loop = None


@contextmanager
def skip_locked(event: str, **fields: object) -> Iterator[None]:
    """Log and leave the block if its rows are locked; the caller retries later."""
    try:
        yield
    except LOCK_ERRORS as error:
        log.warning(event, reason=type(error).__name__, **fields)


def _check_connection(connection: Connection[Any]) -> None:
    """Close a connection lost in the pool; the pool opens another."""
    if is_readable(connection.fileno()):
        connection.close()
        raise OperationalError("the connection was closed while it was idle")


async def _async_check_connection(connection: AsyncConnection[Any]) -> None:
    if is_readable(connection.fileno()):
        await connection.close()
        raise OperationalError("the connection was closed while it was idle")
