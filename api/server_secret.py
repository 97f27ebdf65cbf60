"""A secret of the installation for handlers, read on first use and kept."""

from __future__ import annotations

import asyncio

from retrieval.database.database import Database
from retrieval.security import secrets
from retrieval.security.secrets import KeyRing


class ServerSecret:
    """The secret `name` of the vault, made if there is none yet."""

    def __init__(self, db: Database, ring: KeyRing, name: str) -> None:
        self._db = db
        self._ring = ring
        self._name = name
        self._secret: bytes | None = None

    async def read(self) -> bytes:
        if self._secret is None:
            self._secret = await asyncio.to_thread(secrets.server_secret, self._db, self._ring, self._name)
        return self._secret
