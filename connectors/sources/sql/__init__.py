"""Rows of PostgreSQL and MySQL, by a query of the connection."""

from __future__ import annotations

from connectors.info import ConnectorInfo

INFO = ConnectorInfo(
    title="SQL",
    account="A query to a database",
    documents="Rows of PostgreSQL or MySQL",
    example="postgresql://db.example.com/handbook",
    credentials=frozenset({"user", "password"}),
)
