"""Webhooks and their deliveries on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import Answer, Listing, PartQuery, Timestamp
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

WORDS: Mapping[str, str] = {
    "webhook": "The webhook.",
    "webhooks": "The webhooks.",
    "Webhook.url": "Where events are sent.",
    "Webhook.events": "What it hears of; `*` is everything.",
    "Webhook.namespaceId": "The namespace that it hears of; null for all of the organization.",
    "Webhook.tenantId": "The tenant that it hears of; null for all.",
    "Webhook.description": "What it is for, in the words of whoever made it.",
    "Webhook.status": "Whether events are sent.",
    "Webhook.statusReason": "Why it was switched off; null otherwise.",
    "CreateWebhook.url": "https, or http in a range that the operator allows.",
    "CreateWebhook.events": 'Names of events, or `["*"]` for all.',
    "CreateWebhook.namespaceId": "Hear of this namespace alone.",
    "CreateWebhook.description": "What it is for.",
    "UpdateWebhook.url": "Another address.",
    "UpdateWebhook.events": "Other events, instead of the former ones.",
    "UpdateWebhook.description": "What it is for; null for none.",
    "UpdateWebhook.status": "`ACTIVE` switches it on again, and what waits is tried at once.",
    "secret": "What requests are signed with, by Standard Webhooks; shown here alone.",
    "overlapHours": "For how long requests are signed with the former secret, too.",
    "delivery": "The delivery.",
    "deliveries": "The deliveries, newest first.",
    "webhookId": "The webhook that it is for.",
    "eventId": "The event's `webhook-id`, the same on every attempt.",
    "Delivery.type": "The name of the event.",
    "Delivery.sequence": "The place of the event among those of this webhook; `data.sequence` of its body.",
    "Delivery.status": "PENDING until it was taken or given up.",
    "DeliveriesQuery.status": "Those of this status alone.",
    "attempts": "How often it was tried.",
    "responseStatus": "HTTP status of the last answer; null without one.",
    "Delivery.reason": "Why the last attempt was not taken; null if it was.",
    "nextAttemptAt": "When it is tried next; null if it is not.",
}
"""What its properties mean, by name: for the OpenAPI document."""


class CreateWebhook(Struct, rename="camel"):
    """An endpoint to tell. With an X-Tenant-ID it hears of that tenant alone, else of all."""

    url: Url
    events: Events
    namespace_id: str | None = None
    description: Description | None = None


class UpdateWebhook(Struct, rename="camel"):
    """What to change; what is not sent stays."""

    url: Url | UnsetType = UNSET
    events: Events | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET
    status: Status | UnsetType = UNSET


class RotateWebhook(Struct, rename="camel"):
    """How the secrets change."""

    overlap_hours: Annotated[float, Meta(ge=0, le=endpoints.OVERLAP_HOURS)] = 24.0


class Webhook(Struct, rename="camel", kw_only=True):
    """An endpoint of the organization."""

    id: str
    url: str
    events: list[str]
    namespace_id: str | None
    tenant_id: str | None
    description: str | None
    status: Status
    status_reason: str | None
    created_at: Timestamp

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


class WebhooksAnswer(Answer, kw_only=True):
    """The webhooks that the request may see."""

    data: WebhooksData


class WebhookData(Struct):
    """One webhook."""

    webhook: Webhook


class WebhookAnswer(Answer, kw_only=True):
    """The webhook as it is now."""

    data: WebhookData


class SecretData(Struct):
    """The webhook with its new secret, which is never shown again."""

    webhook: Webhook
    secret: str


class SecretAnswer(Answer, kw_only=True):
    """The webhook and its new secret."""

    data: SecretData


class DeliveriesQuery(PartQuery, rename="camel"):
    """Which deliveries to list: 50 at a time unless `pageSize` says otherwise."""

    status: Literal["PENDING", "DELIVERED", "FAILED"] | None = None

    def bounded(self) -> Part:
        return Part(self.page_size or PAGE, self.cursor)


class Delivery(Struct, rename="camel", kw_only=True):
    """An event at one endpoint."""

    id: str
    webhook_id: str
    event_id: str
    type: str
    sequence: int
    status: Literal["PENDING", "DELIVERED", "FAILED"]
    attempts: int
    response_status: int | None
    reason: str | None
    next_attempt_at: Timestamp | None
    created_at: Timestamp

    @classmethod
    def of(cls, one: deliveries.Delivery) -> Delivery:
        return cls(
            id=one.id,
            webhook_id=one.webhook_id,
            event_id=one.event_id,
            type=one.type,
            sequence=one.sequence,
            status=one.status,  # type: ignore[arg-type]
            attempts=one.attempts,
            response_status=one.response_status,
            reason=one.reason,
            next_attempt_at=Timestamp.of(one.next_attempt_at) if one.next_attempt_at else None,
            created_at=Timestamp.of(one.created_at),
        )


class DeliveriesData(Listing, kw_only=True):
    """Newest first."""

    deliveries: list[Delivery]


class DeliveriesAnswer(Answer, kw_only=True):
    """What the endpoint was sent, and what waits."""

    data: DeliveriesData


class DeliveryData(Struct):
    """One delivery."""

    delivery: Delivery


class DeliveryAnswer(Answer, kw_only=True):
    """The delivery, which is made at once."""

    data: DeliveryData
