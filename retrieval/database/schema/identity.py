"""Tables of organizations, keys, namespaces, tenants and usage."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Double,
    Identity,
    Index,
    LargeBinary,
    SmallInteger,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import json_column, reference_column, text_column, time_column


class Organization(SQLModel, table=True):
    """Owner of namespaces, keys and tenants."""

    __tablename__ = "organizations"
    __table_args__ = (Index("organizations_counted", "id", postgresql_where=text("counted")),)
    id: str = text_column(primary_key=True)
    name: str = text_column()
    plan: str = text_column(server_default="custom")
    requests_per_minute: int = Field(sa_column_kwargs={"server_default": "10000"})
    namespace_limit: int | None = None
    # `open` or `registered`.
    tenants: str = text_column(server_default="open")
    tenant_required: bool = Field(sa_column_kwargs={"server_default": "false"})
    created_at: datetime = time_column()
    # Limits by name.
    quotas: dict[str, int] = json_column()
    # A quota exists or existed, so every change counts documents.
    counted: bool = Field(sa_column_kwargs={"server_default": "false"})
    counted_at: datetime | None = time_column(nullable=True)


class ApiKey(SQLModel, table=True):
    """Bearer key, stored as a hash."""

    __tablename__ = "api_keys"
    id: str = text_column(primary_key=True)
    organization_id: str = reference_column("organizations.id", index=True)
    name: str = text_column()
    hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False, unique=True))
    hint: str = text_column()
    scopes: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    namespace_id: str | None = text_column(nullable=True)
    tenant: str | None = text_column(nullable=True)
    # User represented by the key.
    principal: str | None = text_column(nullable=True)
    principal_required: bool = Field(sa_column_kwargs={"server_default": "false"})
    created_at: datetime = time_column()
    revoked_at: datetime | None = time_column(nullable=True)


class Tenant(SQLModel, table=True):
    """Registered tenant with quotas."""

    __tablename__ = "tenants"
    organization_id: str = reference_column("organizations.id", primary_key=True)
    id: str = text_column(primary_key=True)
    created_at: datetime = time_column()
    quotas: dict[str, int] = json_column()


class RateWindow(SQLModel, table=True):
    """Requests of a caller in a minute. Unlogged: losing a minute in a crash is acceptable."""

    __tablename__ = "rate_windows"
    __table_args__ = {"prefixes": ["UNLOGGED"]}
    caller: str = text_column(primary_key=True)
    minute: int = Field(sa_column=Column(BigInteger, nullable=False))
    requests: int = Field(nullable=False)


class ServerSecret(SQLModel, table=True):
    """Sealed secret of the installation: pepper of API keys, key of signed links."""

    __tablename__ = "server_secrets"
    name: str = text_column(primary_key=True)
    sealed: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class IdempotentAnswer(SQLModel, table=True):
    """Sealed response to a request with an Idempotency-Key, stored for a day."""

    __tablename__ = "idempotent_answers"
    __table_args__ = (Index("idempotent_answers_by_age", "created_at"),)
    caller: str = text_column(primary_key=True)
    key: str = text_column(primary_key=True)
    request_hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    sealed: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    created_at: datetime = time_column()


class UploadedFile(SQLModel, table=True):
    """Uploaded file without a namespace yet."""

    __tablename__ = "uploaded_files"
    __table_args__ = (
        Index("uploads_of_organization", "organization_id"),
        Index("uploads_by_expiry", "expires_at"),
    )
    id: str = text_column(primary_key=True)
    organization_id: str = reference_column("organizations.id")
    tenant: str = text_column()
    # Namespace of a bound key.
    namespace_id: str | None = text_column(nullable=True)
    name: str = text_column()
    media_type: str = text_column()
    purpose: str = text_column()
    size: int = Field(sa_column=Column(BigInteger, nullable=False))
    sha256: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    created_at: datetime = time_column()
    expires_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


class UploadedPiece(SQLModel, table=True):
    """Part of an uploaded file, from 1."""

    __tablename__ = "uploaded_pieces"
    file_id: str = reference_column("uploaded_files.id", primary_key=True)
    position: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    content: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class Namespace(SQLModel, table=True):
    """Container of content with public `config` and sealed `secrets` by dotted path."""

    __tablename__ = "namespaces"
    __table_args__ = (Index("namespaces_of_organization", "organization_id", "created_at"),)
    id: str = text_column(primary_key=True)
    organization_id: str = reference_column("organizations.id")
    name: str = text_column()
    config: dict[str, Any] = json_column()
    secrets: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    dimensions: int | None = None
    # Language of keyword search for all documents.
    keyword_language: str | None = text_column(nullable=True)
    # Grows with each change of model or store.
    epoch: int = Field(sa_column_kwargs={"server_default": "0"})
    # Sealed next configuration, built by the job run `pending_run`; `retired` is the previous one.
    pending: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    pending_run: str | None = text_column(nullable=True)
    retired: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    created_at: datetime = time_column()
    updated_at: datetime = time_column()
    deleted_at: datetime | None = time_column(nullable=True)


class Partition(SQLModel, table=True):
    """Scope (namespace, tenant) of chunks, postings, embeddings and vectors."""

    __tablename__ = "partitions"
    __table_args__ = (Index("partition_of_scope", "namespace_id", "tenant", unique=True),)
    id: int | None = Field(default=None, primary_key=True)
    namespace_id: str = reference_column("namespaces.id")
    tenant: str = text_column(server_default="")
    chunks: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    terms: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    # Text search configurations in use (`keywords.postings`).
    keyword_languages: list[str] = Field(
        sa_column=Column(ARRAY(Text), nullable=False, server_default=text("'{}'::text[]")), default_factory=list
    )
    # Language setting of the last complete indexing; null while incomplete.
    keyword_state: str | None = text_column(nullable=True)
    # Fits of evaluations by side, for `answerability_epoch`.
    answerability: dict[str, Any] | None = json_column(default=None)
    answerability_epoch: int | None = None


class QuotaChange(SQLModel, table=True):
    """Change of a tenant's document count; the sum is the count."""

    # Written by a trigger on `documents` for `counted` organizations and folded by `retrieval.accounts.quotas`.
    __tablename__ = "quota_changes"
    organization_id: str = text_column(primary_key=True)
    change: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    tenant: str = text_column()
    documents: int = Field(sa_column=Column(BigInteger, nullable=False))
    stored_bytes: int = Field(sa_column=Column(BigInteger, nullable=False))


class TokenUsage(SQLModel, table=True):
    """Embedded tokens by day (UTC), scope and model."""

    __tablename__ = "token_usage"
    organization_id: str = text_column(primary_key=True)
    day: date = Field(sa_column=Column(Date, primary_key=True))
    namespace_id: str = text_column(primary_key=True)
    tenant: str = text_column(primary_key=True)
    provider: str = text_column(primary_key=True)
    model: str = text_column(primary_key=True)
    tokens: int = Field(sa_column=Column(BigInteger, nullable=False))


class AuditEntry(SQLModel, table=True):
    """Requested write, done or refused. No foreign keys: entries outlive their objects."""

    __tablename__ = "audit_entries"
    __table_args__ = (
        Index("audit_entries_by_age", "created_at", postgresql_using="brin"),
        CheckConstraint("source in ('API','CLI','PREFECT')", name="audit_source"),
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
    # HTTP status.
    status: int = Field(sa_column=Column(SmallInteger, nullable=False))
    # Service's id of the request; `client_request_id` is the client's.
    request_id: str | None = text_column(nullable=True)
    # API, CLI or PREFECT.
    source: str = text_column()
    subject: str | None = text_column(nullable=True)
    # First changed documents, of `object_count`.
    object_ids: list[str] | None = Field(sa_column=Column(ARRAY(Text), nullable=True))
    object_count: int | None = Field(nullable=True)
    # Access and members before and after the change.
    changes: list[dict[str, Any]] | None = Field(sa_column=Column(JSONB, nullable=True))
    client_request_id: str | None = text_column(nullable=True)


class MetricCount(SQLModel, table=True):
    """Counter or histogram value, a few hundred rows per organization."""

    __tablename__ = "metric_counts"
    # "" for the whole installation.
    organization_id: str = text_column(primary_key=True)
    name: str = text_column(primary_key=True)
    # Label values, joined by commas.
    labels: str = text_column(primary_key=True)
    # Upper bound of a histogram bucket, or `sum`; "" for a counter.
    part: str = text_column(primary_key=True)
    value: float = Field(sa_column=Column(Double, nullable=False))


class SearchTime(SQLModel, table=True):
    """Searches of a scope by duration and hour. `bucket` is 8 times log2 of milliseconds."""

    __tablename__ = "search_times"
    namespace_id: str = text_column(primary_key=True)
    tenant: str = text_column(primary_key=True)
    hour: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    bucket: int = Field(primary_key=True)
    searches: int = Field()
