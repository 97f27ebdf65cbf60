"""Who changed what, when."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, Column, DateTime, Index, SmallInteger, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import text_column


class AuditEntry(SQLModel, table=True):
    """One write that was asked for, done or refused. No foreign keys: an entry outlives what it tells of.

    `status`: the HTTP status of the answer. `source`: API or CLI. `object_ids`: the first documents that were changed,
    `object_count` of them in all. `changes`: access and members before and after. `request_id`: the service's own id of
    the request, `client_request_id`: the client's.
    """

    __tablename__ = "audit_entries"
    __table_args__ = (
        Index("audit_entries_by_age", "created_at", postgresql_using="brin"),
        CheckConstraint("source in ('API','CLI')", name="audit_source"),
    )
    organization_id: str = text_column(primary_key=True)
    created_at: datetime = Field(
        sa_column=Column(DateTime(timezone=True), primary_key=True, server_default=text("now()"), nullable=False)
    )
    id: str = text_column(primary_key=True)
    key_id: str | None = text_column(nullable=True)
    key_name: str | None = text_column(nullable=True)
    principal: str | None = text_column(nullable=True)
    method: str = text_column()
    route: str = text_column()
    object_type: str = text_column()
    object_id: str | None = text_column(nullable=True)
    status: int = Field(sa_column=Column(SmallInteger, nullable=False))
    request_id: str | None = text_column(nullable=True)
    source: str = text_column()
    subject: str | None = text_column(nullable=True)
    object_ids: list[str] | None = Field(sa_column=Column(ARRAY(Text), nullable=True))
    object_count: int | None = Field(nullable=True)
    changes: list[dict[str, Any]] | None = Field(sa_column=Column(JSONB, nullable=True))
    client_request_id: str | None = text_column(nullable=True)
