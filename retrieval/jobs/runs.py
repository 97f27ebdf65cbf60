"""Job runs: record requests in one durable statement before the response, and read a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from retrieval import ids, job_config, origin, principals
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.errors import ErrorCode, ServiceError
from retrieval.job_config import Ingestion, JobConfig
from retrieval.jobs import levers, names, run_outcome
from retrieval.jobs.queries import acceptance, breakers
from retrieval.jobs.queries import progress as run_progress
from retrieval.jobs.queries.acceptance import AcceptedDocument
from retrieval.jobs.run_outcome import Notice
from retrieval.jobs.uploads import Upload
from retrieval.namespaces import namespaces
from retrieval.ports import Scope
from retrieval.statuses import WAITING_STATUSES, DocumentStatus

# Channel of notices about waiting job runs. After a lost notice, dispatchers find the run seconds later.
JOB_RUNS_CHANNEL: LiteralString = "job_runs_waiting"


@dataclass(frozen=True, slots=True)
class DocumentReceipt:
    """Receipt of a request for a document. `replaces`: an earlier version is visible."""

    job_run_id: str
    document_id: str
    replaces: bool


@dataclass(frozen=True, slots=True)
class RunReceipt:
    """Receipt of a request for several documents. `replaced_ids`: documents with a visible version."""

    job_run_id: str
    document_ids: tuple[str, ...] = ()
    replaced_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunDocument:
    """Document within a job run."""

    id: str
    status: str
    error: str | None
    # Name at the time of the run.
    name: str | None
    # Page with a link to this page if a crawl could not fetch it.
    linked_from: str | None = None
    # Later job run of a failed document, such as a retry.
    retried_in: str | None = None


class CauseCount(NamedTuple):
    """Number of failed documents with one cause; `open`: without a later job run."""

    cause: str
    documents: int
    open: int


@dataclass(frozen=True, slots=True)
class JobRun:
    """Job run with its documents in five groups."""

    id: str
    status: str
    created_at: datetime
    updated_at: datetime
    # Seconds by step.
    timings: Mapping[str, float]
    flow_run_id: str | None
    # Whether the run waits for a worker.
    waits: bool = False
    source: str = ""
    connection_id: str | None = None
    progress: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    outcome: str | None = None
    notices: list[Notice] = field(default_factory=list)
    # PUSH for a run started by a push of a content service.
    trigger: str | None = None
    # The report of a dry run is in `progress`.
    dry_run: bool = False
    # The most frequent cause first.
    failures: list[CauseCount] = field(default_factory=list)
    queued: list[RunDocument] = field(default_factory=list)
    processing: list[RunDocument] = field(default_factory=list)
    completed: list[RunDocument] = field(default_factory=list)
    failed: list[RunDocument] = field(default_factory=list)
    cancelled: list[RunDocument] = field(default_factory=list)


async def accept_text(
    db: Database,
    scope: Scope,
    *,
    text: str,
    ingestion: Ingestion,
    name: str | None = None,
    external_id: str | None = None,
) -> DocumentReceipt:
    """Record a text to ingest, identified by external id, else by name or hash."""
    digest = hashlib.sha256(text.encode()).digest()
    return await _accept_document(
        db,
        scope,
        ingestion,
        {
            "source": "TEXT",
            "document_type": "TEXT",
            "external_id": external_id or name or digest.hex(),
            "name": name or external_id or f"text {digest.hex()[:12]}",
            "media_type": "text/plain",
            "content": text,
        },
    )


async def accept_discovery(
    db: Database,
    scope: Scope,
    *,
    source: str,
    config: Mapping[str, Any],
    ingestion: Ingestion,
    connection_id: str | None = None,
) -> RunReceipt:
    """Record a request to list and ingest the documents of a source. `config`: request body, without secrets."""
    values = {
        **partitions.scope_params(scope),
        "job": ids.job_id(),
        "run": ids.job_run_id(),
        "source": source,
        "config": JobConfig(ingestion, config, connection_id).dump(),
        **origin.origin_params(),
    }
    job_run_id = await acceptance.record_run(db, acceptance.DISCOVERY_STATEMENT, values)
    if job_run_id is None:
        raise namespaces.not_found()
    return RunReceipt(job_run_id)


async def accept_urls(
    db: Database,
    scope: Scope,
    *,
    urls: Sequence[str],
    config: Mapping[str, Any],
    ingestion: Ingestion,
) -> RunReceipt:
    """Record one document per distinct URL."""
    pages = list(dict.fromkeys(urls))
    run = ids.job_run_id()
    values: dict[str, Any] = {
        **partitions.scope_params(scope),
        "job": ids.job_id(),
        "run": run,
        "source": "URLS_LIST",
        "document_type": "URL",
        "config": JobConfig(ingestion, config).dump(),
        **origin.origin_params(),
        "metadata": None if ingestion.metadata is None else json.dumps(ingestion.metadata),
        "access": principals.stored_access(ingestion.access),
        "documents": [ids.document_id() for _ in pages],
        "urls": pages,
    }
    rows = await acceptance.record_request(db, acceptance.URLS_STATEMENT, values)
    if not rows:
        raise namespaces.not_found()
    return _run_receipt(run, rows)


async def accept_file(
    db: Database,
    scope: Scope,
    *,
    upload: Upload,
    name: str,
    media_type: str,
    size: int,
    sha256: bytes,
    ingestion: Ingestion,
    external_id: str | None = None,
) -> DocumentReceipt:
    """Record a file that is complete in the file store."""
    return await _accept_document(
        db,
        scope,
        ingestion,
        {
            "source": "LOCAL_FILE",
            "document_type": "FILE",
            "external_id": external_id or name,
            "name": name,
            "media_type": media_type,
            "raw_key": upload.key,
            "raw_size": size,
            "raw_hash": sha256,
            "sweep": upload.sweep,
        },
    )


@dataclass(frozen=True, slots=True)
class NewFile:
    """File of a request for several files, complete in the file store."""

    external_id: str
    name: str
    media_type: str
    size: int
    sha256: bytes
    metadata: Mapping[str, Any]
    upload: Upload


async def accept_files(
    db: Database, scope: Scope, files: Sequence[NewFile], ingestion: Ingestion, name: str | None = None
) -> RunReceipt:
    """Record several files as one job run."""
    run = ids.job_run_id()
    values: dict[str, Any] = {
        **partitions.scope_params(scope),
        "job": ids.job_id(),
        "run": run,
        "source": "LOCAL_FILE",
        "config": JobConfig(ingestion, name=name).dump(),
        **origin.origin_params(),
        "access": principals.stored_access(ingestion.access),
        "documents": [ids.document_id() for _ in files],
        "external_ids": [file.external_id for file in files],
        "names": [file.name for file in files],
        "media_types": [file.media_type for file in files],
        "raw_keys": [file.upload.key for file in files],
        "raw_sizes": [file.size for file in files],
        "raw_hashes": [file.sha256 for file in files],
        "metadata": [json.dumps(file.metadata) for file in files],
        "sweeps": [file.upload.sweep for file in files],
    }
    rows = await acceptance.record_request(db, acceptance.FILES_STATEMENT, values)
    if not rows:
        raise namespaces.not_found()
    return _run_receipt(run, rows)


def _run_receipt(job_run_id: str, rows: Sequence[AcceptedDocument]) -> RunReceipt:
    return RunReceipt(job_run_id, tuple(row.id for row in rows), tuple(row.id for row in rows if row.replaces))


async def read_run(db: Database, scope: Scope, job_run_id: str, *, max_documents: int | None = None) -> JobRun:
    """Return the job run with at most `max_documents` documents, failed and unfinished first."""
    values = {**partitions.scope_params(scope), "run": job_run_id, "max_documents": max_documents}
    row = await db.async_fetch_one(_RunRow, _READ_RUN_QUERY, values, plan_once=True)
    if row is None:
        raise not_found()
    return _job_run(row)


def not_found() -> ServiceError:
    return ServiceError(ErrorCode.INGEST_JOB_RUN_NOT_FOUND, "There is no such ingestion job run in this namespace.")


_READ_RUN_QUERY: LiteralString = (
    "select r.id, r.status, "
    + job_config.connection_id_sql()
    + " as connection_id, r.created_at, r.updated_at, r.timings, r.trigger, b.flow_run_id,"
    " r.finished_at is null and (r.batch_id is null or b.lease_until is null) as waits, counted.progress, "
    + breakers.RUN_BREAKER_QUERY
    + " as breaker, "
    + levers.CURRENT_LEVERS
    + " as levers, b.queue, r.batch_id, "
    + names.DESCRIPTION_COLUMNS
    + ","
    + run_progress.OUTCOME_EXPRESSION
    + """ as outcome,
           (select coalesce(jsonb_agg(jsonb_build_array(d.document_id, d.status, d.error, d.name,
                                                      d.properties ->> 'linkedFrom', d.retried_in)
                                    order by d.retried_in is not null, d.position), '[]')
            from (select m.*, nullif(newest.job_run_id, m.job_run_id) as retried_in from run_documents m
                  left join documents newest on m.status = 'FAILED' and newest.id = m.document_id
                  where m.job_run_id = r.id
                  order by m.status = 'FAILED' desc, (newest.job_run_id <> m.job_run_id) is true,
                           m.status = 'SUCCESS', m.position
                  limit %(max_documents)s::bigint) d) as documents,
           """
    + run_progress.FAILURE_CAUSES_QUERY
    + """ as failures
    from job_runs r
    join jobs j on j.id = r.job_id
    join partitions p on p.id = r.partition_id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    left join batches b on b.id = coalesce(r.batch_id, r.resumes_batch)
    """
    + run_progress.COUNTED_DOCUMENTS
    + " where r.id = %(run)s"
)


_STATUS_FIELDS: Mapping[str, str] = {
    DocumentStatus.PROCESSING: "processing",
    DocumentStatus.SUCCESS: "completed",
    DocumentStatus.FAILED: "failed",
    DocumentStatus.CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True)
class _RunRow(names.RunDescription):
    id: str
    status: str
    connection_id: str | None
    created_at: datetime
    updated_at: datetime
    timings: dict[str, float]
    flow_run_id: str | None
    waits: bool
    progress: dict[str, Any]
    breaker: dict[str, Any] | None
    levers: list[dict[str, Any]]
    queue: str | None
    batch_id: str | None
    outcome: str | None
    trigger: str | None
    # Values of `RunDocument` and `CauseCount`.
    documents: list[list[Any]]
    failures: list[list[Any]]


def _job_run(row: _RunRow) -> JobRun:
    blocking_levers = [] if row.outcome else _list_blocking_levers(row)
    run = JobRun(
        id=row.id,
        status=row.status,
        created_at=row.created_at,
        updated_at=row.updated_at,
        timings=row.timings,
        flow_run_id=row.flow_run_id,
        waits=row.waits,
        source=row.tested_source or row.source,
        connection_id=row.connection_id,
        progress=row.progress,
        name=names.run_name(row),
        outcome=row.outcome,
        notices=run_outcome.run_notices(row.source, row.outcome, row.progress, row.breaker, blocking_levers),
        trigger=row.trigger,
        dry_run=row.tested_source is not None,
        failures=[CauseCount(*values) for values in row.failures],
    )
    for values in row.documents:
        document = RunDocument(*values)
        group = "queued" if document.status in WAITING_STATUSES else _STATUS_FIELDS[document.status]
        getattr(run, group).append(document)
    return run


def _list_blocking_levers(row: _RunRow) -> list[levers.Lever]:
    """Return the levers blocking a waiting run, or the batch of a running run."""
    queue = row.queue if row.waits else ""
    return [
        lever
        for lever in levers.load_levers(row.levers)
        if (row.waits or lever.batch) and lever.blocks(source=row.source, queue=queue, batch=row.batch_id)
    ]


async def _accept_document(
    db: Database, scope: Scope, ingestion: Ingestion, columns: dict[str, Any]
) -> DocumentReceipt:
    run = ids.job_run_id()
    values = {
        "content": None,
        "raw_key": None,
        "raw_size": None,
        "raw_hash": None,
        "sweep": None,
        **columns,
        **partitions.scope_params(scope),
        "job": ids.job_id(),
        "run": run,
        "document": ids.document_id(),
        "config": JobConfig(ingestion).dump(),
        **origin.origin_params(),
        "metadata": None if ingestion.metadata is None else json.dumps(ingestion.metadata),
        "access": principals.stored_access(ingestion.access),
    }
    rows = await acceptance.record_request(db, acceptance.DOCUMENT_STATEMENT, values)
    if not rows:
        raise namespaces.not_found()
    return DocumentReceipt(run, rows[0].id, rows[0].replaces)
