"""Authorizations of content services, the states of those that are on their way, and schedules of ingestion."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, Column, DateTime, Index, LargeBinary, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import partition_column, reference_column, text_column, time_column


class Connection(SQLModel, table=True):
    """OAuth2 access to one account of a content service. `cursor`: position of its listing, null before it;
    `listed_at`: end of its last complete listing.

    `sync_minutes`: of release 0.2.0, replaced by `schedules`. `permissions`: IGNORE, or SOURCE where documents have the
    access lists of the service.
    """

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
    sync_minutes: int | None = None
    permissions: str = text_column(server_default="IGNORE")
    cursor: dict[str, Any] | None = Field(sa_column=Column(JSONB, nullable=True))
    listed_at: datetime | None = time_column(nullable=True)
    created_at: datetime = time_column()
    updated_at: datetime = time_column()


class OAuthState(SQLModel, table=True):
    """Pending authorization of a callback: only the hash of the state is stored, and it is used once."""

    __tablename__ = "oauth_states"
    __table_args__ = (Index("oauth_states_expiring", "expires_at"),)
    hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    connection_id: str = reference_column("connections.id", index=True)
    connector: str = text_column()
    verifier: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    expires_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    used_at: datetime | None = time_column(nullable=True)


class Schedule(SQLModel, table=True):
    """Ingestion that is repeated by itself: each time is a job run of `job_id`, which is made with the first one.

    `urls`: pages of a URL list. `minutes` or `cron`: when it is due. `pause_pending`: `paused` was set by a request
    and Prefect has yet to be told. `reason`: why the last time brought no job run. `refusals`: consecutive
    due times that could not start one, the first at `refused_since`.
    """

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
    urls: list[str] | None = Field(sa_column=Column(ARRAY(Text), nullable=True))
    minutes: int | None = None
    cron: str | None = text_column(nullable=True)
    time_zone: str = text_column(server_default="UTC")
    paused: bool = Field(sa_column_kwargs={"server_default": "false"})
    pause_pending: bool = Field(sa_column_kwargs={"server_default": "false"})
    reason: str | None = text_column(nullable=True)
    refused_since: datetime | None = time_column(nullable=True)
    refusals: int = Field(sa_column_kwargs={"server_default": "0"})
    created_at: datetime = time_column()
    updated_at: datetime = time_column()
