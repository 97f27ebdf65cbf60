"""Secrets of the installation itself, such as the pepper of API keys: made once, kept sealed in the database."""

from __future__ import annotations

import os

from retrieval.database.database import Database
from retrieval.security.secrets import KeyRing

PEPPER = "api-key-pepper"


def server_secret(db: Database, keys: KeyRing, name: str) -> bytes:
    """32 random bytes under this name, the same for every process; SecretError if the key ring does not open them."""
    row = db.row("select sealed from server_secrets where name = %(name)s", {"name": name})
    if row is None:
        fresh = keys.seal(os.urandom(32), row=row_name(name))
        row = db.row(
            "insert into server_secrets (name, sealed) values (%(name)s, %(sealed)s)"
            " on conflict (name) do update set name = excluded.name returning sealed",
            {"name": name, "sealed": fresh},
        )
    if row is None:
        raise RuntimeError("insert … returning gave no row")
    return keys.open(row["sealed"], row=row_name(name))


def row_name(name: str) -> str:
    """Under which name it is sealed."""
    return f"server_secrets/{name}"
