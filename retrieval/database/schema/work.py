"""Work on its way: jobs, batches, crawls, vendors that do not answer, and the dispatchers' loops."""

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
    """One ingestion request as it was accepted; each execution of it is a job run."""

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
    """Job runs of one source and scope that share a flow run. `fence` grows with each claim; only its holder writes.

    `released`: the worker returned the lease in good order. `at_work`: the document, or the job run being listed, that
    the worker processes alone. `blame`, here and below: crashes of flow runs that are attributed to it (`losses`).
    `queue`: the work queue it is dispatched to (`fair_queue`). `size`: job runs that it began with and that joined it.
    `looked_at`: when it last took up waiting job runs (`batch_append`). `suspended_at`: time when a person suspended
    the flow run of an open batch, or at which that of a finished one began to wait for its turn. `resumes`: the next
    dispatch resumes the suspended flow run.
    """

    __tablename__ = "batches"
    __table_args__ = (
        Index("batches_open", "created_at", postgresql_where=text("finished_at is null")),
        Index("batches_suspended", "suspended_at", postgresql_where=text("suspended_at is not null")),
        Index("batches_of_partition", "partition_id"),
    )
    id: str = text_column(primary_key=True)
    partition_id: int = partition_column()
    source: str = text_column()
    queue: str = text_column(server_default="default")
    size: int = Field(sa_column_kwargs={"server_default": "0"})
    attempt: int = Field(sa_column_kwargs={"server_default": "1"})
    fence: int = Field(sa_column_kwargs={"server_default": "0"})
    lease_until: datetime | None = time_column(nullable=True)
    released: bool = Field(sa_column_kwargs={"server_default": "false"})
    at_work: str | None = text_column(nullable=True)
    blame: int = Field(sa_column_kwargs={"server_default": "0"})
    flow_run_id: str | None = text_column(nullable=True)
    created_at: datetime = time_column()
    dispatched_at: datetime | None = time_column(nullable=True)
    started_at: datetime | None = time_column(nullable=True)
    finished_at: datetime | None = time_column(nullable=True)
    looked_at: datetime | None = time_column(nullable=True)
    suspended_at: datetime | None = time_column(nullable=True)
    resumes: bool = Field(sa_column_kwargs={"server_default": "false"})


class JobRun(SQLModel, table=True):
    """An execution of a job, and the outbox: a QUEUED run without a batch waits for the dispatcher.

    `request_id` and `traceparent`: of the request that created it (`retrieval.origin`), for logs and traces.
    `waits_for`: the key of a breaker, while that is open. `password`: sealed; null once the run ended. `resumes_batch`:
    the batch whose suspended flow run continues this waiting run.
    """

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
    waits_for: str | None = text_column(nullable=True)
    resumes_batch: str | None = Field(
        sa_column=Column(Text, ForeignKey("batches.id", ondelete="SET NULL"), nullable=True)
    )
    to_discover: bool = Field(sa_column_kwargs={"server_default": "false"})
    discover_cursor: str | None = text_column(nullable=True)
    blame: int = Field(sa_column_kwargs={"server_default": "0"})
    request_id: str | None = text_column(nullable=True)
    traceparent: str | None = text_column(nullable=True)
    progress: dict[str, Any] = json_column()
    timings: dict[str, Any] = json_column()
    created_at: datetime = time_column()
    updated_at: datetime = time_column()
    started_at: datetime | None = time_column(nullable=True)
    finished_at: datetime | None = time_column(nullable=True)
    password: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))


class RunDocument(SQLModel, table=True):
    """Progress of a document within a job run. `stage` names the last completed step.

    `epoch`: of the namespace whose model its chunks were cut for. `made_from` and `partition_id` only where a namespace
    is embedded again: the version that the shadow is built from, and its partition. `access`: the list that its
    document gets with this version, null to keep the current one.
    """

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
    epoch: int = Field(sa_column_kwargs={"server_default": "0"})
    made_from: str | None = text_column(nullable=True)
    partition_id: int | None = None
    access: dict[str, Any] | None = json_column(None)
    blame: int = Field(sa_column_kwargs={"server_default": "0"})


class InboxText(SQLModel, table=True):
    """An accepted text, durable from the moment of the answer until the run has put it into the file store."""

    __tablename__ = "inbox"
    job_run_id: str = reference_column("job_runs.id", primary_key=True)
    document_id: str = text_column(primary_key=True)
    content: str = text_column()


class Sweep(SQLModel, table=True):
    """Something that is deleted for clients but still in a store; garbage collection removes it from `due_at` on.

    `deletion_id`: whose receipt (`deletions`) waits for it; `removed`: what it has found so far, as
    `retrieval.documents.receipts` counts it. `upload`: name, mediaType, size and sha256 of a file to ingest.
    """

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
    deletion_id: str | None = text_column(nullable=True)
    removed: dict[str, Any] = json_column()
    tries: int = Field(sa_column_kwargs={"server_default": "0"})
    due_at: datetime = time_column()
    upload: dict[str, Any] | None = json_column(default=None)


class CrawlPage(SQLModel, table=True):
    """A page that a crawl has seen, or the mark of a content that it keeps; dropped when the job run is over."""

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
    """State of a failing vendor or site, per organization and credential; a row exists only while it fails.

    `key`: a hash of all these. `failures` in a row, which took `lost` seconds; it is open, and refuses requests, until
    `open_until`, for the `opens`th time since `opened_at`. `probe`: the batch that may send requests meanwhile.
    `partitions`: scopes that need it for all their ingestion. `patience`: seconds after which waiting job runs fail.
    """

    __tablename__ = "breakers"
    __table_args__ = (
        Index("breakers_open", "open_until", postgresql_where=text("open_until is not null")),
        Index("breakers_of_organization", "organization_id", "updated_at"),
    )
    key: str = text_column(primary_key=True)
    organization_id: str = reference_column("organizations.id")
    name: str = text_column()
    reason: str = text_column()
    failures: int = Field(sa_column_kwargs={"server_default": "0"})
    lost: float = Field(sa_column_kwargs={"server_default": "0"})
    opens: int = Field(sa_column_kwargs={"server_default": "0"})
    patience: float = Field(nullable=False)
    opened_at: datetime | None = time_column(nullable=True)
    open_until: datetime | None = time_column(nullable=True)
    probe: str | None = text_column(nullable=True)
    partitions: list[int] = Field(sa_column=Column(ARRAY(BigInteger), nullable=False, server_default=text("'{}'")))
    updated_at: datetime = time_column()


class PrefectLevers(SQLModel, table=True):
    """Levers of Prefect that hold ingestion back, as a dispatcher saw them last (`jobs.levers`): one row.

    `sources`: those whose deployments are paused.
    """

    __tablename__ = "prefect_levers"
    id: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    levers: list[dict[str, Any]] = Field(sa_column=Column(JSONB, nullable=False))
    sources: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    recorded_at: datetime = time_column()


class DispatcherLoop(SQLModel, table=True):
    """`dispatcher`: host and process. `reason`: why the loop failed since its last success, by the error's name."""

    __tablename__ = "dispatcher_loops"
    dispatcher: str = text_column(primary_key=True)
    loop: str = text_column(primary_key=True)
    started_at: datetime = time_column()
    succeeded_at: datetime | None = time_column(nullable=True)
    reason: str | None = text_column(nullable=True)
    recorded_at: datetime = time_column()
