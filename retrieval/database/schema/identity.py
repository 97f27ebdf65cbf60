"""Who asks and where things go: organizations, keys, tenants, namespaces and their partitions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    LargeBinary,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import json_column, reference_column, text_column, time_column


class Organization(SQLModel, table=True):
    """Owns namespaces, keys and tenants. `tenants` is `open` or `registered`.

    `quotas`: limits by name. `counted`: it or a tenant has had one, so its documents are counted as they come and go;
    `counted_at`: when they were counted anew last.
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
    """A bearer key: only its hash is kept. `principal`: the user as whom it acts."""

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


class Namespace(SQLModel, table=True):
    """Where content goes. `config` holds what may be shown, `secrets` the sealed rest, by dotted path.

    `epoch` grows whenever another model or store takes over; `pending` is the next of them, sealed, while the job run
    `pending_run` builds it, `retired` the one before. `keyword_language`: the one that all its documents are read in.
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

    `keyword_languages`: text search configurations in use (`search.documents_languages`); `keyword_state`: what its
    namespace wanted when the last of its documents was indexed as wanted, null while some may not be.
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
