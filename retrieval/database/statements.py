"""Connections of an event loop with a deadline per statement."""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final, Literal, LiteralString, TypeVar

from psycopg import AsyncConnection, errors
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg.rows import BaseRowFactory, DictRow
from psycopg_pool import AsyncConnectionPool

from retrieval.database.rows import Params, row_factory

ResultT = TypeVar("ResultT")
RowT = TypeVar("RowT")
PlanMode = Literal["auto", "force_custom_plan", "force_generic_plan"]
# One plan for all values, made at the first execution.
GENERIC_PLAN: Final = "force_generic_plan"

# Idle connections return to the pool after this time, so that the pool can shrink.
IDLE_SECONDS = 60.0

# Prepared statements per connection, least recently used first out.
MAX_PREPARED: Final = 256

# Longer statements are filters with many keys, rarely repeated, and would take megabytes each on the server.
MAX_PREPARED_BYTES: Final = 4096

# A generic plan must not outlive the growth of a small table.
PLANS_SECONDS = 60.0

# Deadline of statements by key, above the API's limit for lock waits.
KEYED_SECONDS = 15.0

# Grace after PostgreSQL's own limit, for a server that does not respond.
LATE_SECONDS = 5.0

# Poll interval of deadlines, as in psycopg.
POLL_SECONDS: Final = 0.1


_UNKNOWN_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


class LoopConnection(AsyncConnection[DictRow]):
    """Connection with a deadline: OperationalError after `seconds` without response."""

    seconds: float | None = None
    # Last mode set by `set_plan_mode`.
    plan_mode: PlanMode | None = None
    # Last settings set by `set_viewer`.
    viewer_settings: Mapping[str, str] = _UNKNOWN_SETTINGS
    _replanned = 0.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.prepared_max = MAX_PREPARED

    async def wait(self, gen: PQGen[ResultT], interval: float = POLL_SECONDS, timeout: float | None = None) -> ResultT:  # noqa: ASYNC109
        """Wait for a response. After a timeout the connection is unusable."""
        return await super().wait(gen, interval, self.seconds if timeout is None else timeout)

    async def set_plan_mode(self, mode: PlanMode) -> None:
        """Set the plan mode; generic plans are discarded every `PLANS_SECONDS`."""
        moment = asyncio.get_running_loop().time()
        if self.plan_mode != mode:
            await self.execute(_SET_STATEMENTS[mode], prepare=False)
            self.plan_mode = mode
        if mode == GENERIC_PLAN and moment - self._replanned > PLANS_SECONDS:
            if self._replanned:
                await self.execute("discard plans", prepare=False)
            self._replanned = moment

    async def set_viewer(self, settings: Mapping[str, str]) -> None:
        """Set the settings read by row-level security."""
        if self.viewer_settings != settings:
            names = ", ".join(f"set_config('{name}', %({name})s, false)" for name in settings)
            self.viewer_settings = _UNKNOWN_SETTINGS  # a cancelled request may have set them
            await self.execute(f"select {names}".encode(), settings)
            self.viewer_settings = settings

    async def async_execute(self, statement: LiteralString, params: Params | None = None) -> None:
        await self.execute(statement, params)

    async def async_fetch(
        self, row_type: type[RowT], statement: LiteralString, params: Params | None = None
    ) -> list[RowT]:
        """Return rows as instances of a class."""
        return await self.rows(row_factory(row_type), statement, params)

    async def async_fetch_one(
        self, row_type: type[RowT], statement: LiteralString, params: Params | None = None
    ) -> RowT | None:
        rows = await self.async_fetch(row_type, statement, params)
        return rows[0] if rows else None

    async def rows(
        self,
        factory: BaseRowFactory[RowT],
        statement: LiteralString,
        params: Params | None,
        *,
        prepare: bool | None = None,
    ) -> list[RowT]:
        """Execute a statement and fetch its rows."""
        async with self.cursor(row_factory=factory) as cursor:
            await cursor.execute(statement, params, prepare=prepare)
            return await cursor.fetchall() if cursor.description else []

    async def prepared_rows(
        self, factory: BaseRowFactory[RowT], statement: LiteralString, params: Params | None
    ) -> list[RowT]:
        """Execute a statement outside a transaction, prepared unless long."""
        prepare = params is not None and len(statement) <= MAX_PREPARED_BYTES
        try:
            return await self.rows(factory, statement, params, prepare=prepare)
        except errors.FeatureNotSupported:
            # The tables changed after the preparation; the statement was not executed.
            await self.execute("deallocate all", prepare=False)
            return await self.rows(factory, statement, params, prepare=prepare)


_SET_STATEMENTS: Final[dict[PlanMode, LiteralString]] = {
    "auto": "set plan_cache_mode = auto",
    "force_custom_plan": "set plan_cache_mode = force_custom_plan",
    "force_generic_plan": "set plan_cache_mode = force_generic_plan",
}


class StatementPool:
    """Connections of an event loop, most recently used first."""

    # psycopg's pool needs as long to lend a connection as a short statement takes, so free connections are cached here
    # by plan mode.
    def __init__(self, pool: AsyncConnectionPool[LoopConnection], default_mode: PlanMode) -> None:
        self.pool = pool
        self._default_mode = default_mode
        self._free: list[LoopConnection] = []
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def connection(self, viewer_settings: Mapping[str, str]) -> AsyncIterator[LoopConnection]:
        """Lend a connection for several statements."""
        async with self._lent(self._default_mode) as connection:
            await connection.set_viewer(viewer_settings)
            yield connection

    async def rows(
        self,
        factory: BaseRowFactory[RowT],
        statement: LiteralString,
        params: Params | None,
        *,
        plan_once: bool,
        viewer_settings: Mapping[str, str],
    ) -> list[RowT]:
        """Execute a statement in its own transaction."""
        async with self._lent(GENERIC_PLAN if plan_once else self._default_mode) as connection:
            await connection.set_viewer(viewer_settings)
            return await connection.prepared_rows(factory, statement, params)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._return_free()
        await self.pool.close()

    @asynccontextmanager
    async def _lent(self, mode: PlanMode) -> AsyncIterator[LoopConnection]:
        connection = await self._take(mode)
        limit = connection.seconds
        if mode == GENERIC_PLAN:
            connection.seconds = KEYED_SECONDS
        try:
            if connection.plan_mode != mode or mode == GENERIC_PLAN:
                await connection.set_plan_mode(mode)
            yield connection
        finally:
            connection.seconds = limit
            await self._give_back(connection)

    async def _take(self, mode: PlanMode) -> LoopConnection:
        """Take a free connection, preferably with the same plan mode."""
        while self._free:
            fitting = (index for index, free in enumerate(self._free) if free.plan_mode == mode)
            connection = self._free.pop(max(fitting, default=-1))
            if not connection.closed and not is_readable(connection.fileno()):
                return connection
            await connection.close()
            await self.pool.putconn(connection)
        self._waiting += 1
        try:
            connection = await self.pool.getconn()
        finally:
            self._waiting -= 1
        connection.plan_mode = connection.plan_mode or self._default_mode
        return connection

    async def _give_back(self, connection: LoopConnection) -> None:
        """Cache the connection, or return a closed or busy one to the pool."""
        idle = not connection.closed and connection.pgconn.transaction_status == TransactionStatus.IDLE
        if self._waiting or not idle or self.pool.closed:
            await self.pool.putconn(connection)
            return
        self._free.append(connection)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(IDLE_SECONDS, lambda: loop.create_task(self._return_free()))

    async def _return_free(self) -> None:
        self._timer = None
        while self._free:
            await self.pool.putconn(self._free.pop(0))


def is_readable(socket: int) -> bool:
    """Check an idle connection for readable data, as after a close by the server."""
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))
