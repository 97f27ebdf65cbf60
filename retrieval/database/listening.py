"""A connection that waits for notices and does nothing meanwhile."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen

from retrieval.database import tcp_keepalive

R = TypeVar("R")

LOOK_SECONDS: Final = 60.0


class Listening(psycopg.AsyncConnection[Any]):
    """Connection that waits for notices without psycopg's ten wake-ups a second, which asyncio does not need."""

    async def wait(self, gen: PQGen[R], interval: float = LOOK_SECONDS, timeout: float | None = None) -> R:  # noqa: ASYNC109
        return await super().wait(gen, interval, timeout)


async def connect_listener(url: str, **options: Any) -> Listening:
    """Open a connection in autocommit mode."""
    return await Listening.connect(url, autocommit=True, **tcp_keepalive.connection_options(url), **options)
