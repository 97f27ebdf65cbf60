"""Tables of webhooks, outbox and deliveries."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, Column, DateTime, Identity, Index, LargeBinary, Text, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import json_column, number_column, reference_column, text_column, time_column


class Webhook(SQLModel, table=True):
    """Webhook endpoint with its events."""

    __tablename__ = "webhooks"
    __table_args__ = (
        Index("webhooks_of_organization", "organization_id", "created_at", "id"),
        Index("webhooks_of_namespace", "namespace_id"),
        CheckConstraint("status in ('ACTIVE','DISABLED')", name="webhook_status"),
    )
    id: str = text_column(primary_key=True)
    organization_id: str = reference_column("organizations.id")
    # Scope of events; null for the whole organization.
    namespace_id: str | None = reference_column("namespaces.id", nullable=True)
    tenant: str | None = text_column(nullable=True)
    url: str = text_column()
    events: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    description: str | None = text_column(nullable=True)
    status: str = text_column(server_default="ACTIVE")
    status_reason: str | None = text_column(nullable=True)
    # Sealed signing secrets; `previous` is valid until `previous_until`.
    secret: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    previous: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    previous_until: datetime | None = time_column(nullable=True)
    # Number of the last event.
    sequence: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    # An event failed since the last success.
    failing: bool = Field(sa_column_kwargs={"server_default": "false"})
    # Last success or activation.
    alive_at: datetime = time_column()
    created_at: datetime = time_column()
    last_success_at: datetime | None = time_column(nullable=True)
    failures_since: datetime | None = time_column(nullable=True)
    consecutive_failures: int = Field(sa_column_kwargs={"server_default": "0"})
    failure_reason: str | None = text_column(nullable=True)


class WebhookOutbox(SQLModel, table=True):
    """Status change, written by a trigger in the same transaction."""

    __tablename__ = "webhook_outbox"
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    partition_id: int = number_column()
    type: str = text_column()
    # Job run or connection with ordered events; null for deletions, which wait for all earlier events.
    lane: str | None = text_column(nullable=True)
    data: dict[str, Any] = json_column()
    xact: int = Field(sa_column=Column(BigInteger, nullable=False, server_default=text("txid_current()")))
    at: datetime = Field(
        sa_column=Column(DateTime(timezone=True), nullable=False, server_default=text("clock_timestamp()"))
    )


class WebhookDelivery(SQLModel, table=True):
    """Event for an endpoint with its request body."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        Index("webhook_deliveries_of_webhook", "webhook_id", "sequence", unique=True),
        Index(
            "webhook_deliveries_due",
            "webhook_id",
            "next_attempt_at",
            "sequence",
            postgresql_where=text("status = 'PENDING'"),
        ),
        Index(
            "webhook_deliveries_in_order",
            "webhook_id",
            "lane",
            "sequence",
            postgresql_where=text("status = 'PENDING' and ordered"),
        ),
        Index("webhook_deliveries_by_age", "created_at"),
        CheckConstraint("status in ('PENDING','DELIVERED','FAILED')", name="webhook_delivery_status"),
    )
    id: str = text_column(primary_key=True)
    webhook_id: str = reference_column("webhooks.id")
    event_id: str = text_column()
    sequence: int = Field(sa_column=Column(BigInteger, nullable=False))
    type: str = text_column()
    namespace_id: str | None = text_column(nullable=True)
    lane: str | None = text_column(nullable=True)
    body: str = text_column()
    status: str = text_column(server_default="PENDING")
    # Not yet tried, so later events of the lane wait.
    ordered: bool = Field(sa_column_kwargs={"server_default": "true"})
    # All attempts; `tries` restart with a redelivery.
    attempts: int = Field(sa_column_kwargs={"server_default": "0"})
    tries: int = Field(sa_column_kwargs={"server_default": "0"})
    response_status: int | None = None
    reason: str | None = text_column(nullable=True)
    next_attempt_at: datetime | None = time_column(nullable=True)
    give_up_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    created_at: datetime = time_column()


class EventFeed(SQLModel, table=True):
    """Additional consumer of events: `prefect`, if enabled."""

    __tablename__ = "event_feeds"
    name: str = text_column(primary_key=True)


class PrefectEvent(SQLModel, table=True):
    """Event not yet sent to Prefect. `event_id` is stable across retries."""

    __tablename__ = "prefect_events"
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    event_id: UUID = Field(
        sa_column=Column(postgresql.UUID(as_uuid=True), nullable=False, server_default=text("gen_random_uuid()"))
    )
    type: str = text_column()
    data: dict[str, Any] = json_column()
    at: datetime = time_column()
