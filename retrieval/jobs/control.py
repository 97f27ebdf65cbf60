"""Job runs as people manage them: list, cancel, run failed documents again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from retrieval import failure_causes, job_config, origin
from retrieval import ids as made_ids
from retrieval.database import pagination, partitions
from retrieval.database.database import Database
from retrieval.database.pagination import Page
from retrieval.documents.queries import archive_members
from retrieval.errors import ErrorCode, ServiceError
from retrieval.jobs import names, run_outcome, runs
from retrieval.jobs.queries import batches, passwords
from retrieval.jobs.queries import progress as run_progress
from retrieval.jobs.queries.batches import DocumentKey
from retrieval.jobs.queries.passwords import Seal
from retrieval.jobs.run_outcome import Notice
from retrieval.ports import Scope
from retrieval.statuses import DocumentStatus, Stage, stage_names

PAGE = 50
NAMED = 100
"""Job runs that may be asked for by their ids at once."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A job run without its documents."""

    id: str
    number: int
    job_id: str
    source: str
    status: str
    created_at: datetime
    updated_at: datetime
    progress: Mapping[str, int]
    timings: Mapping[str, float]
    flow_run_id: str | None
    name: str
    outcome: str | None
    notices: list[Notice]
    dry_run: bool = False
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _ListedRun(names.About):
    id: str
    number: int
    job_id: str
    status: str
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    timings: dict[str, float]
    flow_run_id: str | None
    progress: dict[str, Any]
    outcome: str | None

    def summary(self) -> Summary:
        return Summary(
            self.id,
            self.number,
            self.job_id,
            self.tried or self.source,
            self.status,
            self.created_at,
            self.updated_at,
            self.progress,
            self.timings,
            self.flow_run_id,
            names.run_name(self),
            self.outcome,
            run_outcome.run_notices(self.source, self.outcome, self.progress),
            dry_run=bool(self.tried),
            started_at=self.started_at,
            finished_at=self.finished_at,
        )


_MATCHES: LiteralString = (
    """
    (%(outcome)s::text is null or %(outcome)s = (select """
    + run_outcome.OUTCOME
    + " from (select) one "
    + run_progress.COUNTED
    + r"""))
    and (%(about)s::text is null or strpos(lower((
        select concat_ws(' ', r.id, split_part(split_part(url, '?', 1), '#', 1),
                         regexp_replace(
                             case when strpos(first, '://') > 0 then split_part(split_part(first, '?', 1), '#', 1)
                                  else first end, '[?#&][^\s?#&=]+=\S*', '', 'g'), account)
        from """
    + names.ABOUT
    + """
    )), lower(%(about)s)) > 0)
"""
)
"""What is searched for, of run `r` of job `j`: of what is read of it only as much as that takes."""

_OF_SCOPE: LiteralString = (
    """
        from job_runs r
        join jobs j on j.id = r.job_id
        where r.partition_id = (
            select p.id from partitions p
            join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
            where p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
        ) and (%(status)s::text is null or %(status)s = r.status)
          and (%(source)s::text is null or coalesce("""
    + job_config.TRIED
    + """, r.source) = %(source)s) and (%(ids)s::text[] is null or r.id = any(%(ids)s))"""
)
_COUNT: LiteralString = "select count(*)" + _OF_SCOPE
_LIST: LiteralString = (
    "select r.id, r.number, r.job_id, r.status, r.created_at, r.updated_at, r.started_at,"
    " r.finished_at, r.timings,"
    " b.flow_run_id,"
    " counted.progress, "
    + names.COLUMNS
    + ","
    + run_outcome.OUTCOME
    + """ as outcome
    from (
        select r.id"""
    + _OF_SCOPE
    + """
          and (%(after)s::bigint is null or r.number < %(after)s) and """
    + _MATCHES
    + """
        order by r.number desc limit %(limit)s
    ) found
    join job_runs r on r.id = found.id
    join jobs j on j.id = r.job_id
    left join batches b on b.id = r.batch_id
    """
    + run_progress.COUNTED
    + " order by r.number desc"
)
"""What is told of a run is read for those of the page alone; the scope is found before any run is looked at."""


async def list_page(
    db: Database,
    scope: Scope,
    *,
    status: str | None = None,
    outcome: str | None = None,
    source: str | None = None,
    about: str | None = None,
    ids: Sequence[str] | None = None,
    cursor: str | None = None,
    size: int = PAGE,
) -> tuple[Page[Summary], int | None]:
    """The scope's job runs and their number. A page begins after the cursor's run, whatever was accepted since.

    about: a piece of the run's id, address, account, or first document's name, in any case; `ids`: these runs alone.
    Runs with an outcome or such a piece are not counted (None): each run would be computed for that.
    """
    params = {"status": status, "outcome": outcome, "source": source, "about": about, "ids": ids and list(ids)}
    values = {**partitions.scope_params(scope), **params, **pagination.after_number(cursor, size)}
    rows = await db.async_fetch(_ListedRun, _LIST, values)
    page = pagination.take_page([row.summary() for row in rows], size, lambda run: str(run.number))
    if outcome is not None or about is not None:
        return page, None
    (total,) = await db.async_fetch(int, _COUNT, values)
    return page, total


def cancel_run(db: Database, scope: Scope, job_run_id: str) -> None:
    """Cancel a job run: at once if no worker has it, else between two steps of its flow. A finished one does not
    change.

    Blocks: for a thread.
    """
    with db.transaction() as connection:
        run = connection.fetch_one(_Run, _FIND, {**partitions.scope_params(scope), "run": job_run_id})
        if run is None:
            raise runs.not_found()
        is_idle = run.batch_id is None or connection.execute(_HOLD_IDLE, {"batch": run.batch_id}).rowcount
        connection.execute(
            "update job_runs set cancel_requested = true, updated_at = now() where id = %(id)s and finished_at is null",
            {"id": run.id},
        )
        if not is_idle:
            return
        keys = connection.fetch(DocumentKey, OPEN_DOCUMENTS, {"id": run.id})
        batches.close_documents(connection, dict.fromkeys(keys), status=DocumentStatus.CANCELLED)
        ended = connection.fetch(
            str,
            "update job_runs set status = 'COMPLETED', finished_at = now() where id = %(id)s and finished_at is null"
            " returning id",
            {"id": run.id},
        )
        batches.leave_stores(connection, ended)


class _Run(NamedTuple):
    id: str
    batch_id: str | None
    source: str


OPEN_DOCUMENTS: LiteralString = (
    "select job_run_id, document_id from run_documents where job_run_id = %(id)s and status in ('QUEUED', 'PROCESSING')"
)


_FIND: LiteralString = """
    select r.id, r.batch_id, r.source from job_runs r
    join partitions p on p.id = r.partition_id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    where r.id = %(run)s for update of r
"""
_HOLD_IDLE: LiteralString = (
    "select from batches where id = %(batch)s and lease_until is null and finished_at is null for update skip locked"
)
"""A worker that would claim the batch waits until the job run has ended. A batch that is held counts as worked on."""


async def retry_run(
    db: Database,
    scope: Scope,
    job_run_id: str,
    changes: Mapping[str, Any] | None = None,
    *,
    causes: Sequence[str] | None = None,
    seal: Seal | None = None,
) -> str:
    """Queue the failed documents of a run again as a new run of the same job; return its id.

    Content comes from storage. Documents that were ingested or retried since are skipped. A run whose listing failed
    lists again. `changes`: to the configuration of the job, by the keys of `job_config`; the new run then has a job of
    its own, which its documents keep. INVALID_REQUEST for a source whose jobs list their documents: the next listing
    would use the old configuration. `causes`: only documents that failed by one of these. `seal`: of
    the password that opens protected files.
    """
    new = made_ids.job_run_id()
    async with db.async_transaction() as connection:
        values: dict[str, Any] = {
            **partitions.scope_params(scope),
            "run": job_run_id,
            "new": new,
            "causes": list(causes) if causes else None,
            **origin.origin_params(),
        }
        values |= changed_job(changes)
        run = await connection.async_fetch_one(_Run, _FIND, values)
        if run is None:
            raise runs.not_found()
        if changes and run.source not in job_config.CHANGEABLE:
            message = "Only texts, files and URL lists are retried with another ocrConfig or chunkConfig."
            raise ServiceError(ErrorCode.INVALID_REQUEST, message, reason="not_changeable")
        if await connection.async_fetch_one(str, RETRY, values) is None:
            message = "This job run has no failed document that could be run again."
            raise ServiceError(ErrorCode.INVALID_REQUEST, message, reason="nothing_to_retry")
        if seal:
            await passwords.keep_password(connection, [new], seal)
    return new


def changed_job(changes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parameters of RETRY for a job with changes; None: for the same job."""
    return {"job": made_ids.job_id() if changes else None, "changes": json.dumps(dict(changes)) if changes else None}


_BY_CAUSE: LiteralString = f"(%(causes)s::text[] is null or {failure_causes.cause_sql('m.error')} = any(%(causes)s))"
RETRY: LiteralString = (
    """
    with failed as (
        select m.document_id, m.position, m.name, m.media_type, m.raw_key, m.raw_hash, m.raw_size, i.content,
               m.access, """
    + archive_members.PLACE
    + """ as properties
        from run_documents m
        join documents d on d.id = m.document_id and d.job_run_id = m.job_run_id and d.deleted_at is null
        left join inbox i on i.job_run_id = m.job_run_id and i.document_id = m.document_id
        where m.job_run_id = %(run)s and m.status = 'FAILED' and """
    + _BY_CAUSE
    + """ order by d.id for update of d
    ),
    undiscovered as (
        select exists (
            select from run_documents m where m.job_run_id = %(run)s and m.status = 'FAILED' and """
    + _BY_CAUSE
    + " and m.stage = "
    + stage_names(Stage.DISCOVER)
    + """
        ) as again
    ),
    changed as (
        insert into jobs (id, organization_id, partition_id, source, config)
        select %(job)s, j.organization_id, j.partition_id, j.source, """
    + job_config.CHANGED
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
