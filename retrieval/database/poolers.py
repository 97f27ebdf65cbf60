"""Detect poolers with shared sessions."""

from __future__ import annotations

import psycopg

MAX_TRANSACTIONS = 3


class SharedSessions(ValueError):
    """The database is behind a pooler with shared sessions."""

    # Roles and settings of a session decide visibility here, so they must not reach other clients.
    def __init__(self) -> None:
        super().__init__(
            "RETRIEVAL_DATABASE_URL leads to a pooler that shares sessions between clients, such as PgBouncer in"
            " transaction mode: name PostgreSQL itself there, or a database of the pooler with pool_mode=session."
        )


def require_own_sessions(url: str) -> None:
    """Raise SharedSessions behind a sharing pooler, psycopg.Error without a database."""
    with psycopg.connect(url, autocommit=True) as first, psycopg.connect(url, autocommit=True) as second:
        process = _backend(first)
        for _ in range(MAX_TRANSACTIONS):
            try:
                with second.transaction():
                    if _backend(second) == process or _backend(first) != process:
                        raise SharedSessions
            except psycopg.errors.ProtocolViolation as error:  # statement pooling has no transactions
                raise SharedSessions from error


def _backend(connection: psycopg.Connection) -> object:
    return connection.execute("select pg_backend_pid()", prepare=False).fetchone()
