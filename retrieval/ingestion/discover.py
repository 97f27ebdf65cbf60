"""Discover: find out what a job run is to ingest, page by page. The frontier of a crawl is kept if the worker dies."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack
from typing import Any

from retrieval import ids
from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.documents.queries import deletion
from retrieval.errors import Retryable
from retrieval.ingestion import listed_content, within_quotas
from retrieval.ingestion.listed_content import LISTED
from retrieval.ingestion.queries import listings
from retrieval.ingestion.queries.listings import Waiting
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease
from retrieval.ports import FileStore, Page, Source, SourceItem
from retrieval.sources import DOCUMENT_TYPES
from retrieval.statuses import DocumentStatus, Stage


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
        listings.begin_listing(connection, wanted.job_run_id)
    pages = source.discover(wanted.request, listings.find_cursor(db, wanted.job_run_id))
    with ExitStack() as stack:
        if isinstance(pages, Generator):  # its own clean-up, such as threads, is due now and not some day
            stack.callback(pages.close)
        for page in pages:
            brought = {} if wanted.picks else listed_content.store_content(db, lease, wanted.number, page.items, files)
            if not _record(db, lease, wanted, page, brought) or page.done or not goes_on():
                return
    raise Retryable("The listing broke off before its end.")


def fail_listing(db: Database, lease: Lease, wanted: Waiting, error: str) -> None:
    """End the listing of a run: one entry has the reason, and the documents listed so far are ingested."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        give_up(connection, wanted.job_run_id, error)


def give_up(connection: ThreadConnection, job_run_id: str, error: str) -> None:
    """Form of `fail` inside the caller's transaction."""
    batches.record_failed_listing(connection, job_run_id, error)
    listings.end_listing(connection, job_run_id)


def _record(
    db: Database, lease: Lease, wanted: Waiting, page: Page[SourceItem], brought: Mapping[str, dict[str, Any]]
) -> bool:
    """Save the page and its cursor together. Whether to go on: not if the run was cancelled."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        page = within_quotas.mark_beyond_quota(connection, lease, page)
        values = _values(wanted, page, brought)
        is_open = listings.save_cursor(connection, wanted.job_run_id, page.cursor)
        if is_open:
            listings.record_items(connection, values)
            deleted = [item.external_id for item in page.items if item.deleted]
            deletion.delete_listed(connection, wanted.job_run_id, deleted)
            if page.skipped:
                listings.count_skipped(connection, wanted.job_run_id, page.skipped)
            if page.save:
                page.save(connection)
            listed_content.keep_files(connection, wanted.job_run_id, values["raw_keys"])
            if page.done:
                listings.end_listing(connection, wanted.job_run_id)
    return is_open


def _values(wanted: Waiting, page: Page[SourceItem], brought: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    last_items = {item.external_id: item for item in page.items}.values()
    items = [item for item in last_items if not item.error and not item.deleted]
    refused = [item for item in last_items if item.error]
    contents = [{**_unfetched(item), **brought.get(item.external_id, {})} for item in items]
    return {
        "run": wanted.job_run_id,
        "number": wanted.number,
        "only_new": wanted.picks,
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
        "linked_from": [item.linked_from or None for item in refused],
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
