"""Connections to content services, and their authorization. Only this module seals and opens tokens."""

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
# Path of the connection's id in an ingestion request.
INGEST_FIELD = "ingestConfig.config.connectionId"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection(ConnectionRow):
    """Connection with opened tokens; never log them."""

    tokens: Tokens | None = field(repr=False)

    @property
    def has_config(self) -> bool:
        """Check if the connection was created with a `config`."""
        # Its account is then an address, also after the revocation. Otherwise the account is an id at the service.
        return self.connector in CREDENTIAL_SOURCES or (self.account or "").startswith("https://")

    @property
    def sync_minutes(self) -> int | None:
        """Return the interval of the schedule in minutes; None for a cron expression, and without a schedule."""
        return self.schedule["minutes"] if self.schedule else None

    def next_sync(self) -> datetime | None:
        """Return the next due time; None without a schedule, while it is paused, or for an inactive connection."""
        schedule = self.schedule
        if schedule is None or schedule["paused"] or self.status != ConnectionStatus.ACTIVE:
            return None
        timing = Timing(schedule["minutes"], schedule["cron"], schedule["timeZone"])
        return schedules.next_due(schedule["id"], timing)


@dataclass(frozen=True, slots=True)
class ConnectionChange:
    """Changes to a connection; None keeps a value, or with a `changes_…` flag removes the value."""

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
    authorization: AuthorizationStart | Tokens,
    *,
    name: str,
    connector: str,
    client_redirect_url: str | None,
    sync_minutes: int | None = None,
    permissions: str = "IGNORE",
) -> str:
    """Create a connection, PENDING with an authorization to begin or ACTIVE with tokens; return the id."""
    partition = await partitions.ensure_partition(db, scope)
    if partition is None:
        raise not_found()
    connection_id = ids.connection_id()
    # The config's tokens are stored before the authorization, so that an expired link is renewed without the config.
    tokens = authorization.config_tokens if isinstance(authorization, AuthorizationStart) else None
    values = {
        "id": connection_id,
        "partition_id": partition,
        "name": name,
        "connector": connector,
        "client_redirect_url": client_redirect_url,
        "permissions": permissions,
        "credentials": None if tokens is None else seal_tokens(ring, connection_id, tokens),
        "account": tokens and tokens.account,
    }
    async with db.async_transaction() as connection:
        await queries.insert_connection(connection, values)
        await schedules.set_interval(connection, connection_id, sync_minutes)
        await _store_authorization(connection, ring, connection_id, authorization)
    return connection_id


async def list_page(
    db: Database, ring: KeyRing, scope: Scope, connector: str | None, page: PageRequest | None = None
) -> Page[Connection]:
    """List a page of the scope's connections, newest first, of one connector or all."""
    rows = await queries.list_connections(db, scope, connector, page)
    return pagination.cut_page([_open_row(ring, row) for row in rows], page)


async def read_health(db: Database, connections: Sequence[Connection]) -> dict[str, Health]:
    """Return the health of connections by id; the reason of the status precedes that of the last failed run."""
    health_by_id = await queries.read_health(db, [connection.id for connection in connections])
    for connection in connections:
        health = health_by_id[connection.id]
        reason = health.reason
        if connection.status == ConnectionStatus.FAILED:
            reason = connection.status_reason or "The authorization failed."
        elif connection.status == ConnectionStatus.ACTIVE:
            reason = connection.status_reason or reason
        health_by_id[connection.id] = replace(health, reason=reason, next_attempt_at=connection.next_sync())
    return health_by_id


async def get_connection(
    db: Database, ring: KeyRing, organization: str, tenant: str, connection_id: str, *, namespace: str | None
) -> Connection:
    """Return a connection of any namespace or the given one; raise CONNECTION_NOT_FOUND."""
    row = await queries.get_connection(db, organization, tenant, connection_id, namespace)
    if row is None:
        raise connection_not_found()
    return _open_row(ring, row)


async def find_connection(db: Database, ring: KeyRing, scope: Scope, connection_id: str) -> Connection:
    """Return a connection of the scope; raise CONNECTION_NOT_FOUND."""
    return await get_connection(db, ring, scope.organization, scope.tenant, connection_id, namespace=scope.namespace)


async def change_connection(
    db: Database,
    ring: KeyRing,
    scope: Scope,
    connection_id: str,
    change: ConnectionChange,
    authorization: AuthorizationStart | Tokens | None,
) -> Connection:
    """Change a connection, and the authorization if given. Raises INVALID_REQUEST for a REVOKED connection."""
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
        if updated_id is not None and authorization is not None:
            await _store_authorization(connection, ring, connection_id, authorization)
    changed = await find_connection(db, ring, scope, connection_id)
    if updated_id is None:
        raise revoked_error()
    return changed


async def _store_authorization(
    connection: AsyncExecutor, ring: KeyRing, connection_id: str, authorization: AuthorizationStart | Tokens
) -> None:
    """Store the OAuth state of an authorization to begin, or the tokens, which set the connection to ACTIVE."""
    if isinstance(authorization, AuthorizationStart):
        await queries.insert_state(connection, authorization.to_params(connection_id))
    else:
        sealed = seal_tokens(ring, connection_id, authorization)
        await queries.grant_connection(connection, connection_id, sealed, authorization.account)


@dataclass(frozen=True, slots=True)
class RevokedConnection:
    """Revoked connection, and the number of its documents."""

    connection: Connection
    # Former tokens, to revoke them at the vendor too; None if the connection was already revoked.
    tokens: Tokens | None = field(repr=False)
    documents: ConnectionDocumentCount


async def revoke_connection(
    db: Database, ring: KeyRing, scope: Scope, connection_id: str, *, keep_documents: bool = True
) -> RevokedConnection:
    """Revoke a connection finally, and delete its tokens and OAuth states; no effect on a revoked connection."""
    # `keep_documents` is about documents that no other connection has.
    async with db.async_transaction() as connection:
        row = await queries.revoke_connection(connection, scope, connection_id, REVOKED_BY_USER)
        if row is not None:
            documents = await connection_documents.count_connection_documents(connection, connection_id)
            await queries.enqueue_release(connection, row.partition_id, connection_id, keep_documents=keep_documents)
    if row is None:
        revoked_before = await find_connection(db, ring, scope, connection_id)
        return RevokedConnection(revoked_before, None, ConnectionDocumentCount(0, 0))
    tokens = open_tokens(ring, connection_id, row.former_credentials, row.former_account)
    return RevokedConnection(_open_row(ring, row), tokens, documents)


async def require_active(db: Database, scope: Scope, connection_id: str, connector: str) -> None:
    """Raise CONNECTION_NOT_FOUND, or INVALID_INGEST_CONFIG for another connector or an inactive connection."""
    row = await queries.get_connection(db, scope.organization, scope.tenant, connection_id, scope.namespace)
    if row is None:
        raise connection_not_found(INGEST_FIELD)
    if row.connector != connector:
        raise _unusable_error(
            f"{INGEST_FIELD} names a connection of another connector: use one of {connector}.", "other_connector"
        )
    if row.status != ConnectionStatus.ACTIVE:
        message = f"{INGEST_FIELD} names a connection that is not ACTIVE: authorize it first."
        raise _unusable_error(message, "not_active")


def get_app(namespace: NamespaceConfig, connector: str) -> Config:
    """Return the namespace's OAuth app for a connector; raise INVALID_REQUEST without an app."""
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
    """Return the connector's OAuth app with secrets; empty for connectors without an app.

    INVALID_NAMESPACE_CONFIG if the operator has moved the service to another address since the secrets were sent.
    """
    app_name = APP_CONFIGS.get(connector, "")
    is_app_optional = connector in ORGANIZATION_SOURCES and not namespace.connectors.get(app_name)
    if connector in CREDENTIAL_SOURCES or is_app_optional:
        return {}
    app = get_app(namespace, connector)
    destinations.require_unmoved(settings, app_name, app, namespace.sent_to)
    return app


def _open_row(ring: KeyRing, row: ConnectionRow) -> Connection:
    columns = {column.name: getattr(row, column.name) for column in fields(ConnectionRow)}
    return Connection(**columns, tokens=open_tokens(ring, row.id, row.credentials, row.account))


def seal_tokens(ring: KeyRing, connection_id: str, tokens: Tokens) -> bytes:
    """Encrypt tokens for the row of a connection."""
    content = {
        "accessToken": tokens.access_token,
        "refreshToken": tokens.refresh_token,
        "expiresAt": tokens.expires_at and tokens.expires_at.isoformat(),
        "byPerson": tokens.by_person,
    }
    return ring.seal(json.dumps(content).encode(), row=row_name(connection_id))


def open_tokens(ring: KeyRing, connection_id: str, sealed: bytes | None, account: str | None) -> Tokens | None:
    """Decrypt the tokens of a connection's row."""
    if sealed is None:
        return None
    content: dict[str, Any] = json.loads(ring.open(sealed, row=row_name(connection_id)))
    expires_at = content["expiresAt"] and datetime.fromisoformat(content["expiresAt"])
    by_person = content.get("byPerson", False)
    return Tokens(content["accessToken"], content["refreshToken"], expires_at, account, by_person)


def connection_not_found(field: str = "connectionId") -> ServiceError:
    return ServiceError(ErrorCode.CONNECTION_NOT_FOUND, "There is no such connection.", field=field)


def revoked_error() -> ServiceError:
    return ServiceError(
        ErrorCode.INVALID_REQUEST, "The connection is REVOKED, which is final: create another one.", reason="revoked"
    )


def _unusable_error(message: str, reason: str) -> ServiceError:
    return ServiceError(ErrorCode.INVALID_INGEST_CONFIG, message, field=INGEST_FIELD, reason=reason)


def row_name(connection_id: str) -> str:
    """Return the sealing name of the tokens, bound to their row."""
    return f"connections/{connection_id}/credentials"


@dataclass(frozen=True, slots=True)
class AuthorizationStart:
    """Authorization by a person that begins with the opening of `url`."""

    # With the state, of which only the hash is stored.
    url: str = field(repr=False)
    connector: str
    state_hash: bytes
    # Sealed PKCE verifier, and access token of a config.
    verifier: bytes | None = field(repr=False)
    # Tokens of a config that also needs an authorization by a person.
    config_tokens: Tokens | None = field(default=None, repr=False)

    def to_params(self, connection_id: str) -> dict[str, Any]:
        """Return the parameters of `queries.insert_state`."""
        return {
            "hash": self.state_hash,
            "connection_id": connection_id,
            "connector": self.connector,
            "verifier": self.verifier,
        }


@dataclass(frozen=True, slots=True)
class ConsumedState:
    """Connection to authorize, by a consumed state."""

    connection_id: str
    scope: Scope
    client_redirect_url: str | None
    # Of PKCE; None without.
    verifier: str | None = field(repr=False)
    # Of the config; "" without one.
    access_token: str = field(default="", repr=False)


def begin_authorization(
    ring: KeyRing, connector: str, authorizer: Authorizer, redirect_uri: str, config_tokens: Tokens | None = None
) -> AuthorizationStart:
    """Create a state and the URL to open, with PKCE (RFC 7636, S256) if the service supports it."""
    state = secrets.token_urlsafe(32)
    digest = _hash_state(state)
    verifier = secrets.token_urlsafe(48) if authorizer.pkce else None
    url = authorizer.authorize_url(
        redirect_uri=redirect_uri, state=state, challenge=None if verifier is None else _pkce_challenge(verifier)
    )
    # A line for the verifier, and a second one for the access token of a config.
    secret_lines = f"{verifier or ''}\n{config_tokens.access_token}" if config_tokens else verifier
    sealed = None if secret_lines is None else ring.seal(secret_lines.encode(), row=state_row_name(digest))
    return AuthorizationStart(url, connector, digest, sealed, config_tokens)


async def take_state(db: Database, ring: KeyRing, state: str, connector: str) -> ConsumedState | None:
    """Consume a state; None if unknown, used, expired or of another connector."""
    digest = _hash_state(state)
    row = await queries.take_state(db, digest, connector)
    if row is None:
        return None
    secret_lines = "" if row.verifier is None else ring.open(row.verifier, row=state_row_name(digest)).decode()
    verifier, _, access_token = secret_lines.partition("\n")
    return ConsumedState(row.connection_id, row.scope, row.client_redirect_url, verifier or None, access_token)


def _hash_state(state: str) -> bytes:
    return hashlib.sha256(state.encode("utf-8", "surrogatepass")).digest()


def _pkce_challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def state_row_name(digest: bytes) -> str:
    """Return the sealing name of the verifier, bound to the row of the state."""
    return f"oauth_states/{digest.hex()}/verifier"
