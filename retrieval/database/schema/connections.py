"""Tables of connections, OAuth2 states and schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Column, DateTime, Index, LargeBinary, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import partition_column, reference_column, text_column, time_column


class Connection(SQLModel, table=True):
    """OAuth2 access to an account of a content service."""

    __tablename__ = "connections"
    __table_args__ = (
        Index("connections_of_partition", "partition_id", "created_at", "id"),
        CheckConstraint("status in ('PENDING','ACTIVE','FAILED','REVOKED')", name="connection_status"),
    )
    id: str = text_column(primary_key=True)
    partition_id: int = partition_column()
    name: str = text_column()
    connector: str = text_column()
    status: str = text_column(server_default="PENDING")
    status_reason: str | None = text_column(nullable=True)
    client_redirect_url: str | None = text_column(nullable=True)
    credentials: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    account: str | None = text_column(nullable=True)
    # Of release 0.2.0, replaced by `schedules`.
    sync_minutes: int | None = None
    # IGNORE, or SOURCE for the service's access lists.
    permissions: str = text_column(server_default="IGNORE")
    # Position in the listing, null before the first.
    cursor: dict[str, Any] | None = Field(sa_column=Column(JSONB, nullable=True))
    # End of the last complete listing.
    listed_at: datetime | None = time_column(nullable=True)
    created_at: datetime = time_column()
    updated_at: datetime = time_column()


class OAuthState(SQLModel, table=True):
    """Pending authorization by hash of its single-use state."""

    __tablename__ = "oauth_states"
    __table_args__ = (Index("oauth_states_expiring", "expires_at"),)
    hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    connection_id: str = reference_column("connections.id", index=True)
    connector: str = text_column()
    verifier: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    expires_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    used_at: datetime | None = time_column(nullable=True)


class Push(SQLModel, table=True):
    """Push address of a connection, for hints of its content service."""

    __tablename__ = "pushes"
    __table_args__ = (
        Index("pushes_due", "due_at", postgresql_where=text("due_at is not null")),
        Index("pushes_to_renew", "renew_at", postgresql_where=text("renew_at is not null")),
    )
    connection_id: str = reference_column("connections.id", primary_key=True)
    # Unguessable part of the address.
    address: str = text_column(unique=True)
    secret: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    # First request with a right signature.
    confirmed_at: datetime | None = time_column(nullable=True)
    hints: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    hinted_at: datetime | None = time_column(nullable=True)
    refusals: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    refused_at: datetime | None = time_column(nullable=True)
    # Time of the next job run by a hint, null without a hint since the last.
    due_at: datetime | None = time_column(nullable=True)
    run_at: datetime | None = time_column(nullable=True)
    created_at: datetime = time_column()
    # The service's ids of a subscription that ends by itself, and the time of the next attempt to create or renew it.
    subscription: str | None = text_column(nullable=True)
    expires_at: datetime | None = time_column(nullable=True)
    renew_at: datetime | None = time_column(nullable=True)
    # Failed attempts since the last success, and the reason of the last one.
    failures: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    problem: str | None = text_column(nullable=True)


class Schedule(SQLModel, table=True):
    """Repeated ingestion by `minutes` or `cron`; every execution is a run of `job_id`."""

    __tablename__ = "schedules"
    __table_args__ = (
        Index("schedules_of_partition", "partition_id", "created_at", "id"),
        CheckConstraint("(minutes is null) <> (cron is null)", name="schedule_time"),
    )
    id: str = text_column(primary_key=True)
    partition_id: int = partition_column()
    job_id: str = text_column()
    source: str = text_column()
    config: dict[str, Any] = Field(sa_column=Column(JSONB, nullable=False))
    # Pages of a URL list.
    urls: list[str] | None = Field(sa_column=Column(ARRAY(Text), nullable=True))
    minutes: int | None = None
    cron: str | None = text_column(nullable=True)
    time_zone: str = text_column(server_default="UTC")
    paused: bool = Field(sa_column_kwargs={"server_default": "false"})
    # `paused` is not yet applied in Prefect.
    pause_pending: bool = Field(sa_column_kwargs={"server_default": "false"})
    # Reason of the last execution without job run.
    reason: str | None = text_column(nullable=True)
    # First of `refusals` consecutive failures to start.
    refused_since: datetime | None = time_column(nullable=True)
    refusals: int = Field(sa_column_kwargs={"server_default": "0"})
    created_at: datetime = time_column()
    updated_at: datetime = time_column()
