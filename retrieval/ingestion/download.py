"""Download: bring what a source lists into the file store, before it is known whether anything has changed."""

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
from retrieval.ingestion.listed_content import LISTED
from retrieval.ingestion.queries import run_documents
from retrieval.job_config import JobConfig
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.ports import DiscoveryRequest, FileStore, RawContent, Source, SourceItem

THREADS = 8


@dataclass(frozen=True, slots=True)
class Wanted:
    """A document to download from its source."""

    item: Item
    listed: SourceItem
    request: DiscoveryRequest
    before: _Former
    """The visible version, for a source that reports that nothing has changed."""


@dataclass(frozen=True, slots=True)
class _Former:
    """`listed`: properties from the listing of this run; the rest is stored of the visible version."""

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
    waiting: Sequence[Item],
    files: FileStore,
    source: Source,
    *,
    goes_on: Callable[[], bool] = lambda: True,
) -> None:
    """Download each document independently: permanent errors fail it alone, transient ones keep the content of the
    others."""

    def fetch(wanted: Wanted) -> str | Retryable | None:
        if not goes_on():
            return None
        try:
            _fetch(db, lease, wanted, files, source)
        except Skippable as error:
            return str(error)
        except Retryable as error:
            return error
        return None

    missing = _missing(db, lease, waiting)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="download") as pool:
        ended = list(pool.map(fetch, missing))
    reasons = {document.item.key: end for document, end in zip(missing, ended, strict=True) if isinstance(end, str)}
    run_documents.fail_items(db, lease, reasons)
    if later := {
        document.item.key: end for document, end in zip(missing, ended, strict=True) if isinstance(end, Retryable)
    }:
        first = next(iter(later.values()))
        first.each = dict(later)
        raise first


def _missing(db: Database, lease: Lease, waiting: Sequence[Item]) -> list[Wanted]:
    items_by_key = {item.key: item for item in waiting if item.raw_key is None}
    rows = db.fetch(
        _Former,
        """
        select r.job_run_id, r.document_id, r.properties as listed, d.external_id, d.source, j.config, d.raw_key,
               coalesce(("""
        + connection_documents.LIVING
        + "), "
        + job_config.connection_of()
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
            documents.append(Wanted(item, source_item, request, row))
    return documents


def _fetch(db: Database, lease: Lease, wanted: Wanted, files: FileStore, source: Source) -> None:
    with tempfile.TemporaryDirectory(prefix="download-") as folder:
        listed_version = wanted.before.listed.get(LISTED)
        same = listed_version and listed_version == wanted.before.listed_before
        raw = None if same else source.fetch(wanted.listed, wanted.request, Path(folder) / "raw")
        content = _as_before(wanted) if raw is None else _stored(wanted, lease, files, raw)
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        connection.execute(
            """
            update run_documents set raw_key = %(raw_key)s, raw_size = %(raw_size)s, raw_hash = %(raw_hash)s,
                                     name = %(name)s, media_type = %(media_type)s, title = %(title)s,
                                     properties = %(properties)s
            where job_run_id = %(run)s and document_id = %(document)s and status = 'PROCESSING'
            """,
            {**content, "run": wanted.item.key.job_run_id, "document": wanted.item.key.document_id},
        )


def _stored(wanted: Wanted, lease: Lease, files: FileStore, raw: RawContent) -> dict[str, Any]:
    digest = hashlib.sha256()
    key = wanted.item.file_key(lease.scope, file_keys.RAW)
    size = files.put(key, listed_content.read_pieces(raw, digest.update))
    return listed_content.content_columns(raw, key, size, digest.digest(), _listed_properties(wanted.before))


_LASTING = (LISTED, "url", "path", "owner", "createdAt", "modifiedAt")
"""What a listing said of an item of a content service stays known where it is fetched without one."""


def _listed_properties(former: _Former) -> dict[str, Any]:
    if former.source in sources.WEB:
        return former.listed
    stored = {**(former.properties or {}), LISTED: former.listed_before}
    return {**{name: stored[name] for name in _LASTING if stored.get(name)}, **former.listed}


def _as_before(wanted: Wanted) -> dict[str, Any]:
    """The stored file serves again, under the name that a content service gives it now."""
    former = wanted.before
    return {
        "raw_key": former.raw_key,
        "raw_size": former.raw_size,
        "raw_hash": former.raw_hash,
        "name": former.name if former.source in sources.WEB else wanted.item.name,
        "media_type": former.media_type,
        "title": former.title,
        "properties": json.dumps({**(former.properties or {}), **former.listed}),
    }
