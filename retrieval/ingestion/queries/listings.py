"""Statements on job runs with an unfinished listing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, LiteralString, NamedTuple

from retrieval import job_config
from retrieval.access.queries import lists
from retrieval.database.database import Database
from retrieval.database.rows import Executor, Params
from retrieval.database.sessions import ThreadConnection
from retrieval.job_config import JobConfig
from retrieval.jobs.queries.batches import Lease
from retrieval.ports import DiscoveryRequest


@dataclass(frozen=True, slots=True)
class PendingListing:
    """Job run with an unfinished listing."""

    job_run_id: str
    job_id: str
    # Also the generation of its documents.
    run_number: int
    request: DiscoveryRequest

    @property
    def is_for_selection(self) -> bool:
        """Check for a run listing items only: new documents wait in BACKLOG for a person's selection."""
        return bool(self.request.config.get("pick"))


def pending_listings(db: Database, lease: Lease) -> list[PendingListing]:
    """Return the batch's job runs with an unfinished listing, in order of arrival."""
    runs = db.fetch(
        _PendingListingRow,
        """
        select r.id, r.job_id, r.number, r.source, j.config from job_runs r join jobs j on j.id = r.job_id
        where r.batch_id = %(batch)s and r.to_discover and r.finished_at is null and not r.cancel_requested
        order by r.number
        """,
        {"batch": lease.batch_id},
    )
    return [_load_listing(lease, run) for run in runs]


class _PendingListingRow(NamedTuple):
    id: str
    job_id: str
    number: int
    source: str
    config: dict[str, Any]


def _load_listing(lease: Lease, run: _PendingListingRow) -> PendingListing:
    config = JobConfig.load(run.config)
    request = DiscoveryRequest(lease.scope, run.source, config.request or {}, config.connection_id, run.id)
    return PendingListing(run.id, run.job_id, run.number, request)


def begin_listing(connection: ThreadConnection, job_run_id: str) -> None:
    """Set a QUEUED run to PRE_PROCESSING."""
    connection.execute(
        "update job_runs set status = 'PRE_PROCESSING', started_at = coalesce(started_at, now()),"
        " updated_at = now() where id = %(run)s and status = 'QUEUED'",
        {"run": job_run_id},
    )


def find_cursor(db: Database, job_run_id: str) -> str | None:
    """Return the cursor of the last saved page."""
    return db.fetch_one(str, "select discover_cursor from job_runs where id = %(run)s", {"run": job_run_id})


def save_cursor(connection: ThreadConnection, job_run_id: str, cursor: str | None) -> bool:
    """Save the cursor; False if the run was cancelled or has ended."""
    # Progress clears the blame for earlier crashes.
    return bool(
        connection.execute(
            "update job_runs set discover_cursor = %(cursor)s, blame = 0 where id = %(run)s and not cancel_requested"
            " and finished_at is null",
            {"run": job_run_id, "cursor": cursor},
        ).rowcount
    )


def end_listing(connection: ThreadConnection, job_run_id: str) -> None:
    """Mark the listing of the run as complete."""
    connection.execute(
        """
        update job_runs set to_discover = false, updated_at = now(), status = case
            when exists (select from run_documents where job_run_id = %(run)s) then 'PROCESSING' else status end
        where id = %(run)s and finished_at is null
        """,
        {"run": job_run_id},
    )


# Access list of a run's request, null for a scheduled run, and the request's position in time: the number of the first
# run of its job.
_REQUEST_ACCESS_QUERY: LiteralString = (
    "select (select min(o.number) from job_runs o where o.job_id = j.id) as number, case when not "
    + job_config.IS_SCHEDULED
    + " then "
    + job_config.NEW_ACCESS
    + " end as access from job_runs r join jobs j on j.id = r.job_id where r.id = %(run)s"
)
# If a content service lists an item again on a later page, the last entry wins.
_RECORD_ITEMS_STATEMENT: LiteralString = (
    """
    with listed as (
        select * from unnest(%(documents)s::text[], %(external_ids)s::text[], %(names)s::text[],
                             %(media_types)s::text[], %(positions)s::int[], %(raw_keys)s::text[],
                             %(raw_sizes)s::bigint[], %(raw_hashes)s::bytea[], %(titles)s::text[],
                             %(properties)s::jsonb[])
                      as w (id, external_id, name, media_type, position, raw_key, raw_size, raw_hash, title, properties)
    ),
    recorded as (
        insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name, status,
                               metadata, connection_id, access)
        select l.id, r.partition_id, r.job_id, r.id, r.source, l.external_id, %(document_type)s, l.name, %(status)s,
               """
    + job_config.NEW_METADATA
    + ", %(connection)s, "
    + job_config.NEW_ACCESS
    + """
        from listed l, job_runs r join jobs j on j.id = r.job_id where r.id = %(run)s
        order by l.external_id
        on conflict (partition_id, source, external_id) where deleted_at is null
        do update set job_id = excluded.job_id, job_run_id = excluded.job_run_id, status = excluded.status,
                      error = null, connection_id = excluded.connection_id, archive_id = null, inherits_access = false,
                      updated_at = now()
        where not %(only_new)s or documents.status = %(status)s
        returning id, external_id, access, access_limit, access_after
    )
    insert into run_documents (job_run_id, document_id, position, generation, name, status, media_type, raw_key,
                               raw_size, raw_hash, title, properties, access)
    select %(run)s, recorded.id, l.position + earlier.count, %(number)s, l.name, %(status)s, l.media_type, l.raw_key,
           l.raw_size, l.raw_hash, l.title, l.properties,
           """
    + lists.new_version_access(
        "case when request.number > coalesce(recorded.access_after, 0) then request.access end", "recorded"
    )
    + """
    from recorded join listed l using (external_id),
         (select count(*)::int as count from run_documents where job_run_id = %(run)s) earlier,
         ("""
    + _REQUEST_ACCESS_QUERY
    + """) request
    on conflict (job_run_id, document_id) do update
        set name = excluded.name, media_type = excluded.media_type, properties = excluded.properties,
            raw_key = excluded.raw_key, raw_size = excluded.raw_size, raw_hash = excluded.raw_hash,
            title = excluded.title
        where %(connection)s::text is not null and run_documents.status = 'QUEUED'
"""
)
_RECORD_REFUSED_STATEMENT: LiteralString = """
    insert into run_documents (job_run_id, document_id, position, generation, name, status, stage, error, properties)
    select %(run)s, w.id, earlier.count + w.position, %(number)s, w.name, 'FAILED', %(discover)s, w.error,
           jsonb_strip_nulls(jsonb_build_object('externalId', w.external_id, 'linkedFrom', w.linked_from))
    from unnest(%(refused)s::text[], %(refused_ids)s::text[], %(refused_names)s::text[], %(errors)s::text[],
                %(linked_from)s::text[])
             with ordinality as w (id, external_id, name, error, linked_from, position),
         (select count(*)::int as count from run_documents where job_run_id = %(run)s) earlier
"""


def record_items(connection: ThreadConnection, values: Params) -> None:
    """Record the items of a listing page, and refused items as FAILED; `values` has an array for each column."""
    connection.execute(_RECORD_ITEMS_STATEMENT, values)
    connection.execute(_RECORD_REFUSED_STATEMENT, values)


def count_skipped(connection: Executor, job_run_id: str, skipped: Mapping[str, int]) -> None:
    """Add the numbers of skipped entries by reason to the run's progress."""
    connection.execute(
        """
        update job_runs r
        set progress = jsonb_set(r.progress, '{skipped}', coalesce(r.progress -> 'skipped', '{}') || (
            select jsonb_object_agg(key, value::int + coalesce((r.progress -> 'skipped' ->> key)::int, 0))
            from jsonb_each_text(%(skipped)s::jsonb)
        )) where id = %(run)s
        """,
        {"run": job_run_id, "skipped": json.dumps(dict(skipped))},
    )
