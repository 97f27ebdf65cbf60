"""Retry of failed documents of a batch after its flow run is retried in Prefect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, LiteralString, NamedTuple

from retrieval import failure_causes, ids, job_config, origin
from retrieval.database.database import Database
from retrieval.documents.queries import archive_members
from retrieval.sources import CONNECTED_SOURCES
from retrieval.statuses import Stage, stage_names

OPEN_DOCUMENTS_QUERY: LiteralString = (
    "select job_run_id, document_id from run_documents where job_run_id = %(id)s and status in ('QUEUED', 'PROCESSING')"
)
_CAUSE_CONDITION: LiteralString = (
    f"(%(causes)s::text[] is null or {failure_causes.cause_sql('m.error')} = any(%(causes)s))"
)
RETRY_STATEMENT: LiteralString = (
    """
    with failed as (
        select m.document_id, m.position, m.name, m.media_type, m.raw_key, m.raw_hash, m.raw_size, i.content,
               m.access, """
    + archive_members.ARCHIVE_PROPERTIES
    + """ as properties
        from run_documents m
        join documents d on d.id = m.document_id and d.job_run_id = m.job_run_id and d.deleted_at is null
        left join inbox i on i.job_run_id = m.job_run_id and i.document_id = m.document_id
        where m.job_run_id = %(run)s and m.status = 'FAILED' and """
    + _CAUSE_CONDITION
    + """ order by d.id for update of d
    ),
    undiscovered as (
        select exists (
            select from run_documents m where m.job_run_id = %(run)s and m.status = 'FAILED' and """
    + _CAUSE_CONDITION
    + " and m.stage = "
    + stage_names(Stage.DISCOVER)
    + """
        ) as again
    ),
    changed as (
        insert into jobs (id, organization_id, partition_id, source, config)
        select %(job)s, j.organization_id, j.partition_id, j.source, """
    + job_config.CHANGED_CONFIG
    + """
        from job_runs r join jobs j on j.id = r.job_id
        where r.id = %(run)s and %(job)s::text is not null and exists (select from failed)
        returning id
    ),
    made as (
        insert into job_runs (id, job_id, partition_id, source, to_discover, request_id, traceparent)
        select %(new)s, coalesce((select id from changed), r.job_id), r.partition_id, r.source, u.again,
               %(request_id)s, %(traceparent)s
        from job_runs r, undiscovered u
        where r.id = %(run)s and (u.again or exists (select from failed))
        returning id, number
    ),
    queued as (
        update documents d set status = 'QUEUED', error = null, job_run_id = %(new)s, updated_at = now(),
                             job_id = coalesce((select id from changed), d.job_id)
        from failed where d.id = failed.document_id
    ),
    members as (
        insert into run_documents
            (job_run_id, document_id, position, generation, name, media_type, access, raw_key, raw_hash, raw_size,
             properties)
        select made.id, f.document_id, f.position, made.number, f.name, f.media_type, f.access,
               case when f.content is null then f.raw_key end,
               case when f.content is null then f.raw_hash end,
               case when f.content is null then f.raw_size end, f.properties
        from failed f, made
    ),
    content as (
        insert into inbox (job_run_id, document_id, content)
        select %(new)s, document_id, content from failed where content is not null
    )
    select id from made
"""
)


def changed_job_params(changes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parameters of RETRY_STATEMENT for a job with changes; None: for the same job."""
    return {"job": ids.job_id() if changes else None, "changes": json.dumps(dict(changes)) if changes else None}


class Retry(NamedTuple):
    """Batch of the flow run with the failed documents, and job runs left to the dispatcher."""

    batch_id: str | None = None
    waiting_runs: Sequence[str] = ()


def retry_batch(db: Database, batch_id: str, flow_run_id: str) -> Retry:
    """Create job runs for the failed documents of a batch, and for the flow run a batch with them."""
    # Job runs of a connection follow each other, so content services wait for the dispatcher.
    batch_id = find_newest_batch(db, batch_id, flow_run_id)
    new = ids.batch_id()
    with db.transaction() as connection:
        old = connection.fetch_one(
            _FinishedBatch,
            "select id, partition_id, source from batches where id = %(id)s and finished_at is not null"
            " and source <> 'REEMBED' for update",
            {"id": batch_id},
        )
        if old is None:
            return Retry()
        runs = connection.fetch(str, "select id from job_runs where batch_id = %(id)s order by number", {"id": old.id})
        values = {**origin.origin_params(), **changed_job_params(None), "causes": None}
        retries = [
            connection.fetch_one(str, RETRY_STATEMENT, {"run": run, "new": ids.job_run_id(), **values}) for run in runs
        ]
        queued = [run for run in retries if run is not None]
        if not queued or old.source in CONNECTED_SOURCES:
            return Retry(waiting_runs=tuple(queued))
        connection.execute(
            "insert into batches (id, partition_id, source, flow_run_id, dispatched_at)"
            " values (%(new)s, %(partition)s, %(source)s, %(flow_run)s, now())",
            {"new": new, "partition": old.partition_id, "source": old.source, "flow_run": flow_run_id},
        )
        connection.execute(
            "update job_runs set batch_id = %(new)s where id = any(%(runs)s)", {"new": new, "runs": queued}
        )
    return Retry(new)


def find_newest_batch(db: Database, batch_id: str, flow_run_id: str) -> str:
    """Return the last batch of the flow run, different from its parameter after a retry."""
    newest_id = db.fetch_one(
        str,
        "select id from batches where flow_run_id = %(run)s or id = %(id)s order by created_at desc limit 1",
        {"run": flow_run_id, "id": batch_id},
    )
    return newest_id or batch_id


def is_stored_batch(db: Database, batch_id: str) -> bool:
    return bool(db.fetch_one(bool, "select exists (select from batches where id = %(id)s)", {"id": batch_id}))


def is_finished(db: Database, batch_id: str) -> bool:
    return bool(db.fetch_one(bool, "select finished_at is not null from batches where id = %(id)s", {"id": batch_id}))


class _FinishedBatch(NamedTuple):
    id: str
    partition_id: int
    source: str
