"""Prefect's own server within this process: its application wrapped, its SQLite transactions begun IMMEDIATE."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from prefect.server.api import server
from prefect.server.database.configurations import AioSqliteConfiguration

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession, AsyncSessionTransaction

_begin = AioSqliteConfiguration.begin_transaction
_create = server.create_app


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


def run_command_line() -> None:
    """Prefect's own command line, with the arguments of this process."""
    from prefect.cli import app

    app()
