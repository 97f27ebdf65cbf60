"""Operations on webhooks and their deliveries."""

from __future__ import annotations

from functools import partial

from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from msgspec import UNSET

from api.operation import idempotent, operation
from api.request import ApiRequest
from api.wire import webhooks as wire
from api.wire.common import PaginationQuery
from retrieval.errors import ErrorCode, ServiceError
from retrieval.network import fetch_guard
from retrieval.webhooks import deliveries, endpoints
from retrieval.webhooks.endpoints import WebhookScope
from retrieval.webhooks.events import EVENT_NAMES, EVERY_EVENT

_INVALID_REQUEST = ErrorCode.INVALID_REQUEST
_operation = partial(operation, tag="Webhooks", invalid=_INVALID_REQUEST)
_NOT_FOUND_CODES = (ErrorCode.WEBHOOK_NOT_FOUND,)
_WEBHOOK_PATH = "/v1/webhooks/{webhook_id:str}"


async def check_webhook(request: ApiRequest, data: JSONBody[wire.CreateWebhook]) -> WebhookScope:
    """Return the scope of a new webhook; raise for unknown events, namespaces and addresses."""
    _require_known(data.events)
    if data.namespace_id is not None:
        request.require_namespace(data.namespace_id)
    await _require_url(request, data.url)
    return WebhookScope(
        request.caller.organization, data.namespace_id or request.caller.namespace, request.tenant or None
    )


@_operation(
    "POST",
    "/v1/webhooks",
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
    example={
        "url": "https://example.com/hooks/retrieval",
        "events": ["DOCUMENTS_READY", "DOCUMENTS_ERROR"],
        "namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0",
    },
    dependencies={"webhook_scope": check_webhook},
    notifies=True,
)
@idempotent
async def create_webhook(
    request: ApiRequest, data: JSONBody[wire.CreateWebhook], webhook_scope: NamedDependency[WebhookScope]
) -> wire.SecretAnswer:
    """Create a webhook.

    The secret is shown only in this response. A URL in a forbidden address range is refused.
    """
    endpoint, secret = await endpoints.create_webhook(
        request.services.db,
        request.services.ring,
        webhook_scope,
        url=data.url,
        events=data.events,
        description=data.description,
    )
    return wire.SecretAnswer(
        message="Webhook created successfully", data=wire.SecretData(wire.Webhook.from_webhook(endpoint), secret)
    )


@_operation("GET", "/v1/webhooks")
async def list_webhooks(request: ApiRequest, params: NamedDependency[PaginationQuery]) -> wire.WebhooksAnswer:
    """List webhooks. Newest first. With X-Tenant-ID only webhooks of the tenant."""
    page_request = await request.read_page(params.to_page())
    page = await endpoints.list_webhooks(request.services.db, _key_scope(request), page_request)
    data = wire.WebhooksData(webhooks=[wire.Webhook.from_webhook(endpoint) for endpoint in page.items]).set_page(
        page_request, await request.write_cursor(page.cursor)
    )
    return wire.WebhooksAnswer(message="Webhooks fetched successfully", data=data)


@_operation("GET", _WEBHOOK_PATH, raises=_NOT_FOUND_CODES)
async def get_webhook(request: ApiRequest, webhook_id: FromPath[str]) -> wire.WebhookAnswer:
    """Get a webhook. The secret is not returned."""
    endpoint = await endpoints.get_webhook(request.services.db, _key_scope(request), webhook_id)
    return wire.WebhookAnswer(
        message="Webhook fetched successfully", data=wire.WebhookData(wire.Webhook.from_webhook(endpoint))
    )


@_operation("PATCH", _WEBHOOK_PATH, raises=_NOT_FOUND_CODES, example={"status": "ACTIVE"})
async def update_webhook(
    request: ApiRequest, webhook_id: FromPath[str], data: JSONBody[wire.UpdateWebhook]
) -> wire.WebhookAnswer:
    """Change a webhook. Fields that are not sent stay. `status: "ACTIVE"` enables a disabled endpoint."""
    services = request.services
    await endpoints.get_webhook(services.db, _key_scope(request), webhook_id)
    if data.events is not UNSET:
        _require_known(data.events)
    if data.url is not UNSET:
        await _require_url(request, data.url)
    changed = await endpoints.change_webhook(
        services.db,
        _key_scope(request),
        webhook_id,
        url=None if data.url is UNSET else data.url,
        events=None if data.events is UNSET else data.events,
        description=endpoints.KEEP_DESCRIPTION if data.description is UNSET else data.description,
        status=None if data.status is UNSET else data.status,
    )
    services.notices.send()
    return wire.WebhookAnswer(
        message="Webhook updated successfully", data=wire.WebhookData(wire.Webhook.from_webhook(changed))
    )


@_operation("DELETE", _WEBHOOK_PATH, raises=_NOT_FOUND_CODES)
async def delete_webhook(request: ApiRequest, webhook_id: FromPath[str]) -> wire.WebhookAnswer:
    """Delete a webhook. Its pending deliveries are deleted too."""
    deleted = await endpoints.delete_webhook(request.services.db, _key_scope(request), webhook_id)
    return wire.WebhookAnswer(
        message="Webhook deleted successfully", data=wire.WebhookData(wire.Webhook.from_webhook(deleted))
    )


@_operation(
    "POST", f"{_WEBHOOK_PATH}/rotate", raises=_NOT_FOUND_CODES, example={"overlapHours": 24}, body_optional=True
)
@idempotent
async def rotate_webhook(
    request: ApiRequest, webhook_id: FromPath[str], data: JSONBody[wire.RotateWebhook]
) -> wire.SecretAnswer:
    """Rotate the secret. The new secret is shown only here. Requests have signatures of both for `overlapHours`."""
    services = request.services
    endpoint, secret = await endpoints.rotate_secret(
        services.db, services.ring, _key_scope(request), webhook_id, data.overlap_hours
    )
    return wire.SecretAnswer(
        message="Secret rotated successfully", data=wire.SecretData(wire.Webhook.from_webhook(endpoint), secret)
    )


@_operation("POST", f"{_WEBHOOK_PATH}/test", raises=_NOT_FOUND_CODES)
async def test_webhook(request: ApiRequest, webhook_id: FromPath[str]) -> wire.DeliveryAnswer:
    """Send a test event. Sends `WEBHOOK_TEST`, also to a disabled endpoint."""
    delivery = await deliveries.send_test(request.services.db, _key_scope(request), webhook_id)
    request.services.notices.send()
    return wire.DeliveryAnswer(
        message="Test is being sent", data=wire.DeliveryData(wire.Delivery.from_delivery(delivery))
    )


@_operation("GET", f"{_WEBHOOK_PATH}/deliveries", raises=_NOT_FOUND_CODES)
async def list_deliveries(
    request: ApiRequest, webhook_id: FromPath[str], params: NamedDependency[wire.DeliveriesQuery]
) -> wire.DeliveriesAnswer:
    """List deliveries. Newest first, 50 per page by default."""
    page_request = params.to_page()
    requested = await request.read_page(page_request) or page_request
    page = await deliveries.list_deliveries(
        request.services.db, _key_scope(request), webhook_id, requested, status=params.status
    )
    data = wire.DeliveriesData(deliveries=[wire.Delivery.from_delivery(delivery) for delivery in page.items]).set_page(
        page_request, await request.write_cursor(page.cursor)
    )
    return wire.DeliveriesAnswer(message="Deliveries fetched successfully", data=data)


@_operation(
    "POST", f"{_WEBHOOK_PATH}/deliveries/{{delivery_id:str}}/redeliver", raises=(*_NOT_FOUND_CODES, ErrorCode.NOT_FOUND)
)
async def redeliver(request: ApiRequest, webhook_id: FromPath[str], delivery_id: FromPath[str]) -> wire.DeliveryAnswer:
    """Redeliver an event. It has the same `webhook-id` and a new signature."""
    delivery = await deliveries.retry_delivery(request.services.db, _key_scope(request), webhook_id, delivery_id)
    request.services.notices.send()
    return wire.DeliveryAnswer(
        message="Event is being sent again", data=wire.DeliveryData(wire.Delivery.from_delivery(delivery))
    )


ROUTE_HANDLERS = (
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


def _key_scope(request: ApiRequest) -> WebhookScope:
    """Return the webhooks that the key may see: of its namespace and tenant, else of the organization."""
    return WebhookScope(request.caller.organization, request.caller.namespace, request.tenant or None)


def _require_known(events: list[str]) -> None:
    if set(events) - {*EVENT_NAMES, EVERY_EVENT}:
        message = f"Each entry of events must be one of {', '.join((EVERY_EVENT, *EVENT_NAMES))}."
        raise ServiceError(_INVALID_REQUEST, message, field="events", reason="not_allowed")


async def _require_url(request: ApiRequest, url: str) -> None:
    # In a thread: the look-up of a name may take long.
    guard = fetch_guard.make_guard(request.services.settings)
    await request.services.probing.run_call(request.caller.organization, partial(endpoints.require_url, guard, url))
