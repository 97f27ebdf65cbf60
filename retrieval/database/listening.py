"""A connection that waits for notices and does nothing meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen

from retrieval.database import tcp_keepalive

R = TypeVar("R")

LOOK_SECONDS: Final = 60.0
LISTEN_SECONDS: Final = 10.0
"""Silence after which the connection is checked."""


class Listening(psycopg.AsyncConnection[Any]):
    """Connection that waits for notices without psycopg's ten wake-ups a second, which asyncio does not need."""

    async def wait(self, gen: PQGen[R], interval: float = LOOK_SECONDS, timeout: float | None = None) -> R:  # noqa: ASYNC109
        return await super().wait(gen, interval, timeout)


async def connect_listener(url: str, **options: Any) -> Listening:
    """Open a connection in autocommit mode."""
    return await Listening.connect(url, autocommit=True, **tcp_keepalive.connection_options(url), **options)


async def listen_for_notices(
    url: str,
    channel: str,
    wake: Callable[[], None],
    *,
    name: str | None = None,
    alive: Callable[[], None] = lambda: None,
) -> None:
    """Call `wake` at once and for each notice of the channel, and `alive` after each check of the connection."""
    async with await connect_listener(url, application_name=name) as connection:
        await connection.execute("listen " + channel)
        wake()
        while True:
            async for _ in connection.notifies(timeout=LISTEN_SECONDS):
                wake()
            await connection.execute("select 1")
            alive()
