"""The connections of a `Database`, and those of a user's view of it."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock

from psycopg_pool import ConnectionPool

from retrieval.database.sessions import ThreadConnection
from retrieval.database.statements import LoopConnection, StatementPool


@dataclass(slots=True)
class Pools:
    """Connections of threads and of an event loop, opened on first use, and those that hold a transaction together."""

    threads: ConnectionPool[ThreadConnection] | None = None
    loop: StatementPool | None = None
    joined: ContextVar[LoopConnection | None] = field(default_factory=lambda: ContextVar("joined", default=None))
    joined_here: ContextVar[ThreadConnection | None] = field(
        default_factory=lambda: ContextVar("joined_here", default=None)
    )
    opening: Lock = field(default_factory=Lock)


@dataclass(frozen=True, slots=True)
class View:
    """View of a database: settings that its policies read, and connections of their role."""

    settings: Mapping[str, str]
    pools: Pools
