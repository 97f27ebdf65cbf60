"""OAuth states: the authority of a callback. 256 random bits, stored hashed, used once, good for ten minutes."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any

from retrieval.connections import queries
from retrieval.database.database import Database
from retrieval.ports import Authorizer, Scope
from retrieval.security.secrets import KeyRing


@dataclass(frozen=True, slots=True)
class Start:
    """A way to authorize a connection, to be stored with it: the URL holds the state, the row only its hash."""

    url: str = field(repr=False)
    connector: str
    hash: bytes
    verifier: bytes | None = field(repr=False)

    def values(self, connection_id: str) -> dict[str, Any]:
        """Return the parameters of `queries.insert_state`."""
        return {
            "hash": self.hash,
            "connection": connection_id,
            "connector": self.connector,
            "verifier": self.verifier,
        }


@dataclass(frozen=True, slots=True)
class Taken:
    """Authorization that a consumed state belongs to."""

    connection_id: str
    scope: Scope
    client_redirect_url: str | None
    verifier: str | None = field(repr=False)


def begin(ring: KeyRing, connector: str, authorizer: Authorizer, redirect_uri: str) -> Start:
    """A fresh state, with PKCE where the service has it (RFC 7636, S256)."""
    state = secrets.token_urlsafe(32)
    digest = _hash(state)
    verifier = secrets.token_urlsafe(48) if authorizer.pkce else None
    url = authorizer.authorize_url(
        redirect_uri=redirect_uri, state=state, challenge=None if verifier is None else _challenge(verifier)
    )
    sealed = None if verifier is None else ring.seal(verifier.encode(), row=row_name(digest))
    return Start(url, connector, digest, sealed)


async def take(db: Database, ring: KeyRing, state: str, connector: str) -> Taken | None:
    """Consume the state; None if it is unknown, used, expired, of another connector or of a removed object."""
    digest = _hash(state)
    row = await queries.take_state(db, digest, connector)
    if row is None:
        return None
    verifier = None if row.verifier is None else ring.open(row.verifier, row=row_name(digest)).decode()
    return Taken(row.id, row.scope, row.client_redirect_url, verifier)


def _hash(state: str) -> bytes:
    return hashlib.sha256(state.encode("utf-8", "surrogatepass")).digest()


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def row_name(digest: bytes) -> str:
    """Under which name its verifier is sealed; the state itself is known by its hash only."""
    return f"oauth_states/{digest.hex()}/verifier"
