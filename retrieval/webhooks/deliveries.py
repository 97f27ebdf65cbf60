"""Deliveries of an endpoint: sent, in progress and due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Double, bindparam, delete, func, insert, null, select, text, update

from retrieval import ids
from retrieval.database import pagination
from retrieval.database.compiling import (
    columns_of,
    compile_numbered,
    compile_statement,
    equals,
    equals_if_given,
    parameters,
)
from retrieval.database.database import Database
from retrieval.database.pagination import Page, PageRequest
from retrieval.database.schema import webhooks as webhook_schema
from retrieval.errors import ErrorCode, ServiceError
from retrieval.webhooks import endpoints, events
from retrieval.webhooks.endpoints import WebhookScope
from retrieval.webhooks.retry_policy import DELIVERY_LIFETIME

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


_table: Any = webhook_schema.WebhookDelivery
_columns = columns_of(_table, Delivery)
_hook: Any = webhook_schema.Webhook
_of_webhook = equals(_table.webhook_id, "webhook")
_LIST_DELIVERIES = compile_numbered(
    select(*_columns).where(_of_webhook, equals_if_given(_table.status)), _table.sequence, newest_first=True
)
_send_now: dict[str, Any] = {
    "ordered": False,
    "next_attempt_at": func.now(),
    "give_up_at": func.now() + DELIVERY_LIFETIME,
}
_RETRY_DELIVERY = compile_statement(
    update(_table)
    .where(equals(_table.id), _of_webhook)
    .values(status="PENDING", tries=0, **_send_now)
    .returning(*_columns)
)
_COUNT_EVENT = compile_statement(
    update(_hook).where(equals(_hook.id)).values(sequence=_hook.sequence + 1).returning(_hook.sequence)
)
_INSERT_TEST = compile_statement(
    insert(_table)
    .values(**parameters("id", "webhook_id", "event_id", "sequence", "type", "body"), **_send_now)
    .returning(*_columns)
)
_FAIL_EXPIRED = compile_statement(
    update(_table)
    .where(
        _table.webhook_id == _hook.id,
        _hook.status == "DISABLED",
        _table.status == "PENDING",
        _table.give_up_at < func.now(),
    )
    .values(
        status="FAILED",
        ordered=False,
        next_attempt_at=null(),
        reason=func.coalesce(_table.reason, "The webhook is switched off."),
    )
)
_finished = (
    select(_table.id)
    .where(
        _table.created_at < func.now() - bindparam("days", type_=Double) * text("interval '1 day'"),
        _table.status != "PENDING",
    )
    .order_by(_table.created_at)
    .limit(DELIVERIES_PER_CLEANUP)
)
_DELETE_FINISHED = compile_statement(delete(_table).where(_table.id.in_(_finished)))


async def list_deliveries(
    db: Database, reach: WebhookScope, webhook_id: str, part: PageRequest, *, status: str | None = None
) -> Page[Delivery]:
    """List deliveries of a webhook, newest first. Raises WEBHOOK_NOT_FOUND."""
    await endpoints.get_webhook(db, reach, webhook_id)
    deliveries = await db.async_fetch(
        Delivery,
        _LIST_DELIVERIES,
        {"webhook": webhook_id, "status": status, **pagination.number_params(part.cursor, part.size)},
    )
    return pagination.take_page(deliveries, part.size, lambda delivery: str(delivery.sequence))


async def retry_delivery(db: Database, reach: WebhookScope, webhook_id: str, delivery_id: str) -> Delivery:
    """Send a delivery again, with the same event id and a new schedule. Raises WEBHOOK_NOT_FOUND, NOT_FOUND."""
    await endpoints.get_webhook(db, reach, webhook_id)
    values = {"id": delivery_id, "webhook": webhook_id}
    delivery = await db.async_fetch_one(Delivery, _RETRY_DELIVERY, values)
    if delivery is None:
        raise ServiceError(ErrorCode.NOT_FOUND, "There is no such delivery of this webhook.")
    return delivery


async def send_test(db: Database, reach: WebhookScope, webhook_id: str) -> Delivery:
    """Queue a test event, also for a disabled endpoint. Raises WEBHOOK_NOT_FOUND."""
    async with db.async_together():
        hook = await endpoints.get_webhook(db, reach, webhook_id)
        sequence = await db.async_fetch_one(int, _COUNT_EVENT, {"id": webhook_id})
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
            _INSERT_TEST,
            {
                "id": ids.webhook_delivery_id(),
                "webhook_id": webhook_id,
                "event_id": ids.webhook_event_id(),
                "sequence": sequence,
                "type": events.TEST_EVENT,
                "body": body,
            },
        )
    return rows[0]


def delete_old_deliveries(db: Database, days: int) -> None:
    """Delete finished deliveries older than `days`, and fail expired ones of disabled endpoints."""
    db.execute(_FAIL_EXPIRED, {})
    db.execute(_DELETE_FINISHED, {"days": days})
