"""Tokens of a connection: granted, refused and refreshed."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import structlog

from retrieval.connections import queries
from retrieval.connections.connections import open_tokens, seal_tokens
from retrieval.connections.queries import Credentials
from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.database.rows import Executor
from retrieval.errors import AppRefused, Fatal, Retryable, ServiceError, StepError
from retrieval.ports import Authorizer, Tokens
from retrieval.security.secrets import KeyRing
from retrieval.statuses import ConnectionStatus

log = structlog.get_logger()

# Expiring access tokens are renewed this early.
RENEWAL_MARGIN = timedelta(seconds=120)
# New tokens wait this long for an unavailable database.
STORE_TIMEOUT_SECONDS = 30.0


async def store_grant(db: Database, ring: KeyRing, connection_id: str, tokens: Tokens) -> str:
    """Store tokens and return ACTIVE, or REVOKED after a revocation."""
    # Another account starts a new cursor.
    sealed = seal_tokens(ring, connection_id, tokens)
    return await queries.grant_connection(db, connection_id, sealed, tokens.account) or ConnectionStatus.REVOKED


async def record_refusal(db: Database, connection_id: str, reason: str) -> str:
    """Record a refusal and return the status: FAILED, unless ACTIVE or REVOKED."""
    return await queries.refuse_connection(db, connection_id, reason) or ConnectionStatus.REVOKED


def revoke_all(db: Database, ring: KeyRing, partition_id: int, authorizer: Callable[[str], Authorizer]) -> None:
    """Wipe the tokens of a deleted scope and revoke them at each vendor, once."""
    # A failing vendor delays nothing.
    for row in queries.wipe_connections(db, partition_id):
        tokens = open_tokens(ring, row.id, row.credentials, row.account)
        if tokens is None:
            continue
        try:
            authorizer(row.connector).revoke(tokens)
        except (StepError, ServiceError) as error:
            log.warning("connection.not_revoked_at_vendor", connector=row.connector, error=str(error))


class ConnectionTokens:
    """TokenSource of a connection; tokens are refreshed under a row lock and stored before use."""

    def __init__(self, db: Database, ring: KeyRing, connection_id: str, authorizer: Authorizer) -> None:
        self._db = db
        self._ring = ring
        self.connection_id = self._id = connection_id
        self._authorizer = authorizer

    def token(self) -> str:
        """Return an access token with at least two minutes of validity."""
        tokens = self._active(queries.get_credentials(self._db, self._id))
        return self._refresh(_ends_soon) if _ends_soon(tokens) else tokens.access_token

    def renew(self, refused: str) -> str:
        """Fetch a new token in place of `refused`; concurrent callers share a refresh."""
        return self._refresh(lambda tokens: tokens.access_token == refused)

    def end_authorization(self, reason: str, refused: str) -> StepError:
        """Mark the connection FAILED after the service refused a renewed token; return the error to raise.

        If the connection was authorized again after this token, it stays ACTIVE and the error is Retryable.
        """
        with self._db.transaction() as connection:
            row = queries.lock_credentials(connection, self._id)
            if row and row.status == ConnectionStatus.ACTIVE and self._active(row).access_token != refused:
                return Retryable("The connection was authorized again in the meantime.")
            self._fail(connection, reason)
        return Fatal(reason)

    def _refresh(self, is_old: Callable[[Tokens], bool]) -> str:
        """Return the stored token if another caller refreshed it, else refresh it under the lock of its row."""
        # The row stays locked during the vendor's bounded response: two refreshes would void each other.
        fresh, previous, failure = None, b"", Fatal("")
        try:
            with self._db.transaction() as connection:
                row = queries.lock_credentials(connection, self._id)
                tokens, previous = self._active(row), (row and row.credentials) or b""
                if not is_old(tokens):
                    return tokens.access_token
                try:
                    fresh = self._authorizer.refresh(tokens)
                except AppRefused as error:
                    log.warning("connection.app_refused", connection_id=self._id)
                    queries.explain_connection(connection, self._id, str(error))
                    failure = error
                except Fatal as error:
                    self._fail(connection, str(error))
                    failure = error
                else:
                    self._store(connection, fresh, previous)
        except UNAVAILABLE_ERRORS:
            if fresh is None:
                raise
            return self._store_when_available(fresh, previous)
        if fresh is None:
            raise failure
        return fresh.access_token

    def _store_when_available(self, fresh: Tokens, previous: bytes) -> str:
        """Store tokens after the database returns."""
        # The old refresh token may be used up.
        deadline = time.monotonic() + STORE_TIMEOUT_SECONDS
        while True:
            try:
                with self._db.transaction() as connection:
                    self._store(connection, fresh, previous)
                return self.token()
            except UNAVAILABLE_ERRORS:
                if time.monotonic() > deadline:
                    log.warning("connection.tokens_lost", connection_id=self._id)
                    raise
                time.sleep(1)

    def _active(self, row: Credentials | None) -> Tokens:
        tokens = open_tokens(self._ring, self._id, row.credentials, row.account) if row else None
        if row is None or tokens is None or row.status != ConnectionStatus.ACTIVE:
            raise Fatal("The connection is no longer ACTIVE: authorize it again, or use another one.")
        return tokens

    def _store(self, connection: Executor, fresh: Tokens, previous: bytes) -> None:
        queries.store_credentials(connection, self._id, seal_tokens(self._ring, self._id, fresh), previous)

    def _fail(self, connection: Executor, reason: str) -> None:
        log.warning("connection.failed", connection_id=self._id)
        queries.fail_connection(connection, self._id, reason)


def _ends_soon(tokens: Tokens) -> bool:
    return tokens.expires_at is not None and tokens.expires_at < datetime.now(UTC) + RENEWAL_MARGIN
