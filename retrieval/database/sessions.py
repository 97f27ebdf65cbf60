"""Connections of threads that remember what they are set to, so that a statement need not say it each time.

`set local` wants a transaction around it: begin, setting, statement and commit are four round trips, each of which
costs as much as to find a few rows. What a connection is set to for its session is set again only where the next user
of the connection wants something else.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import LiteralString, TypeVar

from psycopg import Connection, sql
from psycopg.abc import PQGen
from psycopg.rows import DictRow

from retrieval.database.rows import Params, row_factory
from retrieval.database.statements import LOOK_SECONDS, ONCE, PLANS_SECONDS

R = TypeVar("R")
T = TypeVar("T")

PLANS = "plan_cache_mode"
SCANS = "enable_seqscan"
BY_INDEX: Mapping[str, str] = MappingProxyType({SCANS: "off"})
"""For statements that find rows by keys and are planned once: by the indexes, even where the tables were small then."""
STATEMENT = "statement_timeout"


class ThreadConnection(Connection[DictRow]):
    """One of a thread's pool. `chosen`: settings of the session that were made since the pool made it.

    `seconds`: a wait for PostgreSQL ends with OperationalError after so long without an answer.
    """

    chosen: Mapping[str, str] = MappingProxyType({})
    seconds: float | None = None
    _replanned = 0.0

    def wait(self, gen: PQGen[R], interval: float = LOOK_SECONDS, timeout: float | None = None) -> R:
        """Wait for an answer; a connection that gets none in time is in the midst of it and cannot be used again."""
        return super().wait(gen, interval, self.seconds if timeout is None else timeout)

    def fetch(
        self,
        row_type: type[T],
        statement: LiteralString,
        params: Params | None = None,
        *,
        prepare: bool | None = None,
        binary: bool = False,
    ) -> list[T]:
        """Return the rows of a statement as instances of a class. `prepare`, `binary`: as of psycopg's `execute`."""
        with self.cursor(row_factory=row_factory(row_type), binary=binary) as cursor:
            return cursor.execute(statement, params, prepare=prepare).fetchall()

    def fetch_one(
        self, row_type: type[T], statement: LiteralString, params: Params | None = None, *, prepare: bool | None = None
    ) -> T | None:
        """Return the first row."""
        rows = self.fetch(row_type, statement, params, prepare=prepare)
        return rows[0] if rows else None

    def choose(self, settings: Mapping[str, str]) -> None:
        """Apply these settings to the session; cached plans are discarded every `PLANS_SECONDS`, as tables grow."""
        if self.chosen.get(SCANS, "on") != "on":
            settings = {SCANS: "on", **settings}
        missing = {name: value for name, value in settings.items() if self.chosen.get(name) != value}
        if missing:
            self.execute(_set("session", tuple(missing.items())), prepare=False)
            self.chosen = {**self.chosen, **missing}
        if settings.get(PLANS) != ONCE:
            return
        moment = time.monotonic()
        if self._replanned and moment - self._replanned > PLANS_SECONDS:
            self.execute("discard plans")
            self._replanned = 0.0
        self._replanned = self._replanned or moment

    def view(self, settings: Mapping[str, str]) -> None:
        """Show from now on what the policies of the tables show for these settings."""
        missing = {name: value for name, value in settings.items() if self.chosen.get(name) != value}
        if missing:
            # Whether they are set is not known if the statement is interrupted.
            self.chosen = {name: value for name, value in self.chosen.items() if name not in missing}
            self.execute(_set("session", tuple(missing.items())), prepare=False)
            self.chosen = {**self.chosen, **missing}

    def usual(self, plans: str) -> None:
        """Plan as the pool made it."""
        if self.chosen.get(PLANS, plans) != plans or self.chosen.get(SCANS, "on") != "on":
            self.choose({PLANS: plans})

    def end_after(self, milliseconds: str, usual: str) -> None:
        """Set the time limit of each following statement. `usual`: the limit that the pool has set."""
        if self.chosen.get(STATEMENT, usual) != milliseconds:
            self.choose({STATEMENT: milliseconds})

    def choose_here(self, settings: Mapping[str, str]) -> None:
        """Until the end of the transaction that is open."""
        self.execute(_set("local", tuple(settings.items())), prepare=False)


@lru_cache(maxsize=256)
def _set(until: LiteralString, settings: tuple[tuple[str, str], ...]) -> bytes:
    """One text for all: half of the time of `set_config` with values."""
    statement = sql.SQL(f"set {until} {{}} = {{}}")
    parts = (statement.format(sql.Identifier(*name.split(".")), sql.Literal(value)) for name, value in settings)
    return sql.SQL("; ").join(parts).as_bytes(None)
