"""Pools of a `Database` and of its views for users."""

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
    """Pools of threads and event loop, opened on first use, and the joined transactions."""

    threads: ConnectionPool[ThreadConnection] | None = None
    loop: StatementPool | None = None
    loop_transaction: ContextVar[LoopConnection | None] = field(
        default_factory=lambda: ContextVar("joined", default=None)
    )
    thread_transaction: ContextVar[ThreadConnection | None] = field(
        default_factory=lambda: ContextVar("joined_here", default=None)
    )
    opening: Lock = field(default_factory=Lock)


@dataclass(frozen=True, slots=True)
class View:
    """Settings read by row-level security, with connections of the viewer role."""

    settings: Mapping[str, str]
    pools: Pools
