"""Connection that waits for notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen

from retrieval.database import tcp_keepalive

ResultT = TypeVar("ResultT")

POLL_SECONDS: Final = 60.0
# Silence before a check of the connection.
LISTEN_SECONDS: Final = 10.0


class ListenerConnection(psycopg.AsyncConnection[Any]):
    """Connection without psycopg's ten wake-ups per second."""

    async def wait(self, gen: PQGen[ResultT], interval: float = POLL_SECONDS, timeout: float | None = None) -> ResultT:  # noqa: ASYNC109
        return await super().wait(gen, interval, timeout)


async def connect_listener(url: str, **options: Any) -> ListenerConnection:
    """Open a connection in autocommit mode."""
    return await ListenerConnection.connect(url, autocommit=True, **tcp_keepalive.connection_options(url), **options)


async def listen_for_notices(
    url: str,
    channel: str,
    wake: Callable[[], None],
    *,
    name: str | None = None,
    alive: Callable[[], None] = lambda: None,
) -> None:
    """Call `wake` at once and per notice, and `alive` per check of the connection."""
    async with await connect_listener(url, application_name=name) as connection:
        await connection.execute("listen " + channel)
        wake()
        while True:
            async for _ in connection.notifies(timeout=LISTEN_SECONDS):
                wake()
            await connection.execute("select 1")
            alive()
