"""Discover: find out what a job run is to ingest, page by page. The frontier of a crawl is kept if the worker dies."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, LiteralString, NamedTuple

from psycopg import Connection

from retrieval import ids, job_config
from retrieval.access import lists
from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.documents import deletion
from retrieval.errors import Retryable
from retrieval.ingestion import listed_content, within_quotas
from retrieval.ingestion.listed_content import LISTED
from retrieval.job_config import JobConfig
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease
from retrieval.ports import DiscoveryRequest, FileStore, Page, Source, SourceItem
from retrieval.sources import DOCUMENT_TYPES
from retrieval.statuses import DocumentStatus, Stage


@dataclass(frozen=True, slots=True)
class Seen:
    """A page of the frontier. `key`: a URL, or the mark of a content that was kept; `tries`: how often it failed."""

    key: str
    depth: int
    done: bool
    kept: bool = False
    tries: int = 0


@dataclass(slots=True)
class Change:
    """Changes of a crawl's frontier in one part of its listing."""

    ended: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """To be tried again."""
    found: list[Seen] = field(default_factory=list)


def load_frontier(db: Database, job_run_id: str) -> list[Seen]:
    """Everything, in the order in which it was found."""
    statement: LiteralString = (
        "select key, depth, done, kept, tries from crawl_pages where job_run_id = %(run)s order by position"
    )
    return db.fetch(Seen, statement, {"run": job_run_id})


def save_change(connection: Connection[Any], job_run_id: str, change: Change) -> None:
    """Part of the transaction that saves the piece."""
    connection.execute(
        """
        insert into crawl_pages (job_run_id, key, depth, done)
        select %(run)s, w.key, w.depth, w.done
        from unnest(%(keys)s::text[], %(depths)s::int[], %(done)s::bool[]) with ordinality
                 as w (key, depth, done, number)
        order by w.number on conflict do nothing
        """,
        {"run": job_run_id, **_columns(change.found)},
    )
    connection.execute(
        """
        update crawl_pages set done = done or key = any(%(ended)s), kept = kept or key = any(%(kept)s),
                               tries = tries + (key = any(%(failed)s))::int
        where job_run_id = %(run)s and key = any(%(ended)s::text[] || %(failed)s::text[])
        """,
        {"run": job_run_id, "ended": change.ended, "kept": change.kept, "failed": change.failed},
    )


def _columns(found: Sequence[Seen]) -> dict[str, list[Any]]:
    return {
        "keys": [page.key for page in found],
        "depths": [page.depth for page in found],
        "done": [page.done for page in found],
    }


def delete_frontiers(db: Database) -> None:
    """Drop the frontiers of job runs that are over."""
    db.execute("delete from crawl_pages c using job_runs r where r.id = c.job_run_id and r.finished_at is not null")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job run that does not know yet what to ingest."""

    job_run_id: str
    job_id: str
    number: int
    request: DiscoveryRequest

    @property
    def picks(self) -> bool:
        """Tell if the run only lists: new documents wait in BACKLOG for a resync."""
        return bool(self.request.config.get("pick"))


def waiting_listings(db: Database, lease: Lease) -> list[Waiting]:
    """The batch's job runs that have not found out everything, in order of arrival."""
    runs = db.fetch(
        _WaitingRow,
        """
        select r.id, r.job_id, r.number, r.source, j.config from job_runs r join jobs j on j.id = r.job_id
        where r.batch_id = %(batch)s and r.to_discover and r.finished_at is null and not r.cancel_requested
        order by r.number
        """,
        {"batch": lease.batch_id},
    )
    return [_waiting(lease, run) for run in runs]


class _WaitingRow(NamedTuple):
    id: str
    job_id: str
    number: int
    source: str
    config: dict[str, Any]


def _waiting(lease: Lease, run: _WaitingRow) -> Waiting:
    config = JobConfig.load(run.config)
    request = DiscoveryRequest(lease.scope, run.source, config.request or {}, config.connection_id, run.id)
    return Waiting(run.id, run.job_id, run.number, request)


def record_listing(
    db: Database,
    lease: Lease,
    wanted: Waiting,
    source: Source,
    files: FileStore | None = None,
    *,
    goes_on: Callable[[], bool] = lambda: True,
) -> None:
    """Record the source's listing as documents of the run, from the last saved page on; safe to repeat.

    `files`: stores content that the source returns with the listing. Ends early if the run is cancelled, or when
    `goes_on`, called after each page, returns False. Retryable if the listing breaks off.
    """
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        connection.execute(
            "update job_runs set status = 'PRE_PROCESSING', started_at = coalesce(started_at, now()),"
            " updated_at = now() where id = %(run)s and status = 'QUEUED'",
            {"run": wanted.job_run_id},
        )
    pages = source.discover(wanted.request, _cursor(db, wanted))
    with ExitStack() as stack:
        if isinstance(pages, Generator):  # its own clean-up, such as threads, is due now and not some day
            stack.callback(pages.close)
        for page in pages:
            brought = {} if wanted.picks else listed_content.store_content(db, lease, wanted.number, page.items, files)
            if not _record(db, lease, wanted, page, brought) or page.done or not goes_on():
                return
    raise Retryable("The listing broke off before its end.")


def _cursor(db: Database, wanted: Waiting) -> str | None:
    """Return the cursor of the last page that any try saved."""
    return db.fetch_one(str, "select discover_cursor from job_runs where id = %(run)s", {"run": wanted.job_run_id})


def fail_listing(db: Database, lease: Lease, wanted: Waiting, error: str) -> None:
    """End the listing of a run: one entry has the reason, and the documents listed so far are ingested."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        give_up(connection, wanted.job_run_id, error)


def give_up(connection: ThreadConnection, job_run_id: str, error: str) -> None:
    """Form of `fail` inside the caller's transaction."""
    batches.record_failed_listing(connection, job_run_id, error)
    _all_known(connection, job_run_id)


def _all_known(connection: ThreadConnection, job_run_id: str) -> None:
    connection.execute(
        """
        update job_runs set to_discover = false, updated_at = now(), status = case
            when exists (select from run_documents where job_run_id = %(run)s) then 'PROCESSING' else status end
        where id = %(run)s and finished_at is null
        """,
        {"run": job_run_id},
    )


_ASKED: LiteralString = (
    "select (select min(o.number) from job_runs o where o.job_id = j.id) as number, case when not "
    + job_config.IS_SCHEDULED
    + " then "
    + job_config.ACCESS
    + " end as access from job_runs r join jobs j on j.id = r.job_id where r.id = %(run)s"
)
"""The list of readers that a job was sent with, and when, as the number of its first run; a schedule's brings none."""
_RECORD: LiteralString = (
    """
    with listed as (
        select * from unnest(%(documents)s::text[], %(external_ids)s::text[], %(names)s::text[],
                             %(media_types)s::text[], %(positions)s::int[], %(raw_keys)s::text[],
                             %(raw_sizes)s::bigint[], %(raw_hashes)s::bytea[], %(titles)s::text[],
                             %(properties)s::jsonb[])
                      as w (id, external_id, name, media_type, position, raw_key, raw_size, raw_hash, title, properties)
    ),
    found as (
        insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name, status,
                               metadata, connection_id, access)
        select l.id, r.partition_id, r.job_id, r.id, r.source, l.external_id, %(document_type)s, l.name, %(status)s,
               """
    + job_config.METADATA
    + ", %(connection)s, "
    + job_config.ACCESS
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
    select %(run)s, found.id, l.position + s.position, %(number)s, l.name, %(status)s, l.media_type, l.raw_key,
           l.raw_size, l.raw_hash, l.title, l.properties,
           """
    + lists.list_of_new_version(
        "case when asked.number > coalesce(found.access_after, 0) then asked.access end", "found"
    )
    + """
    from found join listed l using (external_id),
         (select count(*)::int as position from run_documents where job_run_id = %(run)s) s,
         ("""
    + _ASKED
    + """) asked
    on conflict (job_run_id, document_id) do update
        set name = excluded.name, media_type = excluded.media_type, properties = excluded.properties,
            raw_key = excluded.raw_key, raw_size = excluded.raw_size, raw_hash = excluded.raw_hash,
            title = excluded.title
        where %(connection)s::text is not null and run_documents.status = 'QUEUED'
"""
)
"""What a content service names again on a later page of one run is as it says last."""
_REFUSE: LiteralString = """
    insert into run_documents (job_run_id, document_id, position, generation, name, status, stage, error, properties)
    select %(run)s, w.id, s.position + w.position, %(number)s, w.name, 'FAILED', %(discover)s, w.error,
           jsonb_build_object('externalId', w.external_id)
    from unnest(%(refused)s::text[], %(refused_ids)s::text[], %(refused_names)s::text[], %(errors)s::text[])
             with ordinality as w (id, external_id, name, error, position),
         (select count(*)::int as position from run_documents where job_run_id = %(run)s) s
"""


_COUNT: LiteralString = """
    update job_runs r set progress = jsonb_set(r.progress, '{skipped}', coalesce(r.progress -> 'skipped', '{}') || (
        select jsonb_object_agg(key, value::int + coalesce((r.progress -> 'skipped' ->> key)::int, 0))
        from jsonb_each_text(%(skipped)s::jsonb)
    )) where id = %(run)s
"""


def _record(
    db: Database, lease: Lease, wanted: Waiting, page: Page[SourceItem], brought: Mapping[str, dict[str, Any]]
) -> bool:
    """Save the page and its cursor together. Whether to go on: not if the run was cancelled."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        page = within_quotas.mark_beyond_quota(connection, lease, page)
        values = _values(wanted, page, brought)
        is_open = connection.execute(
            "update job_runs set discover_cursor = %(cursor)s, blame = 0 where id = %(run)s and not cancel_requested"
            " and finished_at is null",
            values,
        ).rowcount
        if is_open:
            connection.execute(_RECORD, values)
            connection.execute(_REFUSE, values)
            deleted = [item.external_id for item in page.items if item.deleted]
            deletion.delete_listed(connection, wanted.job_run_id, deleted)
            if page.skipped:
                connection.execute(_COUNT, values)
            if page.save:
                page.save(connection)
            listed_content.keep_files(connection, wanted.job_run_id, values["raw_keys"])
            if page.done:
                _all_known(connection, wanted.job_run_id)
    return bool(is_open)


def _values(wanted: Waiting, page: Page[SourceItem], brought: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    last_items = {item.external_id: item for item in page.items}.values()
    items = [item for item in last_items if not item.error and not item.deleted]
    refused = [item for item in last_items if item.error]
    contents = [{**_unfetched(item), **brought.get(item.external_id, {})} for item in items]
    return {
        "run": wanted.job_run_id,
        "number": wanted.number,
        "only_new": wanted.picks,
        "cursor": page.cursor,
        "connection": wanted.request.connection_id,
        "status": DocumentStatus.BACKLOG if wanted.picks else DocumentStatus.QUEUED,
        "document_type": DOCUMENT_TYPES[wanted.request.source],
        "external_ids": [item.external_id for item in items],
        **{column: [content[name] for content in contents] for name, column in _COLUMNS.items()},
        "positions": list(range(len(items))),
        "refused": [ids.document_id() for _ in refused],
        "refused_ids": [item.external_id for item in refused],
        "refused_names": [item.name for item in refused],
        "errors": [item.error for item in refused],
        "skipped": json.dumps(dict(page.skipped)),
        "discover": Stage.DISCOVER,
    }


_COLUMNS = {
    "document": "documents",
    "name": "names",
    "media_type": "media_types",
    "raw_key": "raw_keys",
    "raw_size": "raw_sizes",
    "raw_hash": "raw_hashes",
    "title": "titles",
    "properties": "properties",
}


def _unfetched(item: SourceItem) -> dict[str, Any]:
    properties = {**item.properties, **({LISTED: item.version} if item.version else {})}
    return {
        "document": ids.document_id(),
        "name": item.name,
        "media_type": item.media_type,
        "raw_key": None,
        "raw_size": None,
        "raw_hash": None,
        "title": "",
        "properties": json.dumps(properties),
    }
