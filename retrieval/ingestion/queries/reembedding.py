"""Statements to embed a namespace again next to its live index."""

from __future__ import annotations

from typing import Any, LiteralString, NamedTuple

from retrieval.database.database import Database
from retrieval.database.rows import AsyncExecutor, Executor, Params
from retrieval.ingestion.items import ISOLATION_BLAME
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease
from retrieval.namespaces.queries import NAMESPACE_COLUMNS, NamespaceRow
from retrieval.statuses import Stage, stage_names

# State of a document `d` from which its next generation is made; a change requires another build.
SOURCE_MARK: LiteralString = "(d.active_generation || ':' || md5(d.metadata::text))"
_BEGIN_STATEMENT: LiteralString = """
    update namespaces set name = %(name)s, config = %(config)s, secrets = %(secrets)s, dimensions = %(dimensions)s,
        keyword_language = %(keyword_language)s, pending = %(pending)s, pending_run = %(run)s,
        updated_at = greatest(now(), updated_at + interval '1 microsecond')
    where id = %(id)s and organization_id = %(organization_id)s and deleted_at is null and updated_at = %(seen)s
    returning """
# `to_discover` stays true, so that the run is not complete before the swap.
_INSERT_RUN_STATEMENT: LiteralString = """
    with job as (
        insert into jobs (id, organization_id, partition_id, source, config)
        values (%(job)s, %(organization_id)s, %(partition)s, %(source)s, '{}') returning id
    )
    insert into job_runs (id, job_id, partition_id, source, to_discover, request_id, traceparent)
    select %(run)s, id, %(partition)s, %(source)s, true, %(request_id)s, %(traceparent)s from job
"""
_REFRESH_STATEMENT: LiteralString = f"""
    with listed as (
        insert into run_documents (job_run_id, document_id, position, generation, stage, name, media_type, raw_key,
                                   raw_hash, raw_size, parsed_key, title, pages, properties, made_from, partition_id)
        select r.id, d.id, row_number() over (order by d.partition_id, d.created_at, d.id) - 1, r.number,
               {stage_names(Stage.PARSED)}, d.name, coalesce(m.media_type, ''), d.raw_key, m.raw_hash, m.raw_size,
               d.parsed_key,
               coalesce(m.title, ''), coalesce(m.pages, '{{}}'), d.properties, {SOURCE_MARK}, d.partition_id
        from job_runs r, documents d join partitions p on p.id = d.partition_id
        left join lateral (
            select * from run_documents m where m.document_id = d.id and m.generation = d.active_generation limit 1
        ) m on true
        where r.id = %(run)s and p.namespace_id = %(namespace)s and d.deleted_at is null and d.active_generation > 0
        on conflict (job_run_id, document_id) do update
        set stage = {stage_names(Stage.PARSED)}, status = 'QUEUED', error = null,
            name = excluded.name, media_type = excluded.media_type,
            raw_key = excluded.raw_key, raw_hash = excluded.raw_hash, raw_size = excluded.raw_size,
            parsed_key = excluded.parsed_key, title = excluded.title, pages = excluded.pages,
            properties = excluded.properties, made_from = excluded.made_from
        where run_documents.made_from is distinct from excluded.made_from
        returning document_id, generation
    )
    delete from sweeps s using listed l
    where s.kind = 'generation' and s.document_id = l.document_id and s.generation = l.generation
"""
# The sweep forgets vector stores other than the current one once they are empty.
SWEEP_STORES_STATEMENT: LiteralString = """
    insert into sweeps (partition_id, kind, generation, due_at)
    values (%(partition)s, 'stores', %(epoch)s, now() + interval '10 minutes')
"""


class PendingRun(NamedTuple):
    """Re-embedding job run, with the sealed target configuration."""

    id: str
    pending: bytes


class OpenDocument(NamedTuple):
    """Unfinished document of the run. `is_suspect`: it may have crashed a process."""

    job_run_id: str
    document_id: str
    partition_id: int
    tenant: str
    is_suspect: bool


class SealedConfigs(NamedTuple):
    """Sealed configurations of a namespace besides the current one."""

    pending: bytes | None
    retired: bytes | None


async def lock_pending_run(connection: AsyncExecutor, namespace: str) -> str | None:
    """Lock the namespace and return its active job run."""
    statement: LiteralString = """
        select r.id from namespaces n join job_runs r on r.id = n.pending_run and r.finished_at is null
        where n.id = %(id)s for update of n
    """
    return await connection.async_fetch_one(str, statement, {"id": namespace})


async def set_pending(connection: AsyncExecutor, values: Params) -> NamespaceRow | None:
    """Store the current and the sealed next configuration; None if the namespace changed after the read."""
    return await connection.async_fetch_one(NamespaceRow, _BEGIN_STATEMENT + NAMESPACE_COLUMNS, values)


async def insert_run(connection: AsyncExecutor, values: Params) -> None:
    await connection.async_execute(_INSERT_RUN_STATEMENT, values)


def find_pending(db: Executor, lease: Lease) -> PendingRun | None:
    """Return the batch's re-embedding run of the namespace; None if finished, cancelled or replaced."""
    return db.fetch_one(
        PendingRun,
        """
        select r.id, n.pending from namespaces n
        join job_runs r on r.id = n.pending_run and r.finished_at is null and not r.cancel_requested
        where n.id = %(namespace)s and n.deleted_at is null and r.batch_id = %(batch)s
        """,
        {"batch": lease.batch_id, "namespace": lease.scope.namespace},
    )


def list_outdated(db: Database, lease: Lease, job_run_id: str) -> None:
    """List every visible document with a missing or outdated next generation."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        connection.execute(_REFRESH_STATEMENT, {"run": job_run_id, "namespace": lease.scope.namespace})


def list_open_documents(db: Executor, lease: Lease) -> list[OpenDocument]:
    """List unfinished documents by partition; isolated documents come last."""
    return db.fetch(
        OpenDocument,
        """
        select d.job_run_id, d.document_id, d.partition_id, p.tenant, d.blame >= %(isolation_blame)s as is_suspect
        from run_documents d join job_runs r on r.id = d.job_run_id join partitions p on p.id = d.partition_id
        where r.batch_id = %(batch)s and d.status in ('QUEUED', 'PROCESSING') and d.stage <> %(upserted)s
        order by is_suspect, d.partition_id, d.position
        """,
        {"batch": lease.batch_id, "isolation_blame": ISOLATION_BLAME, "upserted": Stage.UPSERTED},
    )


def has_failed(db: Database, job_run_id: str) -> bool:
    """Check if re-embedding failed for a document unchanged since the listing."""
    statement: LiteralString = (
        "select exists (select from run_documents w join documents d on d.id = w.document_id and d.deleted_at is null"
        f" where w.job_run_id = %(run)s and w.status = 'FAILED' and w.made_from = {SOURCE_MARK})"
    )
    return bool(db.fetch_one(bool, statement, {"run": job_run_id}))


def end_runs(connection: Executor, batch_id: str) -> list[str]:
    """Complete the open runs of the batch; return their ids."""
    statement: LiteralString = (
        "update job_runs set status = 'COMPLETED', finished_at = now(), updated_at = now()"
        " where batch_id = %(batch)s and finished_at is null returning id"
    )
    return connection.fetch(str, statement, {"batch": batch_id})


def find_configs(db: Executor, namespace: str) -> dict[str, Any]:
    statement: LiteralString = "select pending, retired from namespaces where id = %(id)s"
    sealed = db.fetch_one(SealedConfigs, statement, {"id": namespace})
    return sealed._asdict() if sealed else {}
