"""Webhooks and their deliveries on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import DataAnswer, Listing, PartQuery, Timestamp
from retrieval.database.pages import PAGE, Part
from retrieval.webhooks import deliveries, endpoints
from retrieval.webhooks.events import EVENTS, EVERY

Url = Annotated[str, Meta(min_length=1, max_length=2048, examples=["https://example.com/hooks/retrieval"])]
Events = Annotated[
    list[str],
    Meta(
        min_length=1,
        max_length=len(EVENTS) + 1,
        examples=[["DOCUMENTS_READY", "DOCUMENTS_ERROR"]],
        extra_json_schema={"items": {"type": "string", "enum": [*EVENTS, EVERY]}},
    ),
]
Description = Annotated[str, Meta(max_length=500, examples=["Search index of the website"])]
Status = Literal["ACTIVE", "DISABLED"]


class CreateWebhook(Struct, rename="camel"):
    """An endpoint to tell. With an X-Tenant-ID it hears of that tenant alone, else of all."""

    url: Annotated[Url, Meta(description="https, or http in a range that the operator allows.")]
    events: Annotated[Events, Meta(description='Names of events, or `["*"]` for all.')]
    namespace_id: Annotated[str | None, Meta(description="Hear of this namespace alone.")] = None
    description: Annotated[Description | None, Meta(description="What it is for.")] = None


class UpdateWebhook(Struct, rename="camel"):
    """Changes to a webhook; fields that are not sent stay."""

    url: Annotated[Url | UnsetType, Meta(description="Another address.")] = UNSET
    events: Annotated[Events | UnsetType, Meta(description="Other events, instead of the former ones.")] = UNSET
    description: Annotated[Description | UnsetType | None, Meta(description="What it is for; null for none.")] = UNSET
    status: Annotated[
        Status | UnsetType, Meta(description="`ACTIVE` switches it on again, and what waits is tried at once.")
    ] = UNSET


class RotateWebhook(Struct, rename="camel"):
    """Rotation of the secrets."""

    overlap_hours: Annotated[
        float,
        Meta(
            ge=0,
            le=endpoints.OVERLAP_HOURS,
            description="For how long requests are signed with the former secret, too.",
        ),
    ] = 24.0


class Webhook(Struct, rename="camel", kw_only=True):
    """An endpoint of the organization."""

    id: Annotated[str, Meta(description="The id.")]
    url: Annotated[str, Meta(description="Where events are sent.")]
    events: Annotated[list[str], Meta(description="What it hears of; `*` is everything.")]
    namespace_id: Annotated[
        str | None, Meta(description="The namespace that it hears of; null for all of the organization.")
    ]
    tenant_id: Annotated[str | None, Meta(description="The tenant that it hears of; null for all.")]
    description: Annotated[str | None, Meta(description="What it is for, in the words of whoever made it.")]
    status: Annotated[Status, Meta(description="Whether events are sent.")]
    status_reason: Annotated[str | None, Meta(description="Why it was switched off; null otherwise.")]
    created_at: Annotated[Timestamp, Meta(description="When it was made.")]

    @classmethod
    def of(cls, hook: endpoints.Webhook) -> Webhook:
        return cls(
            id=hook.id,
            url=hook.url,
            events=hook.events,
            namespace_id=hook.namespace_id,
            tenant_id=hook.tenant,
            description=hook.description,
            status="ACTIVE" if hook.status == "ACTIVE" else "DISABLED",
            status_reason=hook.status_reason,
            created_at=Timestamp.of(hook.created_at),
        )


class WebhooksData(Listing, kw_only=True):
    """Newest first."""

    webhooks: list[Webhook]


class WebhooksAnswer(DataAnswer[WebhooksData]):
    """The webhooks that the request may see."""


class WebhookData(Struct):
    """One webhook."""

    webhook: Webhook


class WebhookAnswer(DataAnswer[WebhookData]):
    """The webhook as it is now."""


class SecretData(Struct):
    """The webhook with its new secret, which is never shown again."""

    webhook: Webhook
    secret: Annotated[str, Meta(description="What requests are signed with, by Standard Webhooks; shown here alone.")]


class SecretAnswer(DataAnswer[SecretData]):
    """The webhook and its new secret."""


class DeliveriesQuery(PartQuery, rename="camel"):
    """Filter of deliveries: 50 at a time by default."""

    status: Annotated[
        Literal["PENDING", "DELIVERED", "FAILED"] | None, Meta(description="Those of this status alone.")
    ] = None

    def bounded(self) -> Part:
        return Part(self.page_size or PAGE, self.cursor)


class Delivery(Struct, rename="camel", kw_only=True):
    """An event at one endpoint."""

    id: Annotated[str, Meta(description="The id.")]
    webhook_id: Annotated[str, Meta(description="The webhook that it is for.")]
    event_id: Annotated[str, Meta(description="The event's `webhook-id`, the same on every attempt.")]
    type: Annotated[str, Meta(description="The name of the event.")]
    sequence: Annotated[
        int, Meta(description="The place of the event among those of this webhook; `data.sequence` of its body.")
    ]
    status: Annotated[
        Literal["PENDING", "DELIVERED", "FAILED"], Meta(description="PENDING until it was taken or given up.")
    ]
    attempts: Annotated[int, Meta(description="How often it was tried.")]
    response_status: Annotated[int | None, Meta(description="HTTP status of the last answer; null without one.")]
    reason: Annotated[str | None, Meta(description="Why the last attempt was not taken; null if it was.")]
    next_attempt_at: Annotated[Timestamp | None, Meta(description="When it is tried next; null if it is not.")]
    created_at: Annotated[Timestamp, Meta(description="When it was made.")]

    @classmethod
    def of(cls, delivery: deliveries.Delivery) -> Delivery:
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
            next_attempt_at=Timestamp.of(delivery.next_attempt_at) if delivery.next_attempt_at else None,
            created_at=Timestamp.of(delivery.created_at),
        )


class DeliveriesData(Listing, kw_only=True):
    """Newest first."""

    deliveries: Annotated[list[Delivery], Meta(description="The deliveries, newest first.")]


class DeliveriesAnswer(DataAnswer[DeliveriesData]):
    """Deliveries to the endpoint, sent and waiting."""


class DeliveryData(Struct):
    """One delivery."""

    delivery: Delivery


class DeliveryAnswer(DataAnswer[DeliveryData]):
    """The delivery, which is made at once."""
