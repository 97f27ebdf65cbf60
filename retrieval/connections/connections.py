"""Connections: authorizations of content services. Only this module opens their tokens."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from retrieval import ids
from retrieval.connections import queries, schedules
from retrieval.connections.queries import ConnectionRow
from retrieval.connections.schedules import Timing
from retrieval.database import pagination, partitions
from retrieval.database.database import Database
from retrieval.database.pagination import Page, PageRequest
from retrieval.database.rows import AsyncExecutor
from retrieval.documents.queries import connection_documents
from retrieval.documents.queries.connection_documents import ConnectionDocumentCount
from retrieval.errors import ErrorCode, ServiceError
from retrieval.jobs.run_health import Health
from retrieval.namespaces import destinations
from retrieval.namespaces.namespaces import Config, NamespaceConfig, not_found
from retrieval.ports import Authorizer, Scope, Tokens
from retrieval.security.secrets import KeyRing
from retrieval.settings import Settings
from retrieval.sources import APP_CONFIGS, CREDENTIAL_SOURCES, MISSING_APP_MESSAGE, ORGANIZATION_SOURCES
from retrieval.statuses import ConnectionStatus

REVOKED_BY_USER = "Revoked by the user."


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection(ConnectionRow):
    """Connection with opened tokens; never log it."""

    tokens: Tokens | None = field(repr=False)

    @property
    def has_config(self) -> bool:
        """Check for credentials from a request, instead of an authorization by a person."""
        # The account is then an address, also after the revocation; a person's is an id.
        return self.connector in CREDENTIAL_SOURCES or (self.account or "").startswith("https://")

    @property
    def sync_minutes(self) -> int | None:
        """Return the interval of its schedule; None without a schedule or with a cron expression."""
        return self.schedule["minutes"] if self.schedule else None

    def next_sync(self) -> datetime | None:
        """Return the next due time; None without an active schedule and connection."""
        schedule = self.schedule
        if schedule is None or schedule["paused"] or self.status != ConnectionStatus.ACTIVE:
            return None
        timing = Timing(schedule["minutes"], schedule["cron"], schedule["timeZone"])
        return schedules.next_due(schedule["id"], timing)


@dataclass(frozen=True, slots=True)
class ConnectionChange:
    """Changes to a connection; None keeps a value, or removes it with its `changes_…` flag."""

    name: str | None = None
    client_redirect_url: str | None = None
    changes_redirect: bool = False
    sync_minutes: int | None = None
    changes_sync: bool = False
    permissions: str | None = None


async def add_connection(
    db: Database,
    scope: Scope,
    ring: KeyRing,
    start: AuthorizationStart | Tokens,
    *,
    name: str,
    connector: str,
    client_redirect_url: str | None,
    sync_minutes: int | None = None,
    permissions: str = "IGNORE",
) -> str:
    """Create a PENDING connection with its OAuth state, or an ACTIVE one with tokens; return its id."""
    partition = await partitions.ensure_partition(db, scope)
    if partition is None:
        raise not_found()
    connection_id = ids.connection_id()
    tokens = start.tokens if isinstance(start, AuthorizationStart) else None
    values = {
        "id": connection_id,
        "partition_id": partition,
        "name": name,
        "connector": connector,
        "client_redirect_url": client_redirect_url,
        "permissions": permissions,
        # A link that ends unused can be renewed without the config.
        "credentials": None if tokens is None else seal_tokens(ring, connection_id, tokens),
        "account": tokens and tokens.account,
    }
    async with db.async_transaction() as connection:
        await queries.insert_connection(connection, values)
        await schedules.set_interval(connection, connection_id, sync_minutes)
        await _begin_authorization(connection, ring, connection_id, start)
    return connection_id


async def list_page(
    db: Database, ring: KeyRing, scope: Scope, connector: str | None, part: PageRequest | None = None
) -> Page[Connection]:
    """List a page of the scope's connections, newest first, optionally of one `connector`."""
    rows = await queries.list_connections(db, scope, connector, part)
    return pagination.cut_page([_open_row(ring, row) for row in rows], part)


async def read_health(db: Database, connections: Sequence[Connection]) -> dict[str, Health]:
    """Return the health of connections by id, with the reason of their status."""
    health = await queries.read_health(db, [connection.id for connection in connections])
    for connection in connections:
        reason = health[connection.id].reason
        if connection.status == ConnectionStatus.FAILED:
            reason = connection.status_reason or "The authorization failed."
        elif connection.status == ConnectionStatus.ACTIVE:
            reason = connection.status_reason or reason
        health[connection.id] = replace(health[connection.id], reason=reason, next_attempt_at=connection.next_sync())
    return health


async def get_connection(
    db: Database, ring: KeyRing, organization: str, tenant: str, connection_id: str, *, namespace: str | None
) -> Connection:
    """Return a connection. CONNECTION_NOT_FOUND if missing, foreign or of another `namespace`."""
    row = await queries.get_connection(db, organization, tenant, connection_id, namespace)
    if row is None:
        raise connection_not_found()
    return _open_row(ring, row)


async def find_connection(db: Database, ring: KeyRing, scope: Scope, connection_id: str) -> Connection:
    return await get_connection(db, ring, scope.organization, scope.tenant, connection_id, namespace=scope.namespace)


async def change_connection(
    db: Database,
    ring: KeyRing,
    scope: Scope,
    connection_id: str,
    change: ConnectionChange,
    start: AuthorizationStart | Tokens | None,
) -> Connection:
    """Update the connection and begin a new authorization, if any. INVALID_REQUEST for a REVOKED connection."""
    values = {
        "id": connection_id,
        "name": change.name,
        "client_redirect_url": change.client_redirect_url,
        "url_sent": change.changes_redirect,
        "permissions": change.permissions,
    }
    async with db.async_transaction() as connection:
        updated_id = await queries.update_connection(connection, scope, values)
        if updated_id is not None and change.changes_sync:
            await schedules.set_interval(connection, connection_id, change.sync_minutes)
        if updated_id is not None and start is not None:
            await _begin_authorization(connection, ring, connection_id, start)
    changed = await find_connection(db, ring, scope, connection_id)
    if updated_id is None:
        raise revoked_error()
    return changed


async def _begin_authorization(
    connection: AsyncExecutor, ring: KeyRing, connection_id: str, start: AuthorizationStart | Tokens
) -> None:
    if isinstance(start, AuthorizationStart):
        await queries.insert_state(connection, start.to_params(connection_id))
    else:
        sealed = seal_tokens(ring, connection_id, start)
        await queries.grant_connection(connection, connection_id, sealed, start.account)


@dataclass(frozen=True, slots=True)
class RevokedConnection:
    """Revoked connection with its former tokens, for the vendor, and the number of its documents."""

    connection: Connection
    tokens: Tokens | None = field(repr=False)
    documents: ConnectionDocumentCount


async def revoke_connection(
    db: Database, ring: KeyRing, scope: Scope, connection_id: str, *, keep: bool = True
) -> RevokedConnection:
    """Revoke for good, wipe tokens and open states; idempotent. `keep`: keep documents without another connection."""
    async with db.async_transaction() as connection:
        row = await queries.revoke_connection(connection, scope, connection_id, REVOKED_BY_USER)
        if row is not None:
            documents = await connection_documents.count_connection_documents(connection, connection_id)
            await queries.enqueue_release(connection, row.partition_id, connection_id, keep=keep)
    if row is None:
        return RevokedConnection(
            await find_connection(db, ring, scope, connection_id), None, ConnectionDocumentCount(0, 0)
        )
    tokens = open_tokens(ring, connection_id, row.former_credentials, row.former_account)
    return RevokedConnection(_open_row(ring, row), tokens, documents)


async def require_active(db: Database, scope: Scope, connection_id: str, connector: str) -> None:
    """Require an ACTIVE connection: CONNECTION_NOT_FOUND or INVALID_INGEST_CONFIG otherwise."""
    row = await queries.get_connection(db, scope.organization, scope.tenant, connection_id, scope.namespace)
    field = "ingestConfig.config.connectionId"
    if row is None:
        raise connection_not_found(field)
    if row.connector != connector:
        raise _unusable_error(
            f"{field} names a connection of another connector: use one of {connector}.", "other_connector"
        )
    if row.status != ConnectionStatus.ACTIVE:
        raise _unusable_error(f"{field} names a connection that is not ACTIVE: authorize it first.", "not_active")


def get_app(namespace: NamespaceConfig, connector: str) -> Config:
    """Return the namespace's app for a connector. INVALID_REQUEST without an app."""
    config = namespace.connectors.get(APP_CONFIGS[connector])
    if not config:
        raise ServiceError(
            ErrorCode.INVALID_REQUEST,
            MISSING_APP_MESSAGE.format(app=APP_CONFIGS[connector]),
            field="connector",
            reason="app_not_set",
        )
    return config


def get_usable_app(namespace: NamespaceConfig, connector: str, settings: Settings) -> Config:
    """Return the connector's app with secrets, empty where none is needed. INVALID_NAMESPACE_CONFIG for secrets of
    another address."""
    area = APP_CONFIGS.get(connector, "")
    if connector in CREDENTIAL_SOURCES or (connector in ORGANIZATION_SOURCES and not namespace.connectors.get(area)):
        return {}
    config = get_app(namespace, connector)
    destinations.require_unmoved(settings, APP_CONFIGS[connector], config, namespace.sent_to)
    return config


def _open_row(ring: KeyRing, row: ConnectionRow) -> Connection:
    columns = {column.name: getattr(row, column.name) for column in fields(ConnectionRow)}
    return Connection(**columns, tokens=open_tokens(ring, row.id, row.credentials, row.account))


def seal_tokens(ring: KeyRing, connection_id: str, tokens: Tokens) -> bytes:
    """Encrypt tokens for this connection's row."""
    expires = tokens.expires_at and tokens.expires_at.isoformat()
    content = {
        "accessToken": tokens.access_token,
        "refreshToken": tokens.refresh_token,
        "expiresAt": expires,
        "byPerson": tokens.by_person,
    }
    return ring.seal(json.dumps(content).encode(), row=row_name(connection_id))


def open_tokens(ring: KeyRing, connection_id: str, sealed: bytes | None, account: str | None) -> Tokens | None:
    if sealed is None:
        return None
    content: dict[str, Any] = json.loads(ring.open(sealed, row=row_name(connection_id)))
    expires = content["expiresAt"] and datetime.fromisoformat(content["expiresAt"])
    by_person = content.get("byPerson", False)
    return Tokens(content["accessToken"], content["refreshToken"], expires, account, by_person)


def connection_not_found(field: str = "connectionId") -> ServiceError:
    return ServiceError(ErrorCode.CONNECTION_NOT_FOUND, "There is no such connection.", field=field)


def revoked_error() -> ServiceError:
    return ServiceError(
        ErrorCode.INVALID_REQUEST, "The connection is REVOKED, which is final: create another one.", reason="revoked"
    )


def _unusable_error(message: str, reason: str) -> ServiceError:
    return ServiceError(
        ErrorCode.INVALID_INGEST_CONFIG, message, field="ingestConfig.config.connectionId", reason=reason
    )


def row_name(connection_id: str) -> str:
    """Return the sealing name of a connection's tokens."""
    return f"connections/{connection_id}/credentials"


@dataclass(frozen=True, slots=True)
class AuthorizationStart:
    """Authorization to begin; the URL contains the state, the row only its hash."""

    url: str = field(repr=False)
    connector: str
    hash: bytes
    # PKCE verifier and access token, sealed.
    verifier: bytes | None = field(repr=False)
    # Tokens of a config before the authorization.
    tokens: Tokens | None = field(default=None, repr=False)

    def to_params(self, connection_id: str) -> dict[str, Any]:
        """Return the parameters of `queries.insert_state`."""
        return {
            "hash": self.hash,
            "connection_id": connection_id,
            "connector": self.connector,
            "verifier": self.verifier,
        }


@dataclass(frozen=True, slots=True)
class ConsumedState:
    """Authorization of a consumed state."""

    connection_id: str
    scope: Scope
    client_redirect_url: str | None
    verifier: str | None = field(repr=False)
    # Of a connection with a config.
    access_token: str = field(default="", repr=False)


def begin_authorization(
    ring: KeyRing, connector: str, authorizer: Authorizer, redirect_uri: str, tokens: Tokens | None = None
) -> AuthorizationStart:
    """Create a state, with PKCE if the service supports it (RFC 7636, S256); `tokens`: of a config."""
    state = secrets.token_urlsafe(32)
    digest = _hash_state(state)
    verifier = secrets.token_urlsafe(48) if authorizer.pkce else None
    url = authorizer.authorize_url(
        redirect_uri=redirect_uri, state=state, challenge=None if verifier is None else _challenge(verifier)
    )
    kept = f"{verifier or ''}\n{tokens.access_token}" if tokens else verifier
    sealed = None if kept is None else ring.seal(kept.encode(), row=state_row_name(digest))
    return AuthorizationStart(url, connector, digest, sealed, tokens)


async def take_state(db: Database, ring: KeyRing, state: str, connector: str) -> ConsumedState | None:
    """Consume a state; None if unknown, used, expired or of another connector."""
    digest = _hash_state(state)
    row = await queries.take_state(db, digest, connector)
    if row is None:
        return None
    kept = "" if row.verifier is None else ring.open(row.verifier, row=state_row_name(digest)).decode()
    verifier, _, access_token = kept.partition("\n")
    return ConsumedState(row.id, row.scope, row.client_redirect_url, verifier or None, access_token)


def _hash_state(state: str) -> bytes:
    return hashlib.sha256(state.encode("utf-8", "surrogatepass")).digest()


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def state_row_name(digest: bytes) -> str:
    """Return the sealing name of a state's verifier."""
    # The state itself is stored only as a hash.
    return f"oauth_states/{digest.hex()}/verifier"
