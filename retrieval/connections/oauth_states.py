"""OAuth states: the authority of a callback. 256 random bits, stored hashed, used once, good for ten minutes."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any, LiteralString

from retrieval.database.database import Database
from retrieval.ports import Authorizer, Scope
from retrieval.security.secrets import KeyRing

MINUTES = 10
"""For which a state is good."""

INSERT_STATE: LiteralString = f"""
    with expired as (delete from oauth_states where expires_at < now() - interval '1 hour')
    insert into oauth_states (hash, connection_id, connector, verifier, expires_at)
    values (%(hash)s, %(connection)s, %(connector)s, %(verifier)s, now() + interval '{MINUTES} minutes')
"""
_TAKE: LiteralString = """
    update oauth_states s set used_at = now()
    from connections c
    join partitions p on p.id = c.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    where s.hash = %(hash)s and s.connector = %(connector)s and s.used_at is null and s.expires_at > now()
      and c.id = s.connection_id and c.status <> 'REVOKED'
    returning c.id, c.client_redirect_url, s.verifier, n.id as namespace, n.organization_id, p.tenant
"""


@dataclass(frozen=True, slots=True)
class Start:
    """A way to authorize a connection, to be stored with it: the URL holds the state, the row only its hash."""

    url: str = field(repr=False)
    connector: str
    hash: bytes
    verifier: bytes | None = field(repr=False)

    def values(self, connection_id: str) -> dict[str, Any]:
        """The parameters of INSERT_STATE."""
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
    row = await db.async_row(_TAKE, {"hash": digest, "connector": connector})
    if row is None:
        return None
    sealed = row["verifier"]
    return Taken(
        connection_id=row["id"],
        scope=Scope(row["organization_id"], row["namespace"], row["tenant"]),
        client_redirect_url=row["client_redirect_url"],
        verifier=None if sealed is None else ring.open(sealed, row=row_name(digest)).decode(),
    )


def _hash(state: str) -> bytes:
    return hashlib.sha256(state.encode("utf-8", "surrogatepass")).digest()


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def row_name(digest: bytes) -> str:
    """Under which name its verifier is sealed; the state itself is known by its hash only."""
    return f"oauth_states/{digest.hex()}/verifier"
