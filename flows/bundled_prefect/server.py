"""Prefect's server on its own SQLite file, for one machine: the stock command, with transactions that queue.

Prefect begins most transactions DEFERRED. On SQLite two of them that read and then write refuse each other at once
("database is locked"), which the server answers with 503 and its clients repeat after two seconds or more. Begun
IMMEDIATE they wait for each other for some milliseconds instead. With PostgreSQL nothing changes. What listens answers
under its own address alone (`flows/bundled_prefect/own_address.py`).

    python -m flows.bundled_prefect.server server start --host 127.0.0.1 --port 4200
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from prefect.server.api import server
from prefect.server.database.configurations import AioSqliteConfiguration

from flows.bundled_prefect.own_address import OwnAddress

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


def _create_app(*, final: bool = False, **options: Any) -> Any:
    """Prefect's application; `final` for the one that listens. Others of the process speak to theirs in memory."""
    app = _create(final=final, **options)
    return OwnAddress(app) if final else app


def main() -> None:
    """Prefect's own command line."""
    AioSqliteConfiguration.begin_transaction = _begin_immediate  # type: ignore[method-assign]
    server.create_app = _create_app  # type: ignore[assignment]
    from prefect.cli import app

    app()


if __name__ == "__main__":
    main()
