"""Pool of connections to one server."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Semaphore
from typing import Final, Generic, TypeVar

# Connections of one process to a server; servers allow 10 to 15 of a user.
MAX_CONNECTIONS: Final = 4

ConnectionT = TypeVar("ConnectionT")


class Pool(Generic[ConnectionT]):
    """Pool of connections; `answers`: errors that keep a connection usable."""

    def __init__(
        self,
        connect: Callable[[], ConnectionT],
        close: Callable[[ConnectionT], object],
        answers: tuple[type[Exception], ...] = (),
    ) -> None:
        self._connect, self._close, self._answers = connect, close, answers
        self._free = Semaphore(MAX_CONNECTIONS)
        self._idle: list[ConnectionT] = []
        weakref.finalize(self, _close_all, self._idle, close)

    @contextmanager
    def lease(self) -> Iterator[ConnectionT]:
        """Lease a connection to this thread."""
        with self._free:
            connection = self._idle.pop() if self._idle else self._connect()
            try:
                yield connection
            except self._answers:
                self._idle.append(connection)
                raise
            # A failed connection is closed with all idle ones, which may be as old.
            except BaseException:
                self._idle.append(connection)
                _close_all(self._idle, self._close)
                raise
            self._idle.append(connection)


def _close_all(connections: list[ConnectionT], close: Callable[[ConnectionT], object]) -> None:
    while connections:
        with suppress(Exception):
            close(connections.pop())
