"""Tables of content: documents, chunks, access lists and deletions."""

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
    NOT_DELETED,
    json_column,
    number_column,
    partition_column,
    reference_column,
    text_column,
    time_column,
)


class Document(SQLModel, table=True):
    """Ingested document. Its visible version is the chunks of `active_generation`."""

    __tablename__ = "documents"
    __table_args__ = (
        Index(
            "document_identity",
            "partition_id",
            "source",
            "external_id",
            unique=True,
            postgresql_where=NOT_DELETED,
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
    # Changes by clients with their times (`retrieval.documents.metadata`).
    changes: list[dict[str, Any]] = Field(
        sa_column=Column(JSONB, nullable=False, server_default=text("'[]'::jsonb")), default_factory=list
    )
    # Time at which the request with the current metadata was accepted.
    metadata_at: datetime | None = time_column(nullable=True)
    status: str = text_column(server_default="QUEUED")
    error: str | None = text_column(nullable=True)
    # Connection that listed the document last (`retrieval.documents.queries.connection_documents`).
    connection_id: str | None = text_column(nullable=True)
    # Document of the archive or mail that contains this one.
    archive_id: str | None = text_column(nullable=True)
    active_generation: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    # Number of the newest job run that saw this content, changed or not.
    latest_generation: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    fingerprint: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    raw_key: str | None = text_column(nullable=True)
    parsed_key: str | None = text_column(nullable=True)
    properties: dict[str, Any] = json_column()
    embedding: dict[str, Any] = json_column()
    # Size of content in ingestion; null once `properties` have it. The database function `document_size` reads both.
    accepted_bytes: int | None = Field(sa_column=Column(BigInteger, nullable=True))
    # Text search configuration of the chunks (`keywords.postings`).
    keyword_language: str | None = text_column(nullable=True)
    # Access list, with `inherits_access` that of the container; null: everyone with a key (`retrieval.principals`).
    access: dict[str, Any] | None = json_column(None)
    # Intersection of the access lists of versions in ingestion, which limits `access`; null: no limit.
    access_limit: dict[str, Any] | None = json_column(None)
    # Number of the newest job run when a client changed the list: runs up to it do not overwrite it.
    access_after: int | None = Field(sa_column=Column(BigInteger, nullable=True))
    inherits_access: bool = Field(sa_column_kwargs={"server_default": "false"})
    # Principals that `access` and `access_limit` allow and deny, maintained by a trigger; {@}: everyone.
    allowed: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default=text("'{@}'")))
    denied: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default=text("'{}'")))
    withholds_file: bool = Field(sa_column_kwargs={"server_default": "false"})
    # Why the content service's access list is unknown; null if it is known.
    access_reason: str | None = text_column(nullable=True)
    # Passages hidden from search (`retrieval.documents.hidden_passages`).
    hidden: list[dict[str, Any]] = Field(
        sa_column=Column(JSONB, nullable=False, server_default=text("'[]'::jsonb")), default_factory=list
    )
    # Texts of hidden passages by id, apart from `hidden`, which each search reads.
    hidden_texts: dict[str, str] = Field(
        sa_column=Column(JSONB, nullable=False, server_default=text("'{}'::jsonb")), default_factory=dict
    )
    created_at: datetime = time_column()
    updated_at: datetime = time_column()
    synced_at: datetime | None = time_column(nullable=True)
    deleted_at: datetime | None = time_column(nullable=True)


class Chunk(SQLModel, table=True):
    """Chunk of a version: characters `start` to `end` of the parsed text."""

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
    # Column names of the chunk's first table, embedded before the text.
    header: str = text_column(server_default="")
    # Typed fields of table rows and records.
    rows: list[dict[str, Any]] | None = Field(sa_column=Column(JSONB, nullable=True))
    embedding_key: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class Embedding(SQLModel, table=True):
    """Vector by hash of model and text; deleted with its last chunk."""

    __tablename__ = "embeddings"
    partition_id: int = number_column(primary_key=True)
    key: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    values: Any = Field(sa_column=Column(HALFVEC, nullable=False))


class StoredVector(SQLModel, table=True):
    """Vector of the PGVECTOR store."""

    __tablename__ = "vectors"
    partition_id: int = number_column(primary_key=True)
    id: str = text_column(primary_key=True)
    document_id: str = text_column()
    # Dimensions differ by namespace, so the column has none.
    values: Any = Field(sa_column=Column(HALFVEC, nullable=False))


class DocumentCount(SQLModel, table=True):
    """Number of documents by source and status: the sum of the rows, to which a trigger adds."""

    __tablename__ = "document_counts"
    partition_id: int = partition_column(primary_key=True)
    part: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    source: str = text_column()
    status: str = text_column()
    documents: int = Field(sa_column=Column(BigInteger, nullable=False))


class ConnectionDocument(SQLModel, table=True):
    """Document listed by a connection."""

    # Without foreign keys, whose checks would cost more than the inserts.
    __tablename__ = "connection_documents"
    __table_args__ = (Index("documents_by_connection", "connection_id", "document_id"),)
    document_id: str = text_column(primary_key=True)
    connection_id: str = text_column(primary_key=True)
    listed_at: datetime = time_column()


class Departure(SQLModel, table=True):
    """Document no longer listed by the connection."""

    __tablename__ = "departures"
    document_id: str = reference_column("documents.id", primary_key=True)
    connection_id: str = reference_column("connections.id", index=True, primary_key=True)
    job_run_id: str = text_column()
    # A person has to confirm the deletion, as after too many departures at once.
    held: bool = Field(sa_column_kwargs={"server_default": "false"})
    created_at: datetime = time_column()


class PageMiss(SQLModel, table=True):
    """Web page missing in `misses` consecutive job runs."""

    __tablename__ = "page_misses"
    document_id: str = reference_column("documents.id", primary_key=True)
    job_run_id: str = text_column()
    misses: int = Field(sa_column_kwargs={"server_default": "1"})
    reason: str = text_column()
    # One miss suffices for the deletion.
    final: bool = Field(sa_column_kwargs={"server_default": "false"})
    # A person has to confirm the deletion.
    held: bool = Field(sa_column_kwargs={"server_default": "false"})
    created_at: datetime = time_column()


class DocumentAlias(SQLModel, table=True):
    """Further address of a web page, with the version reported by the site."""

    __tablename__ = "document_aliases"
    partition_id: int = partition_column(primary_key=True)
    source: str = text_column(primary_key=True)
    address: str = text_column(primary_key=True)
    document_id: str = reference_column("documents.id", index=True)
    version: str = text_column(server_default="")
    job_run_id: str = text_column()


class AccessGroup(SQLModel, table=True):
    """Group of users and groups."""

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
    """SCIM user or group. `name` is `userName` or `displayName`."""

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


def _count_column() -> int:
    count: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    return count


class Deletion(SQLModel, table=True):
    """Request to delete documents or a namespace."""

    __tablename__ = "deletions"
    id: str = text_column(primary_key=True)
    organization_id: str = reference_column("organizations.id")
    namespace_id: str = text_column()
    # Null for a namespace with all tenants.
    tenant: str | None = text_column(nullable=True)
    documents: int = _count_column()
    chunks: int = _count_column()
    vectors: int = _count_column()
    files: int = _count_column()
    # A store refused to show whether it is empty.
    unread: bool = Field(sa_column=Column(Boolean, nullable=False, server_default=text("false")))
    requested_at: datetime = time_column()
    confirmed_at: datetime | None = time_column(nullable=True)


class DeletedPlace(SQLModel, table=True):
    """Sort key of a deleted document, kept for a day for cursors at this document."""

    __tablename__ = "deleted_places"
    __table_args__ = (Index("deleted_places_by_age", "deleted_at"),)
    partition_id: int = partition_column(primary_key=True)
    # Id of the document in OpenAI's API.
    name: str = text_column(primary_key=True)
    document_id: str = text_column()
    created_at: datetime = time_column()
    deleted_at: datetime = time_column()


class DeletionStore(SQLModel, table=True):
    """Number of entries removed from a store by a deletion, and time of the last check for remaining entries."""

    __tablename__ = "deletion_stores"
    deletion_id: str = reference_column("deletions.id", primary_key=True)
    store: str = text_column(primary_key=True)
    removed: int = Field(sa_column=Column(BigInteger, nullable=False))
    read_back_at: datetime | None = time_column(nullable=True)


class FilesFolder(SQLModel, table=True):
    """Id of the folder of files, as in the marker file (`retrieval.readiness.files_folder`), in a single row."""

    __tablename__ = "files_folder"
    __table_args__ = (CheckConstraint("single", name="files_folder_is_one"),)
    single: bool = Field(sa_column=Column(Boolean, primary_key=True, server_default=text("true"), nullable=False))
    id: str = text_column()
