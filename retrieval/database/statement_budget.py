"""Time limits of PostgreSQL, per role and per request."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass

from psycopg import errors


@dataclass(frozen=True, slots=True)
class StatementLimits:
    """Limits in seconds. Ended work is retried later."""

    # Wait for a single lock.
    lock: float
    # A statement with its waits.
    statement: float
    # Inactivity within a transaction, as of a stopped process.
    idle: float


# Roles without limits (migrations, index builds, command line) may take any time.
ROLE_LIMITS: Mapping[str, StatementLimits] = {
    "api": StatementLimits(lock=10, statement=60, idle=60),
    "dispatcher": StatementLimits(lock=1, statement=20, idle=20),
    "sweep": StatementLimits(lock=5, statement=60, idle=60),
    "heartbeat": StatementLimits(lock=5, statement=10, idle=10),
    "worker": StatementLimits(lock=60, statement=600, idle=300),
    "metrics": StatementLimits(lock=2, statement=20, idle=20),
}


def as_milliseconds(limits: StatementLimits) -> dict[str, str]:
    """Return the limits as PostgreSQL settings."""
    return {name: str(round(seconds * 1000)) for name, seconds in asdict(limits).items()}


@dataclass(slots=True)
class TimeBudget:
    """Remaining and total seconds of a budget."""

    remaining: float
    total: float

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Charge the block's time to the budget. Raises QueryCanceled without remaining time."""
        if self.remaining <= 0:
            raise errors.QueryCanceled("The time for all statements of this reader is up.")
        began = time.monotonic()
        try:
            yield
        finally:
            self.remaining -= time.monotonic() - began

    @property
    def milliseconds(self) -> str:
        """Return the limit of a statement as a PostgreSQL setting."""
        return str(max(1, round(self.total * 1000)))


_budget: ContextVar[TimeBudget | None] = ContextVar("bound", default=None)


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Limit the total time of the thread's statements in the block. Raises QueryCanceled."""
    # A single statement has the same limit, so the total is at most twice as long.
    token = _budget.set(TimeBudget(seconds, seconds))
    try:
        yield
    finally:
        _budget.reset(token)


def current_budget() -> TimeBudget | None:
    """Return the budget of the current block."""
    return _budget.get()
