"""Ingested content: documents, chunks, search indexes, access lists, and deletions done and pending."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Identity,
    Index,
    LargeBinary,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import (
    KEPT,
    json_column,
    number_column,
    partition_column,
    reference_column,
    text_column,
    time_column,
)


class Document(SQLModel, table=True):
    """An ingested unit. Readers see the chunks of `active_generation` and no others.

    `latest_generation` is the newest run whose content this is; it is the greater one after a run without changes.
    `connection_id`: the newest of the connections that have it (`retrieval.documents.queries.connection_documents`).
    `keyword_language`: the text search configuration that its chunks are indexed with (`keywords.postings`).
    `archive_id`: the document of the archive or mail that this one was packed into. `metadata_at`: when the request was
    accepted whose metadata this is; `changes`: what clients changed in it, with the time of each, as
    `retrieval.documents.metadata` keeps it. `accepted_bytes`: the size of content that is on its way, null once
    `properties` tell it (`document_size` in the database). `access`: its own list, or with `inherits_access` the
    one that it has from its container (`retrieval.principals`), null for everyone with a key; `access_limit`: what the
    lists of versions that are being ingested have in common, null for none; `access_after`: the newest job run at the
    last change by a client; `allowed`, `denied`: who may read it by both lists, kept by a trigger; `access_reason`: why
    its content service's list is not known. `hidden`: passages that no search returns
    (`retrieval.documents.hidden_passages`).
    """

    __tablename__ = "documents"
    __table_args__ = (
        Index(
            "document_identity",
            "partition_id",
            "source",
            "external_id",
            unique=True,
            postgresql_where=KEPT,
        ),
        Index(
            "documents_of_partition", "partition_id", "created_at", "id", postgresql_where=text("deleted_at is null")
        ),
        Index(
            "documents_with_hidden",
            "partition_id",
            "created_at",
            "id",
            postgresql_where=text("deleted_at is null and hidden <> '[]'::jsonb"),
        ),
        Index(
            "documents_open", "partition_id", postgresql_where=text("allowed = '{@}'::text[] and deleted_at is null")
        ),
        Index(
            "documents_of_reader",
            "allowed",
            postgresql_using="gin",
            postgresql_where=text("allowed <> '{@}'::text[]"),
        ),
        Index("documents_by_archive", "archive_id", postgresql_where=text("archive_id is not null")),
        Index(
            "documents_by_metadata", "metadata", postgresql_using="gin", postgresql_ops={"metadata": "jsonb_path_ops"}
        ),
        Index(
            "documents_by_words",
            text("document_words(partition_id, name, external_id)"),
            postgresql_using="gin",
        ),
        Index(
            "documents_of_site",
            text("document_site(partition_id, external_id)"),
            postgresql_where=text("document_type = 'URL'"),
        ),
        Index(
            "documents_of_unknown_access",
            "partition_id",
            "created_at",
            "id",
            postgresql_where=text("deleted_at is null and access_reason is not null"),
        ),
    )
    id: str = text_column(primary_key=True)
    partition_id: int = partition_column()
    job_id: str = text_column()
    job_run_id: str = text_column()
    source: str = text_column()
    external_id: str = text_column()
    document_type: str = text_column()
    name: str = text_column()
    meta: dict[str, Any] = Field(
        sa_column=Column("metadata", JSONB, nullable=False, server_default=text("'{}'::jsonb"))
    )
    changes: list[dict[str, Any]] = Field(
        sa_column=Column(JSONB, nullable=False, server_default=text("'[]'::jsonb")), default_factory=list
    )
    metadata_at: datetime | None = time_column(nullable=True)
    status: str = text_column(server_default="QUEUED")
    error: str | None = text_column(nullable=True)
    connection_id: str | None = text_column(nullable=True)
    archive_id: str | None = text_column(nullable=True)
    active_generation: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    latest_generation: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    fingerprint: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    raw_key: str | None = text_column(nullable=True)
    parsed_key: str | None = text_column(nullable=True)
    properties: dict[str, Any] = json_column()
    embedding: dict[str, Any] = json_column()
    accepted_bytes: int | None = Field(sa_column=Column(BigInteger, nullable=True))
    keyword_language: str | None = text_column(nullable=True)
    access: dict[str, Any] | None = json_column(None)
    access_limit: dict[str, Any] | None = json_column(None)
    access_after: int | None = Field(sa_column=Column(BigInteger, nullable=True))
    inherits_access: bool = Field(sa_column_kwargs={"server_default": "false"})
    allowed: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default=text("'{@}'")))
    denied: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default=text("'{}'")))
    withholds_file: bool = Field(sa_column_kwargs={"server_default": "false"})
    access_reason: str | None = text_column(nullable=True)
    hidden: list[dict[str, Any]] = Field(
        sa_column=Column(JSONB, nullable=False, server_default=text("'[]'::jsonb")), default_factory=list
    )
    created_at: datetime = time_column()
    updated_at: datetime = time_column()
    synced_at: datetime | None = time_column(nullable=True)
    deleted_at: datetime | None = time_column(nullable=True)


class Chunk(SQLModel, table=True):
    """A piece of a parsed document: `parsed[start:end] == content`, offsets in characters.

    `header`: column names of its first table, embedded before it; `rows`: typed fields of its rows and records.
    """

    __tablename__ = "chunks"
    __table_args__ = (
        Index("chunk_of_generation", "document_id", "generation", "index", unique=True),
        Index("chunks_by_embedding", "partition_id", "embedding_key"),
    )
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    partition_id: int = number_column()
    document_id: str = text_column()
    generation: int = Field(sa_column=Column(BigInteger, nullable=False))
    index: int = Field(nullable=False)
    start: int = Field(nullable=False)
    end: int = Field(nullable=False)
    page: int | None = None
    tokens: int = Field(nullable=False)
    content: str = text_column()
    header: str = text_column(server_default="")
    rows: list[dict[str, Any]] | None = Field(sa_column=Column(JSONB, nullable=True))
    embedding_key: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class Embedding(SQLModel, table=True):
    """A vector, found again by the hash of model and text within one partition; it goes with its last chunk."""

    __tablename__ = "embeddings"
    partition_id: int = number_column(primary_key=True)
    key: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    values: Any = Field(sa_column=Column(HALFVEC, nullable=False))


class StoredVector(SQLModel, table=True):
    """The PGVECTOR store. Dimensions differ by namespace, so the column has none; large namespaces get an index."""

    __tablename__ = "vectors"
    partition_id: int = number_column(primary_key=True)
    id: str = text_column(primary_key=True)
    document_id: str = text_column()
    values: Any = Field(sa_column=Column(HALFVEC, nullable=False))


class DocumentCount(SQLModel, table=True):
    """Number of documents of a source with a status, in parts that a trigger on `documents` adds."""

    __tablename__ = "document_counts"
    partition_id: int = partition_column(primary_key=True)
    part: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    source: str = text_column()
    status: str = text_column()
    documents: int = Field(sa_column=Column(BigInteger, nullable=False))


class ConnectionDocument(SQLModel, table=True):
    """A connection that lists a document. No foreign keys: their checks would cost more than the insert."""

    __tablename__ = "connection_documents"
    __table_args__ = (Index("documents_by_connection", "connection_id", "document_id"),)
    document_id: str = text_column(primary_key=True)
    connection_id: str = text_column(primary_key=True)
    listed_at: datetime = time_column()


class Departure(SQLModel, table=True):
    """`held`: too many left at once, so a person is to confirm; otherwise the job run that found it removes it."""

    __tablename__ = "departures"
    document_id: str = reference_column("documents.id", primary_key=True)
    connection_id: str = reference_column("connections.id", index=True, primary_key=True)
    job_run_id: str = text_column()
    held: bool = Field(sa_column_kwargs={"server_default": "false"})
    created_at: datetime = time_column()


class PageMiss(SQLModel, table=True):
    """A web page that job runs did not find: `misses` in a row, `final` if one is enough, `held` for a person."""

    __tablename__ = "page_misses"
    document_id: str = reference_column("documents.id", primary_key=True)
    job_run_id: str = text_column()
    misses: int = Field(sa_column_kwargs={"server_default": "1"})
    reason: str = text_column()
    final: bool = Field(sa_column_kwargs={"server_default": "false"})
    held: bool = Field(sa_column_kwargs={"server_default": "false"})
    created_at: datetime = time_column()


class DocumentAlias(SQLModel, table=True):
    """A further address of a web page, with the site's own mark of the answer there."""

    __tablename__ = "document_aliases"
    partition_id: int = partition_column(primary_key=True)
    source: str = text_column(primary_key=True)
    address: str = text_column(primary_key=True)
    document_id: str = reference_column("documents.id", index=True)
    version: str = text_column(server_default="")
    job_run_id: str = text_column()


class AccessGroup(SQLModel, table=True):
    """A group of users and of other groups, by its name."""

    __tablename__ = "access_groups"
    partition_id: int = partition_column(primary_key=True)
    id: str = text_column(primary_key=True)
    created_at: datetime = time_column()
    updated_at: datetime = time_column()


class GroupMember(SQLModel, table=True):
    """Member of a group: `u:<user>` or `g:<group>`."""

    __tablename__ = "group_members"
    __table_args__ = (
        ForeignKeyConstraint(
            ["partition_id", "group_id"], ["access_groups.partition_id", "access_groups.id"], ondelete="CASCADE"
        ),
        Index("groups_of_member", "partition_id", "member"),
    )
    partition_id: int = number_column(primary_key=True)
    group_id: str = text_column(primary_key=True)
    member: str = text_column(primary_key=True)


class DirectoryResource(SQLModel, table=True):
    """User or group that an identity provider pushes by SCIM. `name`: its `userName` or `displayName`."""

    __tablename__ = "directory_resources"
    __table_args__ = (
        CheckConstraint("kind in ('User', 'Group')", name="directory_resource_kind"),
        Index("directory_resource_of_name", "partition_id", "kind", text("lower(name)"), unique=True),
        Index(
            "directory_resources_of_member",
            "resource",
            postgresql_using="gin",
            postgresql_ops={"resource": "jsonb_path_ops"},
        ),
    )
    partition_id: int = partition_column(primary_key=True)
    id: str = text_column(primary_key=True)
    kind: str = text_column()
    name: str = text_column()
    external_id: str | None = text_column(nullable=True)
    active: bool
    resource: dict[str, Any] = Field(sa_column=Column(JSONB, nullable=False))
    created_at: datetime = time_column()
    updated_at: datetime = time_column()


def _count() -> int:
    count: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    return count


class Deletion(SQLModel, table=True):
    """One DELETE of documents or of a namespace. `tenant` is null for a namespace with all of its tenants.

    `unread`: a store does not let us look whether it is empty.
    """

    __tablename__ = "deletions"
    id: str = text_column(primary_key=True)
    organization_id: str = reference_column("organizations.id")
    namespace_id: str = text_column()
    tenant: str | None = text_column(nullable=True)
    documents: int = _count()
    chunks: int = _count()
    vectors: int = _count()
    files: int = _count()
    unread: bool = Field(sa_column=Column(Boolean, nullable=False, server_default=text("false")))
    requested_at: datetime = time_column()
    confirmed_at: datetime | None = time_column(nullable=True)


class DeletedPlace(SQLModel, table=True):
    """Former place of a deleted document in lists, kept for a day. `name`: the id that OpenAI's clients know."""

    __tablename__ = "deleted_places"
    __table_args__ = (Index("deleted_places_by_age", "deleted_at"),)
    partition_id: int = partition_column(primary_key=True)
    name: str = text_column(primary_key=True)
    document_id: str = text_column()
    created_at: datetime = time_column()
    deleted_at: datetime = time_column()


class DeletionStore(SQLModel, table=True):
    """Data that one store lost by a deletion, and when it was last checked and empty."""

    __tablename__ = "deletion_stores"
    deletion_id: str = reference_column("deletions.id", primary_key=True)
    store: str = text_column(primary_key=True)
    removed: int = Field(sa_column=Column(BigInteger, nullable=False))
    read_back_at: datetime | None = time_column(nullable=True)


class FilesFolder(SQLModel, table=True):
    """One row: the id that the marker in the folder bears (`retrieval.readiness.files_folder`)."""

    __tablename__ = "files_folder"
    __table_args__ = (CheckConstraint("single", name="files_folder_is_one"),)
    single: bool = Field(sa_column=Column(Boolean, primary_key=True, server_default=text("true"), nullable=False))
    id: str = text_column()
