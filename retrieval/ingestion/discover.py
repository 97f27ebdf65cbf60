"""Discover step: record the source's listing page by page, with a cursor that survives the worker."""

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
from retrieval.ingestion.queries import listings
from retrieval.ingestion.queries.listings import PendingListing
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease
from retrieval.ports import FileStore, Page, Source, SourceItem
from retrieval.sources import DOCUMENT_TYPES
from retrieval.statuses import DocumentStatus, Stage


def record_listing(
    db: Database,
    lease: Lease,
    run: PendingListing,
    source: Source,
    files: FileStore | None = None,
    *,
    should_continue: Callable[[], bool] = lambda: True,
) -> None:
    """Record the source's listing from the last saved page on; safe to repeat. Retryable if the listing breaks off."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        listings.begin_listing(connection, run.job_run_id)
    pages = source.discover(run.request, listings.find_cursor(db, run.job_run_id))
    with ExitStack() as stack:
        if isinstance(pages, Generator):  # ends its threads now instead of at garbage collection
            stack.callback(pages.close)
        for page in pages:
            contents = (
                {}
                if run.is_for_selection
                else listed_content.store_content(db, lease, run.run_number, page.items, files)
            )
            if not _record_page(db, lease, run, page, contents) or page.done or not should_continue():
                return
    raise Retryable("The listing broke off before its end.")


def fail_listing(db: Database, lease: Lease, run: PendingListing, error: str) -> None:
    """End the listing of a run with an error entry; documents listed so far are ingested."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        abandon_listing(connection, run.job_run_id, error)


def abandon_listing(connection: ThreadConnection, job_run_id: str, error: str) -> None:
    """End a failed listing inside the caller's transaction."""
    batches.record_failed_listing(connection, job_run_id, error)
    listings.end_listing(connection, job_run_id)


def _record_page(
    db: Database, lease: Lease, run: PendingListing, page: Page[SourceItem], contents: Mapping[str, dict[str, Any]]
) -> bool:
    """Save a page with its cursor; False if the run was cancelled."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        page = within_quotas.mark_beyond_quota(connection, lease, page)
        values = _page_values(run, page, contents)
        is_open = listings.save_cursor(connection, run.job_run_id, page.cursor)
        if is_open:
            listings.record_items(connection, values)
            deleted = [item.external_id for item in page.items if item.deleted]
            deletion.delete_listed(connection, run.job_run_id, deleted)
            if page.skipped:
                listings.count_skipped(connection, run.job_run_id, page.skipped)
            if page.save:
                page.save(connection)
            listed_content.keep_files(connection, run.job_run_id, values["raw_keys"])
            if page.done:
                listings.end_listing(connection, run.job_run_id)
    return is_open


def _page_values(
    run: PendingListing, page: Page[SourceItem], fetched_contents: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    last_items = {item.external_id: item for item in page.items}.values()
    items = [item for item in last_items if not item.error and not item.deleted]
    refused = [item for item in last_items if item.error]
    contents = [{**_unfetched_columns(item), **fetched_contents.get(item.external_id, {})} for item in items]
    return {
        "run": run.job_run_id,
        "number": run.run_number,
        "only_new": run.is_for_selection,
        "connection": run.request.connection_id,
        "status": DocumentStatus.BACKLOG if run.is_for_selection else DocumentStatus.QUEUED,
        "document_type": DOCUMENT_TYPES[run.request.source],
        "external_ids": [item.external_id for item in items],
        **{column: [content[name] for content in contents] for name, column in _CONTENT_COLUMNS.items()},
        "positions": list(range(len(items))),
        "refused": [ids.document_id() for _ in refused],
        "refused_ids": [item.external_id for item in refused],
        "refused_names": [item.name for item in refused],
        "errors": [item.error for item in refused],
        "linked_from": [item.linked_from or None for item in refused],
        "discover": Stage.DISCOVER,
    }


_CONTENT_COLUMNS = {
    "document": "documents",
    "name": "names",
    "media_type": "media_types",
    "raw_key": "raw_keys",
    "raw_size": "raw_sizes",
    "raw_hash": "raw_hashes",
    "title": "titles",
    "properties": "properties",
}


def _unfetched_columns(item: SourceItem) -> dict[str, Any]:
    return {
        "document": ids.document_id(),
        "name": item.name,
        "media_type": item.media_type,
        "raw_key": None,
        "raw_size": None,
        "raw_hash": None,
        "title": "",
        "properties": json.dumps(listed_content.listed_properties(item)),
    }
