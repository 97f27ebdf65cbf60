"""Prefect's own server within this process: its application wrapped, its SQLite transactions begun IMMEDIATE, and what
it looks for again and again while nothing is asked of it looked for less often."""

from __future__ import annotations

import asyncio
import importlib
import queue
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from prefect.server.api import background_workers, server
from prefect.server.database.configurations import AioSqliteConfiguration
from prefect.server.utilities import worker_channel_cleanup

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession, AsyncSessionTransaction

_begin = AioSqliteConfiguration.begin_transaction
_create = server.create_app
_worker = background_workers.Worker  # type: ignore[attr-defined]

LOOK: Final = timedelta(seconds=3)
"""Between two looks for background tasks that are due: Prefect's own services, every 15 seconds and more, and marks for
which flow runs do not wait. Its default of a quarter is half of what an idle server uses."""
PARKED_SECONDS: Final = 1.0
"""How long a thread waits for a message of one part of the server to another; it ends at most so much later."""
CLEANUP_SECONDS: Final = 10.0
"""Between two looks for what workers are to clean up; of what comes, they hear at once."""


@asynccontextmanager
async def _begin_immediate(
    self: AioSqliteConfiguration,
    session: AsyncSession,
    with_for_update: bool = False,  # noqa: ARG001, FBT001, FBT002  (Prefect's signature)
) -> AsyncGenerator[AsyncSessionTransaction, None]:
    async with _begin(self, session, with_for_update=True) as transaction:
        yield transaction


def begin_transactions_immediately() -> None:
    """From now on every transaction on SQLite waits for the one before it; those on PostgreSQL stay as they are."""
    AioSqliteConfiguration.begin_transaction = _begin_immediate  # type: ignore[method-assign]


def wrap_application(wrap: Callable[[Any], Any]) -> None:
    """The application that listens becomes `wrap(application)`. Others of the process speak to theirs in memory."""

    def create_app(*, final: bool = False, **options: Any) -> Any:
        app = _create(final=final, **options)
        return wrap(app) if final else app

    server.create_app = create_app  # type: ignore[assignment]


def look_rarely() -> None:
    """For background tasks, messages between the server's own parts, and what workers are to clean up.

    Messages come through a queue in this process, which wakes whoever waits; without one, Prefect's libraries begin to
    wait anew ten times a second, each time with a thread.
    """
    background_workers.Worker = partial(  # type: ignore[attr-defined, assignment]
        _worker, minimum_check_interval=LOOK, scheduling_resolution=LOOK
    )
    worker_channel_cleanup._WORKER_CHANNEL_CLEANUP_DISPATCH_POLL_SECONDS = CLEANUP_SECONDS  # noqa: SLF001
    messages: Any = importlib.import_module("burner_redis.pubsub").PubSub
    at_once = messages._queue_get  # noqa: SLF001

    async def get(self: Any, timeout: float | None) -> Any:  # noqa: ASYNC109  (the library's signature)
        if timeout == 0.0:
            return await at_once(self, timeout)
        while True:
            try:
                return await asyncio.to_thread(self._queue.get, True, PARKED_SECONDS)  # noqa: FBT003
            except queue.Empty:
                if timeout is not None:
                    return None

    messages._queue_get = get  # noqa: SLF001


def run_command_line() -> None:
    """Prefect's own command line, with the arguments of this process."""
    from prefect.cli import app

    app()
