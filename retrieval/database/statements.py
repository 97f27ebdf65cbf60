"""Connections of an event loop, and single statements on them with as little between as psycopg allows.

A request of the API is two or three short statements, and psycopg's pool and cursor cost five times what the statement
does. Here connections that are free are kept at hand, and a statement that comes again is prepared and sent through
`psycopg.pq`; values are adapted by psycopg as ever. The pool still makes, checks, replaces and ends the connections.
"""

from __future__ import annotations

import asyncio
import re
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from typing import Any, Final, Literal, LiteralString

from psycopg import AsyncConnection, OperationalError, errors
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.rows import DictRow
from psycopg_pool import AsyncConnectionPool

Params = dict[str, Any]
PlanMode = Literal["auto", "force_custom_plan", "force_generic_plan"]
ONCE: Final = "force_generic_plan"
"""One plan for all values, made when a statement is first executed."""

KEPT_SECONDS = 60.0
"""How long connections are kept at hand before the pool gets them back, to end those that it has too many of."""

PREPARED = 256
"""Statements that one connection keeps prepared; others are parsed each time."""

WORN = 8 * PREPARED
"""Statements after which a connection is replaced: those that were forgotten may still be there."""

LONGEST = 4096
"""Bytes of a statement that is kept: longer ones are filters with many keys, seldom the same ones again, of which the
server would hold megabytes each."""

PLANS_SECONDS = 60.0
"""How long a plan is kept that was made once for all values: one made while a table was small must not outlive its
growth by more."""

_NAMED = re.compile(r"%\((\w+)\)s|%%|%")
_DONE = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
_REPLANNED = (errors.InvalidSqlStatementName, errors.FeatureNotSupported)
"""A prepared statement is gone, since psycopg discards all after a rollback, or its tables have changed. It was not
executed: it is prepared and sent again."""


class LoopConnection(AsyncConnection[DictRow]):
    """A connection, and what is known of it once a statement was sent past psycopg's cursors."""

    line: _Line | None = None


class StatementPool:
    """What `Database` keeps for one event loop: connections of a pool, those free at hand, the last one used first."""

    def __init__(self, pool: AsyncConnectionPool[LoopConnection], usual: PlanMode) -> None:
        """`usual`: how the pool's connections plan."""
        self.pool = pool
        self._usual = usual
        self._free: list[LoopConnection] = []
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[LoopConnection]:
        """One to work with in psycopg's own way, until the end of the block."""
        taken = await self._take(self._usual)
        try:
            if taken.line is not None:
                await taken.line.leave()
            yield taken
        except BaseException:
            if taken.line is not None:
                taken.line.forget()
            raise
        finally:
            await self._give_back(taken)

    async def rows(self, statement: LiteralString, params: Params, *, plan_once: bool) -> list[DictRow]:
        """One statement, which is a transaction of its own. `plan_once`: as of `Database.async_rows`."""
        mode: PlanMode = ONCE if plan_once else self._usual
        taken = await self._take(mode)
        if taken.line is None:
            taken.line = _Line(taken, self._usual)
        try:
            return await taken.line.rows(statement, params, mode)
        finally:
            await self._give_back(taken)

    async def close(self) -> None:
        """End all connections."""
        if self._timer is not None:
            self._timer.cancel()
        await self._return_free()
        await self.pool.close()

    async def _take(self, mode: PlanMode) -> LoopConnection:
        """A free connection, if possible one that plans in this way, for to change it is a statement."""
        while self._free:
            fitting = (place for place, one in enumerate(self._free) if one.line is None or one.line.mode == mode)
            taken = self._free.pop(max(fitting, default=-1))
            if not taken.closed and not can_be_read(taken.fileno()):
                return taken
            if taken.line is not None:
                taken.line.rest()
            await taken.close()
            await self._hand_over(taken)
        self._waiting += 1
        try:
            return await self.pool.getconn()
        finally:
            self._waiting -= 1

    async def _give_back(self, taken: LoopConnection) -> None:
        if taken.line is not None and taken.line.is_worn():
            taken.line.rest()
            await taken.close()
        idle = not taken.closed and taken.pgconn.transaction_status == TransactionStatus.IDLE
        if self._waiting or not idle or self.pool.closed:
            await self._hand_over(taken)
            return
        self._free.append(taken)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(KEPT_SECONDS, lambda: loop.create_task(self._return_free()))

    async def _return_free(self) -> None:
        self._timer = None
        while self._free:
            await self._hand_over(self._free.pop(0))

    async def _hand_over(self, taken: LoopConnection) -> None:
        """To the pool, which tries what it is given and makes another for one that is closed."""
        if taken.line is not None:
            taken.line.rest()
        await self.pool.putconn(taken)


class _Line:
    """What is known of one connection: what is prepared on it, and who waits for its answer."""

    def __init__(self, connection: LoopConnection, usual: PlanMode) -> None:
        self._connection = connection
        self._usual = self.mode = usual
        self._pg = connection.pgconn
        self._adapt = Transformer(connection)
        self._prepared: dict[tuple[str, Any], bytes] = {}
        """By statement and types of its values."""
        self._number = 0
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[None] | None = None
        self._watched: int | None = None
        """The socket that the loop looks at for us."""
        self._replanned = self._loop.time()

    async def leave(self) -> None:
        """Leave the connection to psycopg as the pool made it."""
        if self.mode != self._usual:
            await self._plan(self._usual)
        self.rest()

    def rest(self) -> None:
        """Leave the socket to psycopg."""
        if self._watched is not None:
            self._loop.remove_reader(self._watched)
            self._watched = None

    def forget(self) -> None:
        """What was prepared may be gone: psycopg discards all after a rollback."""
        self._prepared.clear()

    def is_worn(self) -> bool:
        """Whether so much was prepared anew that the server may hold too much of it."""
        return self._number > WORN

    async def rows(self, statement: str, params: Params, mode: PlanMode) -> list[DictRow]:
        query, names = _numbered(statement) if len(statement) <= LONGEST else _numbered.__wrapped__(statement)
        adapt = self._adapt
        values = adapt.dump_sequence([params[name] for name in names], [PyFormat.AUTO] * len(names))
        types, formats = adapt.types, adapt.formats
        key = (statement, types or ())
        try:
            if self.mode != mode or (mode == ONCE and self._loop.time() - self._replanned > PLANS_SECONDS):
                await self._plan(mode)
            try:
                result = await self._ask(key, query, values, types, formats)
            except _REPLANNED:
                self._prepared.clear()
                result = await self._ask(key, query, values, types, formats)
        except errors.Error:
            if self._pg.status == ConnStatus.BAD:
                await self._give_up()
            raise
        except BaseException:
            await self._stop()
            raise
        if not result.nfields:
            return []
        columns = [(result.fname(place) or b"").decode() for place in range(result.nfields)]
        adapt.set_pgresult(result)
        return adapt.load_rows(0, result.ntuples, lambda row: dict(zip(columns, row, strict=True)))

    async def _plan(self, mode: PlanMode) -> None:
        """From now on in this way; plans that were made once are forgotten every PLANS_SECONDS."""
        self._pg.send_query(b"set plan_cache_mode = " + mode.encode())
        await self._result()
        self.mode = mode
        if self._loop.time() - self._replanned > PLANS_SECONDS:
            self._pg.send_query(b"discard plans")
            await self._result()
            self._replanned = self._loop.time()

    async def _ask(self, key: tuple[str, Any], query: bytes, values: Any, types: Any, formats: Any) -> Any:
        """Prepared, as long as there are not too many and it is not too long."""
        name = self._prepared.get(key)
        if name is None and len(self._prepared) < PREPARED and len(query) <= LONGEST:
            self._number += 1
            name = b"loop_%d" % self._number
            self._pg.send_prepare(name, query, types)
            await self._result()
            self._prepared[key] = name
        if name is None:
            self._pg.send_query_params(query, values, types, formats)
        else:
            self._pg.send_query_prepared(name, values, formats)
        return await self._result()

    async def _result(self) -> Any:
        """The result of what was sent; raises what PostgreSQL answers with."""
        pg = self._pg
        while pg.flush():
            await self._written()
        last = None
        while True:
            while pg.is_busy():
                await self._readable()
                pg.consume_input()
            result = pg.get_result()
            if result is None:
                break
            last = result
        if last is None or pg.status == ConnStatus.BAD:
            raise OperationalError("the connection is lost")
        if last.status not in _DONE:
            raise errors.error_from_result(last, encoding=self._connection.info.encoding)
        return last

    async def _readable(self) -> None:
        if self._watched is None:
            self._watched = self._pg.socket
            self._loop.add_reader(self._watched, self._on_readable)
        self._answer = self._loop.create_future()
        try:
            await self._answer
        finally:
            self._answer = None

    def _on_readable(self) -> None:
        if self._answer is None:
            self.rest()  # nothing is due, so it has ended; whoever takes it next sees that
        elif not self._answer.done():
            self._answer.set_result(None)

    async def _written(self) -> None:
        """Until more can be written, or what PostgreSQL already says is read, which may be what it waits for."""
        self._loop.add_writer(self._pg.socket, self._on_readable)
        try:
            await self._readable()
        finally:
            self._loop.remove_writer(self._pg.socket)
        self._pg.consume_input()

    async def _stop(self) -> None:
        """Whoever asked has been cancelled: the statement ends, too, and the connection, whose answer nobody reads."""
        self.rest()
        with suppress(Exception):
            await asyncio.shield(self._connection.cancel_safe(timeout=2))
        await self._give_up()

    async def _give_up(self) -> None:
        self.rest()
        await self._connection.close()


@lru_cache(1024)
def _numbered(statement: str) -> tuple[bytes, tuple[str, ...]]:
    """`%(name)s` as `$1`, as PostgreSQL has it, and the names in their order."""
    names: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        name = found.group(1)
        if name is None:
            if found.group() == "%":
                raise ValueError("a % that is no parameter is written %%")
            return "%"
        return f"${names.setdefault(name, len(names) + 1)}"

    return _NAMED.sub(number, statement).encode(), tuple(names)


def can_be_read(socket: int) -> bool:
    """Nothing is due on an idle connection, so one that can be read has ended."""
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))
