"""Connections of threads with cached session settings."""

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
from retrieval.database.statements import GENERIC_PLAN, PLANS_SECONDS, POLL_SECONDS

ResultT = TypeVar("ResultT")
RowT = TypeVar("RowT")

PLAN_MODE = "plan_cache_mode"
SEQUENTIAL_SCANS = "enable_seqscan"
# Statements by key with a generic plan use indexes, even if planned on small tables.
INDEX_SCANS_ONLY: Mapping[str, str] = MappingProxyType({SEQUENTIAL_SCANS: "off"})
STATEMENT_TIMEOUT = "statement_timeout"


class ThreadConnection(Connection[DictRow]):
    """Pooled connection of a thread; `settings_applied` holds its session settings."""

    # `set local` needs four round trips (begin, setting, statement, commit), each as slow as a lookup, so session
    # settings are changed only on difference.
    settings_applied: Mapping[str, str] = MappingProxyType({})
    seconds: float | None = None
    _replanned = 0.0

    def wait(self, gen: PQGen[ResultT], interval: float = POLL_SECONDS, timeout: float | None = None) -> ResultT:
        """Wait for a response. After a timeout the connection is unusable."""
        return super().wait(gen, interval, self.seconds if timeout is None else timeout)

    def fetch(
        self,
        row_type: type[RowT],
        statement: LiteralString,
        params: Params | None = None,
        *,
        prepare: bool | None = None,
        binary: bool = False,
    ) -> list[RowT]:
        """Return rows as instances of a class."""
        with self.cursor(row_factory=row_factory(row_type), binary=binary) as cursor:
            return cursor.execute(statement, params, prepare=prepare).fetchall()

    def fetch_one(
        self,
        row_type: type[RowT],
        statement: LiteralString,
        params: Params | None = None,
        *,
        prepare: bool | None = None,
    ) -> RowT | None:
        rows = self.fetch(row_type, statement, params, prepare=prepare)
        return rows[0] if rows else None

    def apply_settings(self, settings: Mapping[str, str]) -> None:
        """Apply settings to the session; plans are discarded every `PLANS_SECONDS`."""
        if self.settings_applied.get(SEQUENTIAL_SCANS, "on") != "on":
            settings = {SEQUENTIAL_SCANS: "on", **settings}
        missing = {name: value for name, value in settings.items() if self.settings_applied.get(name) != value}
        if missing:
            self.execute(_format_settings("session", tuple(missing.items())), prepare=False)
            self.settings_applied = {**self.settings_applied, **missing}
        if settings.get(PLAN_MODE) != GENERIC_PLAN:
            return
        moment = time.monotonic()
        if self._replanned and moment - self._replanned > PLANS_SECONDS:
            self.execute("discard plans")
            self._replanned = 0.0
        self._replanned = self._replanned or moment

    def set_viewer(self, settings: Mapping[str, str]) -> None:
        """Set the settings read by row-level security."""
        missing = {name: value for name, value in settings.items() if self.settings_applied.get(name) != value}
        if missing:
            # An interrupted statement leaves the settings unknown.
            self.settings_applied = {
                name: value for name, value in self.settings_applied.items() if name not in missing
            }
            self.execute(_format_settings("session", tuple(missing.items())), prepare=False)
            self.settings_applied = {**self.settings_applied, **missing}

    def reset_plans(self, plans: str) -> None:
        """Restore the pool's plan mode."""
        if (
            self.settings_applied.get(PLAN_MODE, plans) != plans
            or self.settings_applied.get(SEQUENTIAL_SCANS, "on") != "on"
        ):
            self.apply_settings({PLAN_MODE: plans})

    def set_timeout(self, milliseconds: str, default: str) -> None:
        """Set the statement timeout; `default` is the pool's."""
        if self.settings_applied.get(STATEMENT_TIMEOUT, default) != milliseconds:
            self.apply_settings({STATEMENT_TIMEOUT: milliseconds})

    def apply_local_settings(self, settings: Mapping[str, str]) -> None:
        """Apply settings until the end of the transaction."""
        self.execute(_format_settings("local", tuple(settings.items())), prepare=False)


@lru_cache(maxsize=256)
def _format_settings(scope: LiteralString, settings: tuple[tuple[str, str], ...]) -> bytes:
    """Build the text of `set`, in half of the time of `set_config` with values."""
    statement = sql.SQL(f"set {scope} {{}} = {{}}")
    parts = (statement.format(sql.Identifier(*name.split(".")), sql.Literal(value)) for name, value in settings)
    return sql.SQL("; ").join(parts).as_bytes(None)
