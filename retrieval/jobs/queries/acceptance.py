"""Statements to record an ingestion request before the response, each in one atomic write."""

from __future__ import annotations

from typing import Any, LiteralString, NamedTuple

from retrieval import job_config
from retrieval.access.queries import lists
from retrieval.database import partitions
from retrieval.database.database import Database

# Beginning of a statement: finds or creates the partition and inserts the job.
_INSERT_JOB: LiteralString = (
    "with "
    + partitions.FIND_OR_MAKE
    + """,
    job as (
        insert into jobs (id, organization_id, partition_id, source, config)
        select %(job)s, %(organization)s, id, %(source)s, %(config)s from partition
        on conflict (id) do nothing
    )"""
)
# Beginning of a statement: also inserts the job run.
_INSERT_JOB_AND_RUN: LiteralString = (
    _INSERT_JOB
    + """,
    run as (
        insert into job_runs (id, job_id, partition_id, source, request_id, traceparent)
        select %(run)s, %(job)s, id, %(source)s, %(request_id)s, %(traceparent)s from partition
        returning number
    ),
"""
)

# Job run of one text or file. The access list of a visible document changes with the new version.
DOCUMENT_STATEMENT: LiteralString = (
    _INSERT_JOB_AND_RUN
    + """    document as (
        insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name, metadata,
                               accepted_bytes, access)
        select %(document)s, id, %(job)s, %(run)s, %(source)s, %(external_id)s, %(document_type)s, %(name)s,
               coalesce(%(metadata)s::jsonb, '{}'), coalesce(%(raw_size)s, octet_length(%(content)s::text)),
               %(access)s::jsonb
        from partition
        on conflict (partition_id, source, external_id) where deleted_at is null
        do update set job_id = excluded.job_id, job_run_id = excluded.job_run_id, status = 'QUEUED', error = null,
                      archive_id = null, inherits_access = false, accepted_bytes = excluded.accepted_bytes,
                      updated_at = now()
        returning id, job_run_id, active_generation > 0 as replaces, access, access_limit
    ),
    run_document as (
        insert into run_documents
            (job_run_id, document_id, position, generation, name, media_type, raw_key, raw_size, raw_hash, access)
        select %(run)s, document.id, 0, run.number, %(name)s, %(media_type)s, %(raw_key)s, %(raw_size)s, %(raw_hash)s,
               """
    + lists.new_version_access("%(access)s::jsonb", "document")
    + """
        from document, run
    ),
    content as (
        insert into inbox (job_run_id, document_id, content)
        select %(run)s, document.id, %(content)s from document where %(content)s::text is not null
    ),
    deletion_cancelled as (delete from sweeps where id = %(sweep)s)
    select id, replaces from document
"""
)

# Job run whose documents are listed later by its flow run.
DISCOVERY_STATEMENT: LiteralString = (
    _INSERT_JOB
    + """
    insert into job_runs (id, job_id, partition_id, source, to_discover, request_id, traceparent)
    select %(run)s, %(job)s, id, %(source)s, true, %(request_id)s, %(traceparent)s from partition
    returning id as job_run_id
"""
)

# Dry run, with a text to test if one was sent.
DRY_RUN_STATEMENT: LiteralString = (
    _INSERT_JOB
    + """,
    run as (
        insert into job_runs (id, job_id, partition_id, source, to_discover, request_id, traceparent)
        select %(run)s, %(job)s, id, %(source)s, true, %(request_id)s, %(traceparent)s from partition
        returning id
    ),
    content as (
        insert into inbox (job_run_id, document_id, content)
        select run.id, %(document)s, %(content)s from run where %(content)s::text is not null
    )
    select id as job_run_id from run
"""
)

# Job run of a list of URLs. Rows are returned in the order of the request, and locked in the order of URLs, so that
# concurrent requests do not deadlock.
URLS_STATEMENT: LiteralString = (
    _INSERT_JOB_AND_RUN
    + """    listed as (
        select * from unnest(%(documents)s::text[], %(urls)s::text[]) with ordinality as w (id, url, position)
    ),
    document as (
        insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name, metadata,
                               access)
        select listed.id, partition.id, %(job)s, %(run)s, %(source)s, listed.url, %(document_type)s, listed.url,
               coalesce(%(metadata)s::jsonb, '{}'),
               %(access)s::jsonb
        from partition, listed order by listed.url
        on conflict (partition_id, source, external_id) where deleted_at is null
        do update set job_id = excluded.job_id, job_run_id = excluded.job_run_id, status = 'QUEUED', error = null,
                      archive_id = null, inherits_access = false, updated_at = now()
        returning id, external_id, active_generation > 0 as replaces, access, access_limit
    ),
    run_document as (
        insert into run_documents (job_run_id, document_id, position, generation, name, access)
        select %(run)s, document.id, listed.position - 1, run.number, listed.url,
               """
    + lists.new_version_access("%(access)s::jsonb", "document")
    + """
        from document join listed on listed.url = document.external_id, run
    )
    select document.id, document.replaces from document join listed on listed.url = document.external_id
    order by listed.position
"""
)


# Job run of several files with distinct external ids. Order of rows and locks as for URLs.
FILES_STATEMENT: LiteralString = (
    _INSERT_JOB_AND_RUN
    + """    listed as (
        select * from unnest(
            %(documents)s::text[], %(external_ids)s::text[], %(names)s::text[], %(media_types)s::text[],
            %(raw_keys)s::text[], %(raw_sizes)s::bigint[], %(raw_hashes)s::bytea[], %(metadata)s::text[]
        ) with ordinality as w (id, external_id, name, media_type, raw_key, raw_size, raw_hash, metadata, position)
    ),
    document as (
        insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name, metadata,
                               accepted_bytes, access)
        select listed.id, partition.id, %(job)s, %(run)s, %(source)s, listed.external_id, 'FILE', listed.name,
               listed.metadata::jsonb, listed.raw_size, %(access)s::jsonb
        from partition, listed order by listed.external_id
        on conflict (partition_id, source, external_id) where deleted_at is null
        do update set job_id = excluded.job_id, job_run_id = excluded.job_run_id, status = 'QUEUED', error = null,
                      archive_id = null, inherits_access = false, accepted_bytes = excluded.accepted_bytes,
                      updated_at = now()
        returning id, external_id, active_generation > 0 as replaces, access, access_limit
    ),
    run_document as (
        insert into run_documents
            (job_run_id, document_id, position, generation, name, media_type, raw_key, raw_size, raw_hash, access)
        select %(run)s, document.id, listed.position - 1, run.number, listed.name, listed.media_type, listed.raw_key,
               listed.raw_size, listed.raw_hash,
               """
    + lists.new_version_access("%(access)s::jsonb", "document")
    + """
        from document join listed using (external_id), run
    ),
    deletions_cancelled as (delete from sweeps where id = any(%(sweeps)s))
    select document.id, document.replaces from document join listed using (external_id) order by listed.position
"""
)


class AcceptedDocument(NamedTuple):
    """Document of a request. `replaces`: an earlier version is visible."""

    id: str
    replaces: bool


# A concurrent request may create the partition after the statement looked for it.
_MAX_ATTEMPTS = 2


async def record_request(db: Database, statement: LiteralString, values: dict[str, Any]) -> list[AcceptedDocument]:
    """Execute a statement for given documents; return the documents, none for a missing namespace."""
    for _ in range(_MAX_ATTEMPTS):
        if rows := await db.async_fetch(AcceptedDocument, statement, values, plan_once=True):
            return rows
    return []


async def record_run(db: Database, statement: LiteralString, values: dict[str, Any]) -> str | None:
    """Execute a statement for a listing or dry run; return the job run's id, None for a missing namespace."""
    for _ in range(_MAX_ATTEMPTS):
        if job_run_id := await db.async_fetch_one(str, statement, values, plan_once=True):
            return job_run_id
    return None


# Copies jobs by id, with changes to their configuration.
COPY_JOBS_STATEMENT: LiteralString = (
    "insert into jobs (id, organization_id, partition_id, source, config)"
    " select copied.new_id, j.organization_id, j.partition_id, j.source, "
    + job_config.CHANGED_CONFIG
    + " from unnest(%(old)s::text[], %(new)s::text[]) copied (old_id, new_id) join jobs j on j.id = copied.old_id"
)
