"""What one reader may cost: the time that all its statements together may take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from psycopg import errors


@dataclass(slots=True)
class Bound:
    """Seconds that are left of those given."""

    left: float
    given: float

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """What is done inside counts. QueryCanceled, as of a statement that took too long, if nothing is left."""
        if self.left <= 0:
            raise errors.QueryCanceled("The time for all statements of this reader is up.")
        began = time.monotonic()
        try:
            yield
        finally:
            self.left -= time.monotonic() - began

    @property
    def milliseconds(self) -> str:
        """Of one statement."""
        return str(max(1, round(self.given * 1000)))


_bound: ContextVar[Bound | None] = ContextVar("bound", default=None)


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """What this thread asks of the database inside takes so long in all, about: QueryCanceled after that.

    One statement may take as long, so that it is twice that at most.
    """
    token = _bound.set(Bound(seconds, seconds))
    try:
        yield
    finally:
        _bound.reset(token)


def current() -> Bound | None:
    """That of the block that this thread is in."""
    return _bound.get()
