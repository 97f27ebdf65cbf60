"""Time limits of PostgreSQL: per role for each statement, and per request for all its statements."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass

from psycopg import errors


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds after which PostgreSQL ends what a connection does. Whatever is ended so is tried again later.

    `lock`: waiting for one lock. `statement`: one statement, its waiting included. `idle`: doing nothing within a
    transaction, as a process does that was stopped.
    """

    lock: float
    statement: float
    idle: float


LIMITS: Mapping[str, Limits] = {
    "api": Limits(lock=10, statement=60, idle=60),
    "dispatcher": Limits(lock=1, statement=20, idle=20),
    "sweep": Limits(lock=5, statement=60, idle=60),
    "heartbeat": Limits(lock=5, statement=10, idle=10),
    "worker": Limits(lock=60, statement=600, idle=300),
    "metrics": Limits(lock=2, statement=20, idle=20),
}
"""By role. Whoever has none (migrations, index builds, the command line) may take as long as it takes."""


def as_milliseconds(limits: Limits) -> dict[str, str]:
    """The limits as PostgreSQL takes them."""
    return {name: str(round(seconds * 1000)) for name, seconds in asdict(limits).items()}


@dataclass(slots=True)
class Bound:
    """Seconds that are left of those given."""

    left: float
    given: float

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Charge the time of the block to the budget. QueryCanceled if the budget is used up."""
        if self.left <= 0:
            raise errors.QueryCanceled("The time for all statements of this reader is up.")
        began = time.monotonic()
        try:
            yield
        finally:
            self.left -= time.monotonic() - began

    @property
    def milliseconds(self) -> str:
        """Limit of one statement, as PostgreSQL takes it."""
        return str(max(1, round(self.given * 1000)))


_bound: ContextVar[Bound | None] = ContextVar("bound", default=None)


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Limit the total time of this thread's statements in the block: QueryCanceled when it is used up.

    A single statement has the same limit, so the total is at most twice that.
    """
    token = _bound.set(Bound(seconds, seconds))
    try:
        yield
    finally:
        _bound.reset(token)


def current_bound() -> Bound | None:
    """That of the block that this thread is in."""
    return _bound.get()
