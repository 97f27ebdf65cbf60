"""Download listed documents from their source into the file store."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrieval import job_config, sources
from retrieval.database.database import Database
from retrieval.documents import file_keys
from retrieval.documents.queries import connection_documents
from retrieval.errors import Retryable, Skippable
from retrieval.ingestion import listed_content
from retrieval.ingestion.items import Item
from retrieval.ingestion.listed_content import LISTED_VERSION
from retrieval.ingestion.queries import run_documents
from retrieval.job_config import JobConfig
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.ports import DiscoveryRequest, FileStore, RawContent, Source, SourceItem

DOWNLOAD_THREADS = 8


@dataclass(frozen=True, slots=True)
class PendingDownload:
    """Document to download."""

    item: Item
    source_item: SourceItem
    request: DiscoveryRequest
    # Its content is used again if the source reports no change.
    previous: _PreviousVersion


@dataclass(frozen=True, slots=True)
class _PreviousVersion:
    """Document with its visible version; `listed`: properties from the listing of this run."""

    job_run_id: str
    document_id: str
    listed: dict[str, Any]
    external_id: str
    source: str
    config: dict[str, Any]
    raw_key: str | None
    connection: str | None
    raw_hash: bytes | None
    raw_size: int | None
    name: str | None
    media_type: str | None
    title: str | None
    properties: dict[str, Any] | None
    version: str | None
    listed_before: str | None


def download_documents(
    db: Database,
    lease: Lease,
    items: Sequence[Item],
    files: FileStore,
    source: Source,
    *,
    should_continue: Callable[[], bool] = lambda: True,
) -> None:
    """Download documents concurrently; permanent errors fail one document, Retryable is raised after the others."""

    def fetch(download: PendingDownload) -> str | Retryable | None:
        if not should_continue():
            return None
        try:
            _fetch_document(db, lease, download, files, source)
        except Skippable as error:
            return str(error)
        except Retryable as error:
            return error
        return None

    downloads = _pending_downloads(db, lease, items)
    with ThreadPoolExecutor(DOWNLOAD_THREADS, thread_name_prefix="download") as pool:
        results = list(pool.map(fetch, downloads))
    reasons = {document.item.key: end for document, end in zip(downloads, results, strict=True) if isinstance(end, str)}
    run_documents.fail_items(db, lease, reasons)
    if retryable := {
        document.item.key: end for document, end in zip(downloads, results, strict=True) if isinstance(end, Retryable)
    }:
        first = next(iter(retryable.values()))
        first.errors_by_key = dict(retryable)
        raise first


def _pending_downloads(db: Database, lease: Lease, items: Sequence[Item]) -> list[PendingDownload]:
    items_by_key = {item.key: item for item in items if item.raw_key is None}
    rows = db.fetch(
        _PreviousVersion,
        """
        select r.job_run_id, r.document_id, r.properties as listed, d.external_id, d.source, j.config, d.raw_key,
               coalesce(("""
        + connection_documents.FETCHING_CONNECTION
        + "), "
        + job_config.connection_id_sql()
        + """) as connection,
               p.raw_hash, p.raw_size, p.name, p.media_type, p.title, p.properties,
               case when p.raw_hash is not null then d.properties ->> 'sourceVersion' end as version,
               case when p.raw_hash is not null then d.properties ->> 'listedVersion' end as listed_before
        from run_documents r join documents d on d.id = r.document_id
        join job_runs run on run.id = r.job_run_id join jobs j on j.id = run.job_id
        left join lateral (
            select * from run_documents e where e.document_id = d.id and e.raw_key = d.raw_key limit 1
        ) p on true
        where r.job_run_id = any(%(runs)s) and r.document_id = any(%(documents)s)
        """,
        {"runs": [key.job_run_id for key in items_by_key], "documents": [key.document_id for key in items_by_key]},
    )
    documents = []
    for row in rows:
        item = items_by_key.get(DocumentKey(row.job_run_id, row.document_id))
        if item is not None:
            job_request = JobConfig.load(row.config).request or {}
            request = DiscoveryRequest(lease.scope, row.source, job_request, row.connection, row.job_run_id)
            source_item = SourceItem(
                row.external_id, item.name, item.media_type, row.version or "", properties=row.listed
            )
            documents.append(PendingDownload(item, source_item, request, row))
    return documents


def _fetch_document(db: Database, lease: Lease, download: PendingDownload, files: FileStore, source: Source) -> None:
    with tempfile.TemporaryDirectory(prefix="download-") as folder:
        listed_version = download.previous.listed.get(LISTED_VERSION)
        is_unchanged = listed_version is not None and listed_version == download.previous.listed_before
        # `source.fetch` also returns None for unchanged content.
        raw = None if is_unchanged else source.fetch(download.source_item, download.request, Path(folder) / "raw")
        content = _previous_content(download) if raw is None else _store_content(download, lease, files, raw)
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        connection.execute(
            """
            update run_documents set raw_key = %(raw_key)s, raw_size = %(raw_size)s, raw_hash = %(raw_hash)s,
                                     name = %(name)s, media_type = %(media_type)s, title = %(title)s,
                                     properties = %(properties)s
            where job_run_id = %(run)s and document_id = %(document)s and status = 'PROCESSING'
            """,
            {**content, "run": download.item.key.job_run_id, "document": download.item.key.document_id},
        )


def _store_content(download: PendingDownload, lease: Lease, files: FileStore, raw: RawContent) -> dict[str, Any]:
    digest = hashlib.sha256()
    key = download.item.file_key(lease.scope, file_keys.RAW_NAME)
    size = files.put(key, listed_content.read_pieces(raw, digest.update))
    return listed_content.content_columns(raw, key, size, digest.digest(), _listed_properties(download.previous))


# Listing properties of a content service that a fetch without a listing keeps.
_PERSISTENT_PROPERTIES = (LISTED_VERSION, "url", "path", "owner", "createdAt", "modifiedAt")


def _listed_properties(previous: _PreviousVersion) -> dict[str, Any]:
    if previous.source in sources.WEB_SOURCES:
        return previous.listed
    stored = {**(previous.properties or {}), LISTED_VERSION: previous.listed_before}
    return {**{name: stored[name] for name in _PERSISTENT_PROPERTIES if stored.get(name)}, **previous.listed}


def _previous_content(download: PendingDownload) -> dict[str, Any]:
    """Return the columns of the stored file, with the name that a content service reports now."""
    previous = download.previous
    return {
        "raw_key": previous.raw_key,
        "raw_size": previous.raw_size,
        "raw_hash": previous.raw_hash,
        "name": previous.name if previous.source in sources.WEB_SOURCES else download.item.name,
        "media_type": previous.media_type,
        "title": previous.title,
        "properties": json.dumps({**(previous.properties or {}), **previous.listed}),
    }
