"""Connections of an event loop, each statement on them with a deadline.

A request of the API is two or three short statements, and psycopg's pool needs as long to hand out and take back a
connection as one of them takes. Free connections are therefore cached by plan mode, and repeated statements are
prepared. The pool still opens, checks, replaces and closes the connections.
"""

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

R = TypeVar("R")
T = TypeVar("T")
PlanMode = Literal["auto", "force_custom_plan", "force_generic_plan"]
ONCE: Final = "force_generic_plan"
"""One plan for all values, made when a statement is first executed."""

KEPT_SECONDS = 60.0
"""How long connections are kept at hand before the pool gets them back, to end those that it has too many of."""

PREPARED: Final = 256
"""Statements that one connection keeps prepared; those used longest ago are forgotten."""

LONGEST: Final = 4096
"""Bytes of a statement that is prepared: longer ones are filters with many keys, seldom the same ones again, of which
the server would hold megabytes each."""

PLANS_SECONDS = 60.0
"""How long a plan is kept that was made once for all values: one made while a table was small must not outlive its
growth by more."""

KEYED_SECONDS = 15.0
"""Deadline of a statement that finds a few rows by their keys: longer than the API's limit for waiting for a lock."""

LATE_SECONDS = 5.0
"""How much later than PostgreSQL's own limit a wait for its answer ends, for a server that does not keep its limits."""

LOOK_SECONDS: Final = 0.1
"""How often a wait looks at its deadline, as in psycopg."""


_UNKNOWN: Final[Mapping[str, str]] = MappingProxyType({})


class LoopConnection(AsyncConnection[DictRow]):
    """A connection whose waits for PostgreSQL end: OperationalError after `seconds` without an answer."""

    seconds: float | None = None
    plans: PlanMode | None = None
    """How it plans, once that was set by `plan`."""
    viewing: Mapping[str, str] = _UNKNOWN
    """What the policies of the tables show rows for, once that was set by `view`."""
    _replanned = 0.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.prepared_max = PREPARED

    async def wait(self, gen: PQGen[R], interval: float = LOOK_SECONDS, timeout: float | None = None) -> R:  # noqa: ASYNC109
        """Wait for an answer; a connection that gets none in time is in the midst of it and cannot be used again."""
        return await super().wait(gen, interval, self.seconds if timeout is None else timeout)

    async def plan(self, mode: PlanMode) -> None:
        """Plan in this way from now on; plans that were made once are forgotten every `PLANS_SECONDS`."""
        moment = asyncio.get_running_loop().time()
        if self.plans != mode:
            await self.execute(_SET[mode], prepare=False)
            self.plans = mode
        if mode == ONCE and moment - self._replanned > PLANS_SECONDS:
            if self._replanned:
                await self.execute("discard plans", prepare=False)
            self._replanned = moment

    async def view(self, settings: Mapping[str, str]) -> None:
        """Show from now on what the policies of the tables show for these settings."""
        if self.viewing != settings:
            names = ", ".join(f"set_config('{name}', %({name})s, false)" for name in settings)
            self.viewing = _UNKNOWN  # a request that is cancelled now may have set them
            await self.execute(f"select {names}".encode(), settings)
            self.viewing = settings

    async def async_execute(self, statement: LiteralString, params: Params | None = None) -> None:
        """Execute a statement and discard its rows."""
        await self.execute(statement, params)

    async def async_fetch(self, row_type: type[T], statement: LiteralString, params: Params | None = None) -> list[T]:
        """Return the rows of a statement as instances of a class."""
        return await self.rows(row_factory(row_type), statement, params)

    async def async_fetch_one(
        self, row_type: type[T], statement: LiteralString, params: Params | None = None
    ) -> T | None:
        """Return the first row."""
        rows = await self.async_fetch(row_type, statement, params)
        return rows[0] if rows else None

    async def rows(
        self,
        factory: BaseRowFactory[T],
        statement: LiteralString,
        params: Params | None,
        *,
        prepare: bool | None = None,
    ) -> list[T]:
        """Execute one statement and fetch what it answers. `prepare`: as of psycopg's `execute`."""
        async with self.cursor(row_factory=factory) as cursor:
            await cursor.execute(statement, params, prepare=prepare)
            return await cursor.fetchall() if cursor.description else []

    async def prepared_rows(
        self, factory: BaseRowFactory[T], statement: LiteralString, params: Params | None
    ) -> list[T]:
        """Execute one statement outside a transaction, prepared unless it is long."""
        prepare = params is not None and len(statement) <= LONGEST
        try:
            return await self.rows(factory, statement, params, prepare=prepare)
        except errors.FeatureNotSupported:
            # Its tables have changed since it was prepared, so that it was not executed.
            await self.execute("deallocate all", prepare=False)
            return await self.rows(factory, statement, params, prepare=prepare)


_SET: Final[dict[PlanMode, LiteralString]] = {
    "auto": "set plan_cache_mode = auto",
    "force_custom_plan": "set plan_cache_mode = force_custom_plan",
    "force_generic_plan": "set plan_cache_mode = force_generic_plan",
}


class StatementPool:
    """Connections that `Database` keeps for one event loop; the most recently used free one is reused first."""

    def __init__(self, pool: AsyncConnectionPool[LoopConnection], usual: PlanMode) -> None:
        """`usual`: how the pool's connections plan."""
        self.pool = pool
        self._usual = usual
        self._free: list[LoopConnection] = []
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def connection(self, viewing: Mapping[str, str]) -> AsyncIterator[LoopConnection]:
        """Lend a connection for work in several statements, until the end of the block."""
        async with self._lent(self._usual) as connection:
            await connection.view(viewing)
            yield connection

    async def rows(
        self,
        factory: BaseRowFactory[T],
        statement: LiteralString,
        params: Params | None,
        *,
        plan_once: bool,
        viewing: Mapping[str, str],
    ) -> list[T]:
        """Execute one statement, which is a transaction of its own. `plan_once`: as of `Database.async_rows`.

        `viewing`: settings that the policies of the tables read.
        """
        async with self._lent(ONCE if plan_once else self._usual) as connection:
            await connection.view(viewing)
            return await connection.prepared_rows(factory, statement, params)

    async def close(self) -> None:
        """End all connections."""
        if self._timer is not None:
            self._timer.cancel()
        await self._return_free()
        await self.pool.close()

    @asynccontextmanager
    async def _lent(self, mode: PlanMode) -> AsyncIterator[LoopConnection]:
        connection = await self._take(mode)
        limit = connection.seconds
        if mode == ONCE:
            connection.seconds = KEYED_SECONDS
        try:
            if connection.plans != mode or mode == ONCE:
                await connection.plan(mode)
            yield connection
        finally:
            connection.seconds = limit
            await self._give_back(connection)

    async def _take(self, mode: PlanMode) -> LoopConnection:
        """Take a free connection, if possible one that plans in this way, for to change it is a statement."""
        while self._free:
            fitting = (index for index, free in enumerate(self._free) if free.plans == mode)
            connection = self._free.pop(max(fitting, default=-1))
            if not connection.closed and not can_be_read(connection.fileno()):
                return connection
            await connection.close()
            await self.pool.putconn(connection)
        self._waiting += 1
        try:
            connection = await self.pool.getconn()
        finally:
            self._waiting -= 1
        connection.plans = connection.plans or self._usual
        return connection

    async def _give_back(self, connection: LoopConnection) -> None:
        """Keep it at hand, or hand it to the pool, which makes another for one that is closed or not idle."""
        idle = not connection.closed and connection.pgconn.transaction_status == TransactionStatus.IDLE
        if self._waiting or not idle or self.pool.closed:
            await self.pool.putconn(connection)
            return
        self._free.append(connection)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(KEPT_SECONDS, lambda: loop.create_task(self._return_free()))

    async def _return_free(self) -> None:
        self._timer = None
        while self._free:
            await self.pool.putconn(self._free.pop(0))


def can_be_read(socket: int) -> bool:
    """Tell whether an idle connection is readable, which means that it was closed: no data is due on it."""
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))
