"""A connection that waits for notices and does nothing meanwhile."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen

from retrieval.database import lost_hosts

R = TypeVar("R")

LOOK_SECONDS: Final = 60.0


class Listening(psycopg.AsyncConnection[Any]):
    """psycopg would look up ten times a second, for interruptions that asyncio tells of by itself."""

    async def wait(self, gen: PQGen[R], interval: float = LOOK_SECONDS, timeout: float | None = None) -> R:  # noqa: ASYNC109
        return await super().wait(gen, interval, timeout)


async def connect(url: str, **options: Any) -> Listening:
    """Each statement stands for itself."""
    return await Listening.connect(url, autocommit=True, **lost_hosts.options(url), **options)
