"""Deliveries of an endpoint: sent, in progress and due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import LiteralString

from retrieval import ids
from retrieval.database import pagination
from retrieval.database.database import Database
from retrieval.database.pagination import Page, PageRequest
from retrieval.errors import ErrorCode, ServiceError
from retrieval.webhooks import endpoints, events
from retrieval.webhooks.endpoints import WebhookScope

# Deliveries per cleanup.
DELIVERIES_PER_CLEANUP = 5_000


@dataclass(frozen=True, slots=True)
class Delivery:
    """Event at one endpoint. `reason`: failure of the last of `attempts`."""

    id: str
    webhook_id: str
    event_id: str
    type: str
    sequence: int
    status: str
    attempts: int
    response_status: int | None
    reason: str | None
    next_attempt_at: datetime | None
    created_at: datetime


DELIVERY_COLUMNS: LiteralString = (
    "id, webhook_id, event_id, type, sequence, status, attempts, response_status, reason, next_attempt_at, created_at"
)


async def list_deliveries(
    db: Database, reach: WebhookScope, webhook_id: str, part: PageRequest, *, status: str | None = None
) -> Page[Delivery]:
    """List deliveries of a webhook, newest first. Raises WEBHOOK_NOT_FOUND."""
    await endpoints.get_webhook(db, reach, webhook_id)
    deliveries = await db.async_fetch(
        Delivery,
        "select " + DELIVERY_COLUMNS + " from webhook_deliveries where webhook_id = %(webhook)s"
        " and (%(status)s::text is null or status = %(status)s)"
        " and (%(after)s::bigint is null or sequence < %(after)s) order by sequence desc limit %(limit)s",
        {"webhook": webhook_id, "status": status, **pagination.number_params(part.cursor, part.size)},
    )
    return pagination.take_page(deliveries, part.size, lambda delivery: str(delivery.sequence))


async def retry_delivery(db: Database, reach: WebhookScope, webhook_id: str, delivery_id: str) -> Delivery:
    """Send a delivery again, with the same event id and a new schedule. Raises WEBHOOK_NOT_FOUND, NOT_FOUND."""
    await endpoints.get_webhook(db, reach, webhook_id)
    delivery = await db.async_fetch_one(
        Delivery,
        "update webhook_deliveries set status = 'PENDING', ordered = false, tries = 0, next_attempt_at = now(),"
        " give_up_at = now() + interval '1 day' where id = %(id)s and webhook_id = %(webhook)s returning "
        + DELIVERY_COLUMNS,
        {"id": delivery_id, "webhook": webhook_id},
    )
    if delivery is None:
        raise ServiceError(ErrorCode.NOT_FOUND, "There is no such delivery of this webhook.")
    return delivery


async def send_test(db: Database, reach: WebhookScope, webhook_id: str) -> Delivery:
    """Queue a test event, also for a disabled endpoint. Raises WEBHOOK_NOT_FOUND."""
    async with db.async_together():
        hook = await endpoints.get_webhook(db, reach, webhook_id)
        statement: LiteralString = "update webhooks set sequence = sequence + 1 where id = %(id)s returning sequence"
        sequence = await db.async_fetch_one(int, statement, {"id": webhook_id})
        if sequence is None:
            raise endpoints.not_found()
        body = events.event_body(
            events.TEST_EVENT,
            datetime.now(UTC),
            {
                **events.event_scope(reach.organization, hook.namespace_id, hook.tenant),
                "webhookId": hook.id,
                "sequence": sequence,
            },
        )
        rows = await db.async_fetch(
            Delivery,
            "insert into webhook_deliveries (id, webhook_id, event_id, sequence, type, body, ordered, next_attempt_at,"
            " give_up_at) values (%(id)s, %(webhook)s, %(event)s, %(sequence)s, %(type)s, %(body)s, false, now(),"
            " now() + interval '1 day') returning " + DELIVERY_COLUMNS,
            {
                "id": ids.webhook_delivery_id(),
                "webhook": webhook_id,
                "event": ids.webhook_event_id(),
                "sequence": sequence,
                "type": events.TEST_EVENT,
                "body": body,
            },
        )
    return rows[0]


def delete_old_deliveries(db: Database, days: int) -> None:
    """Delete finished deliveries older than `days`, and fail expired ones of disabled endpoints."""
    db.execute(
        "update webhook_deliveries d set status = 'FAILED', ordered = false, next_attempt_at = null,"
        " reason = coalesce(d.reason, 'The webhook is switched off.') from webhooks h"
        " where h.id = d.webhook_id and h.status = 'DISABLED' and d.status = 'PENDING' and d.give_up_at < now()",
        {},
    )
    db.execute(
        "delete from webhook_deliveries where ctid = any(array(select ctid from webhook_deliveries"
        " where created_at < now() - make_interval(days => %(days)s) and status <> 'PENDING'"
        " order by created_at limit %(limit)s))",
        {"days": days, "limit": DELIVERIES_PER_CLEANUP},
    )
