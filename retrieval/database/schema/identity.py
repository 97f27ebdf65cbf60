"""Organizations, keys, namespaces and tenants, and what is counted and kept of their use."""

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
    """Owns namespaces, keys and tenants. `tenants` is `open` or `registered`.

    `quotas`: limits by name. `counted`: it or a tenant has had one, so its documents are counted with each change;
    `counted_at`: time of the last full count.
    """

    __tablename__ = "organizations"
    __table_args__ = (Index("organizations_counted", "id", postgresql_where=text("counted")),)
    id: str = text_column(primary_key=True)
    name: str = text_column()
    plan: str = text_column(server_default="custom")
    requests_per_minute: int = Field(sa_column_kwargs={"server_default": "10000"})
    namespace_limit: int | None = None
    tenants: str = text_column(server_default="open")
    tenant_required: bool = Field(sa_column_kwargs={"server_default": "false"})
    created_at: datetime = time_column()
    quotas: dict[str, int] = json_column()
    counted: bool = Field(sa_column_kwargs={"server_default": "false"})
    counted_at: datetime | None = time_column(nullable=True)


class ApiKey(SQLModel, table=True):
    """A bearer key: only its hash is stored. `principal`: the user that it acts for."""

    __tablename__ = "api_keys"
    id: str = text_column(primary_key=True)
    organization_id: str = reference_column("organizations.id", index=True)
    name: str = text_column()
    hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False, unique=True))
    hint: str = text_column()
    scopes: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    namespace_id: str | None = text_column(nullable=True)
    tenant: str | None = text_column(nullable=True)
    principal: str | None = text_column(nullable=True)
    principal_required: bool = Field(sa_column_kwargs={"server_default": "false"})
    created_at: datetime = time_column()
    revoked_at: datetime | None = time_column(nullable=True)


class Tenant(SQLModel, table=True):
    """A tenant that an organization knows, and its quotas."""

    __tablename__ = "tenants"
    organization_id: str = reference_column("organizations.id", primary_key=True)
    id: str = text_column(primary_key=True)
    created_at: datetime = time_column()
    quotas: dict[str, int] = json_column()


class RateWindow(SQLModel, table=True):
    """Requests of one caller in one minute. Unlogged: a crash may forget a minute, never slow it down."""

    __tablename__ = "rate_windows"
    __table_args__ = {"prefixes": ["UNLOGGED"]}
    caller: str = text_column(primary_key=True)
    minute: int = Field(sa_column=Column(BigInteger, nullable=False))
    requests: int = Field(nullable=False)


class ServerSecret(SQLModel, table=True):
    """Secrets of the installation itself, sealed: the pepper of API keys, the key of signed links."""

    __tablename__ = "server_secrets"
    name: str = text_column(primary_key=True)
    sealed: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class IdempotentAnswer(SQLModel, table=True):
    """The answer to a request that carried an Idempotency-Key, sealed, kept for a day."""

    __tablename__ = "idempotent_answers"
    __table_args__ = (Index("idempotent_answers_by_age", "created_at"),)
    caller: str = text_column(primary_key=True)
    key: str = text_column(primary_key=True)
    request_hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    sealed: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    created_at: datetime = time_column()


class UploadedFile(SQLModel, table=True):
    """A file that a client uploaded before it names a namespace. `namespace_id`: that of the key, if it is bound."""

    __tablename__ = "uploaded_files"
    __table_args__ = (
        Index("uploads_of_organization", "organization_id"),
        Index("uploads_by_expiry", "expires_at"),
    )
    id: str = text_column(primary_key=True)
    organization_id: str = reference_column("organizations.id")
    tenant: str = text_column()
    namespace_id: str | None = text_column(nullable=True)
    name: str = text_column()
    media_type: str = text_column()
    purpose: str = text_column()
    size: int = Field(sa_column=Column(BigInteger, nullable=False))
    sha256: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    created_at: datetime = time_column()
    expires_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


class UploadedPiece(SQLModel, table=True):
    """A piece of an uploaded file, counted from 1."""

    __tablename__ = "uploaded_pieces"
    file_id: str = reference_column("uploaded_files.id", primary_key=True)
    position: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    content: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class Namespace(SQLModel, table=True):
    """Container of content. `config` holds the public settings, `secrets` the sealed ones, by dotted path.

    `epoch` grows with each change of model or store; `pending` is the next of them, sealed, while the job run
    `pending_run` builds it, `retired` the one before. `keyword_language`: the language of keyword search in all its
    documents.
    """

    __tablename__ = "namespaces"
    __table_args__ = (Index("namespaces_of_organization", "organization_id", "created_at"),)
    id: str = text_column(primary_key=True)
    organization_id: str = reference_column("organizations.id")
    name: str = text_column()
    config: dict[str, Any] = json_column()
    secrets: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    dimensions: int | None = None
    keyword_language: str | None = text_column(nullable=True)
    epoch: int = Field(sa_column_kwargs={"server_default": "0"})
    pending: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    pending_run: str | None = text_column(nullable=True)
    retired: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    created_at: datetime = time_column()
    updated_at: datetime = time_column()
    deleted_at: datetime | None = time_column(nullable=True)


class Partition(SQLModel, table=True):
    """One (namespace, tenant): the number that scopes chunks, postings, embeddings and vectors.

    `keyword_languages`: text search configurations in use (`keywords.postings`); `keyword_state`: what its
    namespace wanted when the last of its documents was indexed as wanted, null while some may not be.
    `answerability`: fits of evaluations by the way to search, to what the namespace's epoch was then.
    """

    __tablename__ = "partitions"
    __table_args__ = (Index("partition_of_scope", "namespace_id", "tenant", unique=True),)
    id: int | None = Field(default=None, primary_key=True)
    namespace_id: str = reference_column("namespaces.id")
    tenant: str = text_column(server_default="")
    chunks: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    terms: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    keyword_languages: list[str] = Field(
        sa_column=Column(ARRAY(Text), nullable=False, server_default=text("'{}'::text[]")), default_factory=list
    )
    keyword_state: str | None = text_column(nullable=True)
    answerability: dict[str, Any] | None = json_column(default=None)
    answerability_epoch: int | None = None


class QuotaChange(SQLModel, table=True):
    """Change of a tenant's number of documents by one statement; the sum is the number.

    Written by a trigger on `documents` where the organization is `counted`; `retrieval.accounts.quotas` folds them.
    """

    __tablename__ = "quota_changes"
    organization_id: str = text_column(primary_key=True)
    change: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    tenant: str = text_column()
    documents: int = Field(sa_column=Column(BigInteger, nullable=False))
    stored_bytes: int = Field(sa_column=Column(BigInteger, nullable=False))


class TokenUsage(SQLModel, table=True):
    """Tokens of documents that were embedded on a day (UTC), by scope and model."""

    __tablename__ = "token_usage"
    organization_id: str = text_column(primary_key=True)
    day: date = Field(sa_column=Column(Date, primary_key=True))
    namespace_id: str = text_column(primary_key=True)
    tenant: str = text_column(primary_key=True)
    provider: str = text_column(primary_key=True)
    model: str = text_column(primary_key=True)
    tokens: int = Field(sa_column=Column(BigInteger, nullable=False))


class AuditEntry(SQLModel, table=True):
    """One requested write, done or refused. No foreign keys: an entry outlives its objects.

    `status`: the HTTP status of the answer. `source`: API, CLI or PREFECT. `object_ids`: the first documents that were
    changed, `object_count` of them in all. `changes`: access and members before and after. `request_id`: the service's
    own id of the request, `client_request_id`: the client's.
    """

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
    status: int = Field(sa_column=Column(SmallInteger, nullable=False))
    request_id: str | None = text_column(nullable=True)
    source: str = text_column()
    subject: str | None = text_column(nullable=True)
    object_ids: list[str] | None = Field(sa_column=Column(ARRAY(Text), nullable=True))
    object_count: int | None = Field(nullable=True)
    changes: list[dict[str, Any]] | None = Field(sa_column=Column(JSONB, nullable=True))
    client_request_id: str | None = text_column(nullable=True)


class MetricCount(SQLModel, table=True):
    """`organization_id`: '' for the whole installation. `labels`: their values with commas. `part`: of a histogram the
    upper bound of a bucket, or `sum`; '' of a counter. A few hundred rows for each organization at most."""

    __tablename__ = "metric_counts"
    organization_id: str = text_column(primary_key=True)
    name: str = text_column(primary_key=True)
    labels: str = text_column(primary_key=True)
    part: str = text_column(primary_key=True)
    value: float = Field(sa_column=Column(Double, nullable=False))


class SearchTime(SQLModel, table=True):
    """Number of searches of a scope by duration and hour. `bucket`: 8 times the log2 of milliseconds."""

    __tablename__ = "search_times"
    namespace_id: str = text_column(primary_key=True)
    tenant: str = text_column(primary_key=True)
    hour: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    bucket: int = Field(primary_key=True)
    searches: int = Field()
