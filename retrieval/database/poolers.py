"""Recognise a pooler that gives connections of one client to others between two transactions.

Roles and settings of a connection decide what its statements see here, so they must not reach another client's.
"""

from __future__ import annotations

import psycopg

TURNS = 3


class SharedSessions(ValueError):
    """The database is behind a pooler whose sessions are shared."""

    def __init__(self) -> None:
        super().__init__(
            "RETRIEVAL_DATABASE_URL leads to a pooler that shares sessions between clients, such as PgBouncer in"
            " transaction mode: name PostgreSQL itself there, or a database of the pooler with pool_mode=session."
        )


def require_own_sessions(url: str) -> None:
    """Raise SharedSessions behind such a pooler; psycopg.Error if the database is away."""
    with psycopg.connect(url, autocommit=True) as first, psycopg.connect(url, autocommit=True) as second:
        process = _backend(first)
        for _ in range(TURNS):
            try:
                with second.transaction():
                    if _backend(second) == process or _backend(first) != process:
                        raise SharedSessions
            except psycopg.errors.ProtocolViolation as error:  # statement pooling has no transactions
                raise SharedSessions from error


def _backend(connection: psycopg.Connection) -> object:
    return connection.execute("select pg_backend_pid()", prepare=False).fetchone()
