"""Subscriptions of push: created, renewed before their end, and ended at content services."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import structlog

from retrieval.connections import pushes, queries_push
from retrieval.connections.queries_push import PushRow
from retrieval.connections.tokens import ConnectionTokens
from retrieval.database.database import Database
from retrieval.errors import ServiceError, StepError
from retrieval.ports import Connector
from retrieval.ports.sources import SubscribingConnector
from retrieval.security.secrets import KeyRing

log = structlog.get_logger()

# A dispatcher that dies during a renewal holds it this long.
CLAIM_SECONDS = 600.0
# Renewed when this share of the time is left, for several attempts.
RENEWED_SHARE = 0.25
FIRST_PAUSE_SECONDS = 30.0
MAX_PAUSE_SECONDS = 3600.0

# Makes the connector of a push.
OpenConnector = Callable[[PushRow], Connector]


def renew_due(db: Database, ring: KeyRing, open_connector: OpenConnector, base_url: str) -> None:
    """Create or renew the due subscriptions; a failure is recorded with the push."""
    for row in queries_push.claim_renewals(db, CLAIM_SECONDS):
        try:
            _renew(db, ring, row, open_connector(row), base_url)
        except (StepError, ServiceError) as error:
            pause = min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(row.failures, 10))
            queries_push.record_failed_renewal(db, row.connection_id, str(error), pause)
            log.warning("push.not_subscribed", connector=row.connector, connection=row.connection_id, reason=str(error))


def _renew(db: Database, ring: KeyRing, row: PushRow, connector: Connector, base_url: str) -> None:
    secret = pushes.open_secret(ring, row)
    if secret is None or not isinstance(connector, SubscribingConnector):
        return
    tokens = ConnectionTokens(db, ring, row.connection_id, connector.authorizer)
    address = f"{base_url}/v1/push/{row.address}"
    subscription = connector.subscribe(tokens, address, secret, row.subscription)
    remaining = max(subscription.expires_at - datetime.now(UTC), timedelta(0))
    renew_at = subscription.expires_at - remaining * RENEWED_SHARE
    if not queries_push.save_subscription(db, row.connection_id, subscription.state, subscription.expires_at, renew_at):
        connector.unsubscribe(tokens, subscription.state)


def end_subscription(db: Database, ring: KeyRing, row: PushRow, open_connector: OpenConnector) -> None:
    """End a push's subscription at the service; errors are only logged, as subscriptions expire."""
    if row.subscription is None:
        return
    try:
        connector = open_connector(row)
        if isinstance(connector, SubscribingConnector):
            tokens = ConnectionTokens(db, ring, row.connection_id, connector.authorizer)
            connector.unsubscribe(tokens, row.subscription)
    except (StepError, ServiceError) as error:
        log.warning("push.not_unsubscribed", connector=row.connector, reason=str(error))
