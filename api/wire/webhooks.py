"""Webhooks and deliveries in requests and responses."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import DataAnswer, Listing, PaginationQuery, Timestamp
from api.wire.health import ResourceHealth
from retrieval.database.pagination import PAGE_SIZE, PageRequest
from retrieval.webhooks import deliveries, endpoints
from retrieval.webhooks.events import EVENT_NAMES, EVERY_EVENT

Url = Annotated[str, Meta(min_length=1, max_length=2048, examples=["https://example.com/hooks/retrieval"])]
Events = Annotated[
    list[str],
    Meta(
        min_length=1,
        max_length=len(EVENT_NAMES) + 1,
        examples=[["DOCUMENTS_READY", "DOCUMENTS_ERROR"]],
        extra_json_schema={"items": {"type": "string", "enum": [*EVENT_NAMES, EVERY_EVENT]}},
    ),
]
Description = Annotated[str, Meta(max_length=500, examples=["Search index of the website"])]
Status = Literal["ACTIVE", "DISABLED"]


class CreateWebhook(Struct, rename="camel"):
    """An endpoint to notify of events; of one tenant's events if X-Tenant-ID is sent."""

    url: Annotated[
        Url, Meta(description="URL of the endpoint: https, or http in an address range that the operator allows.")
    ]
    events: Annotated[Events, Meta(description='Names of events, or `["*"]` for all.')]
    namespace_id: Annotated[str | None, Meta(description="Only events of this namespace.")] = None
    description: Annotated[Description | None, Meta(description="A description for people.")] = None


class UpdateWebhook(Struct, rename="camel"):
    """Changes to a webhook; absent fields do not change."""

    url: Annotated[Url | UnsetType, Meta(description="The new URL.")] = UNSET
    events: Annotated[
        Events | UnsetType, Meta(description="The new list of events, which replaces the previous one.")
    ] = UNSET
    description: Annotated[
        Description | UnsetType | None, Meta(description="A description for people; null removes it.")
    ] = UNSET
    status: Annotated[
        Status | UnsetType,
        Meta(description="`ACTIVE` enables the endpoint again and sends pending deliveries at once."),
    ] = UNSET


class RotateWebhook(Struct, rename="camel"):
    """Options of the rotation of a webhook's secret."""

    overlap_hours: Annotated[
        float,
        Meta(
            ge=0,
            le=endpoints.MAX_OVERLAP_HOURS,
            description="Hours for which requests are signed with the previous secret too.",
        ),
    ] = 24.0


class Webhook(Struct, rename="camel", kw_only=True):
    """An endpoint for events."""

    id: Annotated[str, Meta(description="The object's id.")]
    url: Annotated[str, Meta(description="URL of the endpoint.")]
    events: Annotated[list[str], Meta(description="The events that are sent; `*` means all.")]
    namespace_id: Annotated[str | None, Meta(description="The namespace whose events are sent; null for all.")]
    tenant_id: Annotated[str | None, Meta(description="The tenant whose events are sent; null for all.")]
    description: Annotated[str | None, Meta(description="A description for people.")]
    status: Annotated[Status, Meta(description="The status of the endpoint.")]
    status_reason: Annotated[
        str | None, Meta(description="Reason why the endpoint was disabled; null if it is active.")
    ]
    created_at: Annotated[Timestamp, Meta(description="Time of creation.")]
    health: Annotated[ResourceHealth, Meta(description="Outcome of its deliveries.")]
    delivered_last_day: Annotated[int, Meta(description="Events of the last 24 hours that were delivered.")]
    failed_last_day: Annotated[int, Meta(description="Events of the last 24 hours whose delivery was given up.")]

    @classmethod
    def from_webhook(cls, webhook: endpoints.Webhook) -> Webhook:
        return cls(
            id=webhook.id,
            url=webhook.url,
            events=webhook.events,
            namespace_id=webhook.namespace_id,
            tenant_id=webhook.tenant,
            description=webhook.description,
            status="ACTIVE" if webhook.status == "ACTIVE" else "DISABLED",
            status_reason=webhook.status_reason,
            created_at=Timestamp.from_datetime(webhook.created_at),
            health=ResourceHealth.from_health(webhook.health),
            delivered_last_day=webhook.delivered_last_day,
            failed_last_day=webhook.failed_last_day,
        )


class WebhooksData(Listing, kw_only=True):
    """Webhooks, newest first."""

    webhooks: list[Webhook]


class WebhooksAnswer(DataAnswer[WebhooksData]):
    """The webhooks visible to the request."""


class WebhookData(Struct):
    """A webhook."""

    webhook: Webhook


class WebhookAnswer(DataAnswer[WebhookData]):
    """The current state of the webhook."""


class SecretData(Struct):
    """The webhook with its new secret, shown only once."""

    webhook: Webhook
    secret: Annotated[
        str, Meta(description="Secret for signatures of Standard Webhooks. It is shown only in this response.")
    ]


class SecretAnswer(DataAnswer[SecretData]):
    """The webhook and the new secret."""


class DeliveriesQuery(PaginationQuery, rename="camel"):
    """Filter and page of deliveries, by default 50 per page."""

    status: Annotated[
        Literal["PENDING", "DELIVERED", "FAILED"] | None, Meta(description="Only deliveries with this status.")
    ] = None

    def to_page(self) -> PageRequest:
        return PageRequest(self.page_size or PAGE_SIZE, self.cursor)


class Delivery(Struct, rename="camel", kw_only=True):
    """Delivery of one event to one webhook."""

    id: Annotated[str, Meta(description="The object's id.")]
    webhook_id: Annotated[str, Meta(description="The webhook's id.")]
    event_id: Annotated[str, Meta(description="The value of the header `webhook-id`, the same in every attempt.")]
    type: Annotated[str, Meta(description="The name of the event.")]
    sequence: Annotated[
        int, Meta(description="Sequence number of the event at this webhook, equal to `data.sequence` of its body.")
    ]
    status: Annotated[
        Literal["PENDING", "DELIVERED", "FAILED"],
        Meta(description="PENDING before the first success; FAILED once no further attempt is made."),
    ]
    attempts: Annotated[int, Meta(description="Number of attempts.")]
    response_status: Annotated[int | None, Meta(description="HTTP status of the last response; null without one.")]
    reason: Annotated[str | None, Meta(description="Reason why the last attempt failed; null if it succeeded.")]
    next_attempt_at: Annotated[Timestamp | None, Meta(description="Time of the next attempt; null without one.")]
    created_at: Annotated[Timestamp, Meta(description="Time of creation.")]

    @classmethod
    def from_delivery(cls, delivery: deliveries.Delivery) -> Delivery:
        return cls(
            id=delivery.id,
            webhook_id=delivery.webhook_id,
            event_id=delivery.event_id,
            type=delivery.type,
            sequence=delivery.sequence,
            status=delivery.status,  # type: ignore[arg-type]
            attempts=delivery.attempts,
            response_status=delivery.response_status,
            reason=delivery.reason,
            next_attempt_at=Timestamp.from_optional(delivery.next_attempt_at),
            created_at=Timestamp.from_datetime(delivery.created_at),
        )


class DeliveriesData(Listing, kw_only=True):
    """Deliveries, newest first."""

    deliveries: Annotated[list[Delivery], Meta(description="The deliveries, newest first.")]


class DeliveriesAnswer(DataAnswer[DeliveriesData]):
    """Deliveries to the webhook, sent and pending."""


class DeliveryData(Struct):
    """A delivery."""

    delivery: Delivery


class DeliveryAnswer(DataAnswer[DeliveryData]):
    """The new delivery, already in progress."""
