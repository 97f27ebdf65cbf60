"""The one definition of the schema: SQLModel tables. Alembic's history is made from them and tested against them.

A `partition` is one (namespace, tenant) pair, the unit of isolation; its small number keeps the bulk tables narrow.
A `generation` is the number of the job run that made it, so a newer one is always greater.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlmodel import Field, SQLModel

_KEPT = text("deleted_at is null")


def _text(**kwargs: Any) -> Any:
    kwargs.setdefault("nullable", False)
    return Field(sa_column=Column(Text, **kwargs))


def _reference(target: str, **kwargs: Any) -> Any:
    kwargs.setdefault("nullable", False)
    return Field(sa_column=Column(Text, ForeignKey(target, ondelete="CASCADE"), **kwargs))


def _partition(**kwargs: Any) -> Any:
    return Field(sa_column=Column(ForeignKey("partitions.id", ondelete="CASCADE"), nullable=False, **kwargs))


def _number(**kwargs: Any) -> Any:
    """The partition of a row in the bulk tables: no foreign key, whose check would cost more than the insert."""
    return Field(sa_column=Column(Integer, nullable=False, **kwargs))


def _json(default: str | None = "{}") -> Any:
    server_default = None if default is None else text(f"'{default}'::jsonb")
    return Field(sa_column=Column(JSONB, nullable=default is None, server_default=server_default))


def _time(*, nullable: bool = False) -> Any:
    server_default = None if nullable else text("now()")
    return Field(sa_column=Column(DateTime(timezone=True), nullable=nullable, server_default=server_default))


class Organization(SQLModel, table=True):
    """Owns namespaces, keys and tenants. `tenants` is `open` or `registered` (D40)."""

    __tablename__ = "organizations"
    id: str = _text(primary_key=True)
    name: str = _text()
    plan: str = _text(server_default="custom")
    requests_per_minute: int = Field(sa_column_kwargs={"server_default": "10000"})
    namespace_limit: int | None = None
    tenants: str = _text(server_default="open")
    tenant_required: bool = Field(sa_column_kwargs={"server_default": "false"})
    created_at: datetime = _time()


class ApiKey(SQLModel, table=True):
    """A bearer key: only its hash is kept."""

    __tablename__ = "api_keys"
    id: str = _text(primary_key=True)
    organization_id: str = _reference("organizations.id", index=True)
    name: str = _text()
    hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False, unique=True))
    hint: str = _text()
    scopes: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    namespace_id: str | None = _text(nullable=True)
    tenant: str | None = _text(nullable=True)
    created_at: datetime = _time()
    revoked_at: datetime | None = _time(nullable=True)


class Tenant(SQLModel, table=True):
    """A tenant that an organization knows."""

    __tablename__ = "tenants"
    organization_id: str = _reference("organizations.id", primary_key=True)
    id: str = _text(primary_key=True)
    created_at: datetime = _time()


class RateWindow(SQLModel, table=True):
    """Requests of one caller in one minute. Unlogged: a crash may forget a minute, never slow it down."""

    __tablename__ = "rate_windows"
    __table_args__ = {"prefixes": ["UNLOGGED"]}
    caller: str = _text(primary_key=True)
    minute: int = Field(sa_column=Column(BigInteger, nullable=False))
    requests: int = Field(nullable=False)


class ServerSecret(SQLModel, table=True):
    """Secrets of the installation itself, sealed: the pepper of API keys, the key of signed links."""

    __tablename__ = "server_secrets"
    name: str = _text(primary_key=True)
    sealed: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class Namespace(SQLModel, table=True):
    """Where content goes. `config` holds what may be shown, `secrets` the sealed rest, by dotted path."""

    __tablename__ = "namespaces"
    __table_args__ = (Index("namespaces_of_organization", "organization_id", "created_at"),)
    id: str = _text(primary_key=True)
    organization_id: str = _reference("organizations.id")
    name: str = _text()
    config: dict[str, Any] = _json()
    secrets: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    dimensions: int | None = None
    created_at: datetime = _time()
    updated_at: datetime = _time()
    deleted_at: datetime | None = _time(nullable=True)


class Partition(SQLModel, table=True):
    """One (namespace, tenant): the number that scopes chunks, postings, embeddings and vectors."""

    __tablename__ = "partitions"
    __table_args__ = (Index("partition_of_scope", "namespace_id", "tenant", unique=True),)
    id: int | None = Field(default=None, primary_key=True)
    namespace_id: str = _reference("namespaces.id")
    tenant: str = _text(server_default="")
    chunks: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    terms: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))


class Job(SQLModel, table=True):
    """One ingestion request as it was accepted; each execution of it is a job run."""

    __tablename__ = "jobs"
    id: str = _text(primary_key=True)
    organization_id: str = _reference("organizations.id")
    partition_id: int = _partition(index=True)
    source: str = _text()
    config: dict[str, Any] = _json()
    created_at: datetime = _time()


class Batch(SQLModel, table=True):
    """Job runs of one source and scope that share a flow run. `fence` grows with each claim; only its holder writes."""

    __tablename__ = "batches"
    __table_args__ = (Index("batches_open", "created_at", postgresql_where=text("finished_at is null")),)
    id: str = _text(primary_key=True)
    partition_id: int = _partition()
    source: str = _text()
    attempt: int = Field(sa_column_kwargs={"server_default": "1"})
    fence: int = Field(sa_column_kwargs={"server_default": "0"})
    lease_until: datetime | None = _time(nullable=True)
    flow_run_id: str | None = _text(nullable=True)
    created_at: datetime = _time()
    dispatched_at: datetime | None = _time(nullable=True)
    started_at: datetime | None = _time(nullable=True)
    finished_at: datetime | None = _time(nullable=True)


class JobRun(SQLModel, table=True):
    """An execution of a job, and the outbox: a QUEUED run without a batch waits for the dispatcher."""

    __tablename__ = "job_runs"
    __table_args__ = (
        Index("job_runs_waiting", "number", postgresql_where=text("batch_id is null and finished_at is null")),
        Index("job_runs_of_partition", "partition_id", "number"),
        CheckConstraint("status in ('QUEUED','PRE_PROCESSING','PROCESSING','COMPLETED')", name="job_run_status"),
    )
    id: str = _text(primary_key=True)
    number: int = Field(sa_column=Column(BigInteger, Identity(always=True), nullable=False, unique=True))
    job_id: str = _reference("jobs.id", index=True)
    partition_id: int = _partition()
    source: str = _text()
    status: str = _text(server_default="QUEUED")
    batch_id: str | None = Field(sa_column=Column(Text, ForeignKey("batches.id", ondelete="SET NULL"), index=True))
    cancel_requested: bool = Field(sa_column_kwargs={"server_default": "false"})
    progress: dict[str, Any] = _json()
    timings: dict[str, Any] = _json()
    created_at: datetime = _time()
    updated_at: datetime = _time()
    started_at: datetime | None = _time(nullable=True)
    finished_at: datetime | None = _time(nullable=True)


class Document(SQLModel, table=True):
    """An ingested unit. Readers see the chunks of `active_generation` and no others.

    `latest_generation` is the newest run whose content this is; it is the greater one after a run without changes.
    """

    __tablename__ = "documents"
    __table_args__ = (
        Index(
            "document_identity",
            "partition_id",
            "source",
            "external_id",
            unique=True,
            postgresql_where=_KEPT,
        ),
        Index(
            "documents_of_partition", "partition_id", "created_at", "id", postgresql_where=text("deleted_at is null")
        ),
        Index(
            "documents_by_metadata", "metadata", postgresql_using="gin", postgresql_ops={"metadata": "jsonb_path_ops"}
        ),
    )
    id: str = _text(primary_key=True)
    partition_id: int = _partition()
    job_id: str = _text()
    job_run_id: str = _text()
    source: str = _text()
    external_id: str = _text()
    document_type: str = _text()
    name: str = _text()
    meta: dict[str, Any] = Field(
        sa_column=Column("metadata", JSONB, nullable=False, server_default=text("'{}'::jsonb"))
    )
    status: str = _text(server_default="QUEUED")
    error: str | None = _text(nullable=True)
    connection_id: str | None = _text(nullable=True)
    active_generation: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    latest_generation: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    fingerprint: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    raw_key: str | None = _text(nullable=True)
    parsed_key: str | None = _text(nullable=True)
    properties: dict[str, Any] = _json()
    embedding: dict[str, Any] = _json()
    created_at: datetime = _time()
    updated_at: datetime = _time()
    synced_at: datetime | None = _time(nullable=True)
    deleted_at: datetime | None = _time(nullable=True)


class RunDocument(SQLModel, table=True):
    """A document within a job run: how far it has come there. `stage` names the last step that is done."""

    __tablename__ = "run_documents"
    job_run_id: str = _reference("job_runs.id", primary_key=True)
    document_id: str = _text(primary_key=True, index=True)
    position: int = Field(nullable=False)
    generation: int = Field(sa_column=Column(BigInteger, nullable=False))
    status: str = _text(server_default="QUEUED")
    stage: str = _text(server_default="accepted")
    error: str | None = _text(nullable=True)
    name: str = _text()
    media_type: str = _text(server_default="")
    raw_key: str | None = _text(nullable=True)
    raw_hash: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    raw_size: int | None = Field(sa_column=Column(BigInteger, nullable=True))
    parsed_key: str | None = _text(nullable=True)
    fingerprint: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    title: str = _text(server_default="")
    pages: list[int] = Field(sa_column=Column(ARRAY(BigInteger), nullable=False, server_default=text("'{}'")))
    properties: dict[str, Any] = _json()
    embedding: dict[str, Any] = _json()


class InboxText(SQLModel, table=True):
    """An accepted text, durable from the moment of the answer until the run has put it into the file store."""

    __tablename__ = "inbox"
    job_run_id: str = _reference("job_runs.id", primary_key=True)
    document_id: str = _text(primary_key=True)
    content: str = _text()


class Chunk(SQLModel, table=True):
    """A piece of a parsed document: `parsed[start:end] == content`, offsets in characters."""

    __tablename__ = "chunks"
    __table_args__ = (
        Index("chunk_of_generation", "document_id", "generation", "index", unique=True),
        Index("chunks_by_embedding", "partition_id", "embedding_key"),
    )
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    partition_id: int = _number()
    document_id: str = _text()
    generation: int = Field(sa_column=Column(BigInteger, nullable=False))
    index: int = Field(nullable=False)
    start: int = Field(nullable=False)
    end: int = Field(nullable=False)
    page: int | None = None
    tokens: int = Field(nullable=False)
    content: str = _text()
    embedding_key: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class Embedding(SQLModel, table=True):
    """A vector, found again by the hash of model and text within one partition; it goes with its last chunk."""

    __tablename__ = "embeddings"
    partition_id: int = _number(primary_key=True)
    key: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    values: Any = Field(sa_column=Column(HALFVEC, nullable=False))


class StoredVector(SQLModel, table=True):
    """The PGVECTOR store. Dimensions differ by namespace, so the column has none; large namespaces get an index."""

    __tablename__ = "vectors"
    partition_id: int = _number(primary_key=True)
    id: str = _text(primary_key=True)
    document_id: str = _text()
    values: Any = Field(sa_column=Column(HALFVEC, nullable=False))


class Posting(SQLModel, table=True):
    """The keyword side: how often a term stands in an active chunk of `length` terms."""

    __tablename__ = "postings"
    __table_args__ = (Index("postings_of_chunk", "chunk_id"),)
    partition_id: int = _number(primary_key=True)
    term: str = _text(primary_key=True)
    chunk_id: int = Field(sa_column=Column(BigInteger, primary_key=True))
    tf: int = Field(sa_column=Column(SmallInteger, nullable=False))
    length: int = Field(nullable=False)


class Sweep(SQLModel, table=True):
    """Something that is gone from every answer and still lies in a store: removed from `due_at` on."""

    __tablename__ = "sweeps"
    __table_args__ = (Index("sweeps_due", "due_at"),)
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    partition_id: int = _partition()
    kind: str = _text()
    document_id: str | None = _text(nullable=True)
    generation: int | None = Field(sa_column=Column(BigInteger, nullable=True))
    file_key: str | None = _text(nullable=True)
    tries: int = Field(sa_column_kwargs={"server_default": "0"})
    due_at: datetime = _time()


class IdempotentAnswer(SQLModel, table=True):
    """The answer to a request that carried an Idempotency-Key, sealed, kept for a day (D19)."""

    __tablename__ = "idempotent_answers"
    caller: str = _text(primary_key=True)
    key: str = _text(primary_key=True)
    request_hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    sealed: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    created_at: datetime = _time()
