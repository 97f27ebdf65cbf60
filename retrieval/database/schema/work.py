"""Tables of work: jobs, batches, crawls, breakers and dispatcher loops."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    LargeBinary,
    SmallInteger,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import json_column, partition_column, reference_column, text_column, time_column
from retrieval.statuses import Stage


class Job(SQLModel, table=True):
    """Accepted ingestion request; each execution is a job run."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index(
            "jobs_of_connection",
            text("(config->>'connectionId')"),
            postgresql_where=text("config->>'connectionId' is not null"),
        ),
    )
    id: str = text_column(primary_key=True)
    organization_id: str = reference_column("organizations.id")
    partition_id: int = partition_column(index=True)
    source: str = text_column()
    config: dict[str, Any] = json_column()
    created_at: datetime = time_column()


class Batch(SQLModel, table=True):
    """Job runs of a source and scope in one flow run."""

    __tablename__ = "batches"
    __table_args__ = (
        Index("batches_open", "created_at", postgresql_where=text("finished_at is null")),
        Index("batches_suspended", "suspended_at", postgresql_where=text("suspended_at is not null")),
        Index("batches_of_partition", "partition_id"),
    )
    id: str = text_column(primary_key=True)
    partition_id: int = partition_column()
    source: str = text_column()
    # Work queue of the dispatch (`fair_queue`).
    queue: str = text_column(server_default="default")
    # Number of job runs, later additions included.
    size: int = Field(sa_column_kwargs={"server_default": "0"})
    attempt: int = Field(sa_column_kwargs={"server_default": "1"})
    # Grows with each claim; only the holder of the current value writes.
    fence: int = Field(sa_column_kwargs={"server_default": "0"})
    lease_until: datetime | None = time_column(nullable=True)
    # The worker returned the lease in good order.
    released: bool = Field(sa_column_kwargs={"server_default": "false"})
    # Document, or job run in listing, processed without others.
    at_work: str | None = text_column(nullable=True)
    # Crashes of flow runs attributed to the row (`crash_isolation`).
    blame: int = Field(sa_column_kwargs={"server_default": "0"})
    flow_run_id: str | None = text_column(nullable=True)
    created_at: datetime = time_column()
    dispatched_at: datetime | None = time_column(nullable=True)
    started_at: datetime | None = time_column(nullable=True)
    finished_at: datetime | None = time_column(nullable=True)
    # Last search for waiting job runs (`batch_append`).
    looked_at: datetime | None = time_column(nullable=True)
    # Suspension of the flow run by a person, or start of a finished batch's wait.
    suspended_at: datetime | None = time_column(nullable=True)
    # The next dispatch resumes the suspended flow run.
    resumes: bool = Field(sa_column_kwargs={"server_default": "false"})


class JobRun(SQLModel, table=True):
    """Execution of a job. A QUEUED run without batch waits for the dispatcher."""

    __tablename__ = "job_runs"
    __table_args__ = (
        Index(
            "job_runs_waiting",
            "partition_id",
            "source",
            "number",
            postgresql_where=text("batch_id is null and finished_at is null"),
        ),
        Index("job_runs_of_partition", "partition_id", "number"),
        Index("job_runs_unfinished", "partition_id", "source", "number", postgresql_where=text("finished_at is null")),
        Index("job_runs_resuming", "resumes_batch", postgresql_where=text("resumes_batch is not null")),
        CheckConstraint("status in ('QUEUED','PRE_PROCESSING','PROCESSING','COMPLETED')", name="job_run_status"),
    )
    id: str = text_column(primary_key=True)
    number: int = Field(sa_column=Column(BigInteger, Identity(always=True), nullable=False, unique=True))
    job_id: str = reference_column("jobs.id", index=True)
    partition_id: int = partition_column()
    source: str = text_column()
    status: str = text_column(server_default="QUEUED")
    batch_id: str | None = Field(sa_column=Column(Text, ForeignKey("batches.id", ondelete="SET NULL"), index=True))
    cancel_requested: bool = Field(sa_column_kwargs={"server_default": "false"})
    # Key of an open breaker.
    waits_for: str | None = text_column(nullable=True)
    # Batch with the suspended flow run to continue.
    resumes_batch: str | None = Field(
        sa_column=Column(Text, ForeignKey("batches.id", ondelete="SET NULL"), nullable=True)
    )
    to_discover: bool = Field(sa_column_kwargs={"server_default": "false"})
    discover_cursor: str | None = text_column(nullable=True)
    blame: int = Field(sa_column_kwargs={"server_default": "0"})
    # Id of the creating request (`retrieval.origin`).
    request_id: str | None = text_column(nullable=True)
    traceparent: str | None = text_column(nullable=True)
    # PUSH for a run that a hint of a content service started.
    trigger: str | None = text_column(nullable=True)
    progress: dict[str, Any] = json_column()
    timings: dict[str, Any] = json_column()
    created_at: datetime = time_column()
    updated_at: datetime = time_column()
    started_at: datetime | None = time_column(nullable=True)
    finished_at: datetime | None = time_column(nullable=True)
    # Sealed; null after the end of the run.
    password: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))


class RunDocument(SQLModel, table=True):
    """Progress of a document in a job run. `stage` is the last completed step."""

    __tablename__ = "run_documents"
    job_run_id: str = reference_column("job_runs.id", primary_key=True)
    document_id: str = text_column(primary_key=True, index=True)
    position: int = Field(nullable=False)
    generation: int = Field(sa_column=Column(BigInteger, nullable=False))
    status: str = text_column(server_default="QUEUED")
    stage: str = text_column(server_default=Stage.ACCEPTED.value)
    error: str | None = text_column(nullable=True)
    name: str = text_column()
    media_type: str = text_column(server_default="")
    raw_key: str | None = text_column(nullable=True)
    raw_hash: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    raw_size: int | None = Field(sa_column=Column(BigInteger, nullable=True))
    parsed_key: str | None = text_column(nullable=True)
    fingerprint: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    title: str = text_column(server_default="")
    pages: list[int] = Field(sa_column=Column(ARRAY(BigInteger), nullable=False, server_default=text("'{}'")))
    properties: dict[str, Any] = json_column()
    embedding: dict[str, Any] = json_column()
    # Namespace epoch of the chunks.
    epoch: int = Field(sa_column_kwargs={"server_default": "0"})
    # Source version and partition of a next generation, during a new embedding.
    made_from: str | None = text_column(nullable=True)
    partition_id: int | None = None
    # Access list of the new version; null keeps the current one.
    access: dict[str, Any] | None = json_column(None)
    blame: int = Field(sa_column_kwargs={"server_default": "0"})


class InboxText(SQLModel, table=True):
    """Accepted text until the run stores it as a file."""

    __tablename__ = "inbox"
    job_run_id: str = reference_column("job_runs.id", primary_key=True)
    document_id: str = text_column(primary_key=True)
    content: str = text_column()


class Sweep(SQLModel, table=True):
    """Deleted object still in a store, due for garbage collection."""

    __tablename__ = "sweeps"
    __table_args__ = (
        Index("sweeps_due", "due_at"),
        Index("sweeps_of_partition", "partition_id", "due_at"),
        Index("sweeps_of_deletion", "deletion_id", postgresql_where=text("deletion_id is not null")),
        Index("sweeps_uploads", "file_key", postgresql_where=text("upload is not null")),
    )
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    partition_id: int = partition_column()
    kind: str = text_column()
    document_id: str | None = text_column(nullable=True)
    generation: int | None = Field(sa_column=Column(BigInteger, nullable=True))
    file_key: str | None = text_column(nullable=True)
    # Deletion with a receipt waiting for the sweep.
    deletion_id: str | None = text_column(nullable=True)
    # Removed so far (`retrieval.documents.receipts`).
    removed: dict[str, Any] = json_column()
    tries: int = Field(sa_column_kwargs={"server_default": "0"})
    due_at: datetime = time_column()
    # name, mediaType, size and sha256 of a file to ingest.
    upload: dict[str, Any] | None = json_column(default=None)


class CrawlPage(SQLModel, table=True):
    """Page or content hash of a crawl, until the end of the job run."""

    __tablename__ = "crawl_pages"
    job_run_id: str = reference_column("job_runs.id", primary_key=True)
    key: str = text_column(primary_key=True)
    position: int = Field(sa_column=Column(BigInteger, Identity(always=True), nullable=False))
    depth: int = Field(nullable=False)
    done: bool = Field(sa_column_kwargs={"server_default": "false"})
    kept: bool = Field(sa_column_kwargs={"server_default": "false"})
    tries: int = Field(sa_column_kwargs={"server_default": "0"})
    linked_from: str = text_column(server_default="")


class Breaker(SQLModel, table=True):
    """State of a failing vendor or site, by organization and credential. Rows exist only during failures."""

    __tablename__ = "breakers"
    __table_args__ = (
        Index("breakers_open", "open_until", postgresql_where=text("open_until is not null")),
        Index("breakers_of_organization", "organization_id", "updated_at"),
    )
    # Hash of organization, vendor and credential.
    key: str = text_column(primary_key=True)
    organization_id: str = reference_column("organizations.id")
    name: str = text_column()
    reason: str = text_column()
    failures: int = Field(sa_column_kwargs={"server_default": "0"})
    # Seconds lost in consecutive `failures`.
    lost: float = Field(sa_column_kwargs={"server_default": "0"})
    # Number of openings since `opened_at`.
    opens: int = Field(sa_column_kwargs={"server_default": "0"})
    # Seconds before waiting job runs fail.
    patience: float = Field(nullable=False)
    opened_at: datetime | None = time_column(nullable=True)
    open_until: datetime | None = time_column(nullable=True)
    # Batch with permission to test the vendor.
    probe: str | None = text_column(nullable=True)
    # Scopes with all ingestion through the vendor.
    partitions: list[int] = Field(sa_column=Column(ARRAY(BigInteger), nullable=False, server_default=text("'{}'")))
    updated_at: datetime = time_column()


class PrefectLevers(SQLModel, table=True):
    """Pauses in Prefect at the last read of a dispatcher (`jobs.levers`); a single row."""

    __tablename__ = "prefect_levers"
    id: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    levers: list[dict[str, Any]] = Field(sa_column=Column(JSONB, nullable=False))
    # Sources with paused deployments.
    sources: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    recorded_at: datetime = time_column()


class DispatcherLoop(SQLModel, table=True):
    """State of a dispatcher's loop."""

    __tablename__ = "dispatcher_loops"
    # Host and process.
    dispatcher: str = text_column(primary_key=True)
    loop: str = text_column(primary_key=True)
    started_at: datetime = time_column()
    succeeded_at: datetime | None = time_column(nullable=True)
    # Error class of a failure since the last success.
    reason: str | None = text_column(nullable=True)
    recorded_at: datetime = time_column()
