"""Webhooks: endpoints that receive events."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import UNSET

from api.operation import Call, operation
from api.wire import webhooks as wire
from api.wire.common import PartQuery
from retrieval.errors import ErrorCode, ServiceError
from retrieval.network import fetch_guard
from retrieval.webhooks import deliveries, endpoints
from retrieval.webhooks.endpoints import Reach
from retrieval.webhooks.events import EVENTS, EVERY

_INVALID = ErrorCode.INVALID_REQUEST
_operation = partial(operation, tag="Webhooks", invalid=_INVALID)
_MISSING = (ErrorCode.WEBHOOK_NOT_FOUND,)
_ONE = "/v1/webhooks/{webhook_id:str}"


@_operation(
    "POST",
    "/v1/webhooks",
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
    example={
        "url": "https://example.com/hooks/retrieval",
        "events": ["DOCUMENTS_READY", "DOCUMENTS_ERROR"],
        "namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0",
    },
    creates=True,
)
async def create_webhook(call: Call[wire.CreateWebhook, None]) -> wire.SecretAnswer | bytes:
    """Create a webhook.

    The answer is the only place that shows the secret. An address that may not be dialled is refused at once.
    """
    services, body = call.services, call.body
    _require_known(body.events)
    namespace = body.namespace_id or call.caller.namespace
    if body.namespace_id is not None:
        call.require_namespace(body.namespace_id)
    await _require_url(call, body.url)

    async def create() -> wire.SecretAnswer:
        reach = Reach(call.caller.organization, namespace, call.tenant or None)
        endpoint, secret = await endpoints.create(
            services.db, services.ring, reach, url=body.url, events=body.events, description=body.description
        )
        services.notices.send()
        return wire.SecretAnswer(
            message="Webhook created successfully", data=wire.SecretData(wire.Webhook.of(endpoint), secret)
        )

    return await call.once(create)


@_operation("GET", "/v1/webhooks")
async def list_webhooks(call: Call[None, PartQuery]) -> wire.WebhooksAnswer:
    """List webhooks. Newest first. With an X-Tenant-ID those of the tenant, else all."""
    part = await call.part(call.query.part())
    page = await endpoints.list_part(call.services.db, _reach(call), part)
    data = wire.WebhooksData(webhooks=[wire.Webhook.of(endpoint) for endpoint in page.items]).lead_on(
        part, await call.cursor(page.cursor)
    )
    return wire.WebhooksAnswer(message="Webhooks fetched successfully", data=data)


@_operation("GET", _ONE, raises=_MISSING)
async def get_webhook(call: Call[None, None]) -> wire.WebhookAnswer:
    """Get a webhook. Without its secret."""
    endpoint = await endpoints.get(call.services.db, _reach(call), call.path["webhook_id"])
    return wire.WebhookAnswer(message="Webhook fetched successfully", data=wire.WebhookData(wire.Webhook.of(endpoint)))


@_operation("PATCH", _ONE, raises=_MISSING, example={"status": "ACTIVE"})
async def update_webhook(call: Call[wire.UpdateWebhook, None]) -> wire.WebhookAnswer:
    """Change a webhook. What is not sent stays. `status: "ACTIVE"` switches an endpoint on again."""
    body, services = call.body, call.services
    await endpoints.get(services.db, _reach(call), call.path["webhook_id"])
    if body.events is not UNSET:
        _require_known(body.events)
    if body.url is not UNSET:
        await _require_url(call, body.url)
    changed = await endpoints.change(
        services.db,
        _reach(call),
        call.path["webhook_id"],
        url=None if body.url is UNSET else body.url,
        events=None if body.events is UNSET else body.events,
        description=endpoints.UNSET if body.description is UNSET else body.description,
        status=None if body.status is UNSET else body.status,
    )
    services.notices.send()
    return wire.WebhookAnswer(message="Webhook updated successfully", data=wire.WebhookData(wire.Webhook.of(changed)))


@_operation("DELETE", _ONE, raises=_MISSING)
async def delete_webhook(call: Call[None, None]) -> wire.WebhookAnswer:
    """Delete a webhook. Its waiting deliveries are deleted too, and nothing more is sent."""
    deleted = await endpoints.delete(call.services.db, _reach(call), call.path["webhook_id"])
    return wire.WebhookAnswer(message="Webhook deleted successfully", data=wire.WebhookData(wire.Webhook.of(deleted)))


@_operation("POST", f"{_ONE}/rotate", raises=_MISSING, example={"overlapHours": 24}, bare=True, creates=True)
async def rotate_webhook(call: Call[wire.RotateWebhook, None]) -> wire.SecretAnswer | bytes:
    """Rotate the secret. A new secret, shown here alone. Requests carry signatures of both for `overlapHours`."""
    services = call.services

    async def rotate() -> wire.SecretAnswer:
        endpoint, secret = await endpoints.rotate(
            services.db, services.ring, _reach(call), call.path["webhook_id"], call.body.overlap_hours
        )
        return wire.SecretAnswer(
            message="Secret rotated successfully", data=wire.SecretData(wire.Webhook.of(endpoint), secret)
        )

    return await call.once(rotate)


@_operation("POST", f"{_ONE}/test", raises=_MISSING)
async def test_webhook(call: Call[None, None]) -> wire.DeliveryAnswer:
    """Send a test. Sends `WEBHOOK_TEST`, to an endpoint that is switched off, too."""
    delivery = await deliveries.test(call.services.db, _reach(call), call.path["webhook_id"])
    call.services.notices.send()
    return wire.DeliveryAnswer(message="Test is being sent", data=wire.DeliveryData(wire.Delivery.of(delivery)))


@_operation("GET", f"{_ONE}/deliveries", raises=_MISSING)
async def list_deliveries(call: Call[None, wire.DeliveriesQuery]) -> wire.DeliveriesAnswer:
    """List deliveries. Newest first, 50 at a time."""
    part = call.query.bounded()
    requested = await call.part(part) or part
    page = await deliveries.list_part(
        call.services.db, _reach(call), call.path["webhook_id"], requested, status=call.query.status
    )
    data = wire.DeliveriesData(deliveries=[wire.Delivery.of(delivery) for delivery in page.items]).lead_on(
        part, await call.cursor(page.cursor)
    )
    return wire.DeliveriesAnswer(message="Deliveries fetched successfully", data=data)


@_operation("POST", f"{_ONE}/deliveries/{{delivery_id:str}}/redeliver", raises=(*_MISSING, ErrorCode.NOT_FOUND))
async def redeliver(call: Call[None, None]) -> wire.DeliveryAnswer:
    """Deliver again. The same event, with the same `webhook-id` and a new signature."""
    delivery = await deliveries.redeliver(
        call.services.db, _reach(call), call.path["webhook_id"], call.path["delivery_id"]
    )
    call.services.notices.send()
    return wire.DeliveryAnswer(message="Event is being sent again", data=wire.DeliveryData(wire.Delivery.of(delivery)))


HANDLERS = (
    create_webhook,
    list_webhooks,
    get_webhook,
    update_webhook,
    delete_webhook,
    rotate_webhook,
    test_webhook,
    list_deliveries,
    redeliver,
)


def _reach(call: Call[Any, Any]) -> Reach:
    """Return the reach of the key: its namespace and the named tenant, or all of the organization without either."""
    return Reach(call.caller.organization, call.caller.namespace, call.tenant or None)


def _require_known(events: list[str]) -> None:
    if set(events) - {*EVENTS, EVERY}:
        message = f"Each entry of events must be one of {', '.join((EVERY, *EVENTS))}."
        raise ServiceError(_INVALID, message, field="events", reason="not_allowed")


async def _require_url(call: Call[Any, Any], url: str) -> None:
    """In a thread of its own: a name may take long to be looked up."""
    guard = fetch_guard.guard(call.services.settings)
    await call.services.probing.run(partial(endpoints.require_url, guard, url))
