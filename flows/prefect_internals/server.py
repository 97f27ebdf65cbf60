"""Prefect's own server within this process: its application wrapped, its SQLite transactions begun IMMEDIATE, and its
background tasks looked for once a second."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from prefect.server.api import background_workers, server
from prefect.server.database.configurations import AioSqliteConfiguration

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession, AsyncSessionTransaction

_begin = AioSqliteConfiguration.begin_transaction
_create = server.create_app
_worker = background_workers.Worker  # type: ignore[attr-defined]

LOOK: Final = timedelta(seconds=1)
"""Between two looks for background tasks that are due: Prefect's own services, every five seconds and more, and marks
that flow runs do not wait for. Its default of a quarter is half of what an idle server uses."""


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
    """For background tasks; those of other processes stay as they are."""
    background_workers.Worker = partial(  # type: ignore[attr-defined, assignment]
        _worker, minimum_check_interval=LOOK, scheduling_resolution=LOOK
    )


def run_command_line() -> None:
    """Prefect's own command line, with the arguments of this process."""
    from prefect.cli import app

    app()
