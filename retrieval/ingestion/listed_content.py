"""Content delivered with a listing, stored before the listing page is saved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from retrieval import ids
from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.documents import file_keys
from retrieval.errors import Fatal
from retrieval.jobs.queries.batches import Lease
from retrieval.ports import FileStore, RawContent, SourceItem
from retrieval.sources import CONNECTED_SOURCES

READ_PIECE_BYTES = 256 * 1024
# Version mark from the listing; an equal mark saves the fetch.
LISTED_VERSION = "listedVersion"
# Version mark from the content.
FETCHED_VERSION = "sourceVersion"


def store_content(
    db: Database, lease: Lease, number: int, items: Sequence[SourceItem], files: FileStore | None
) -> dict[str, dict[str, Any]]:
    """Store content delivered with items; return the columns to record by external id."""
    delivered = [item for item in items if item.content and not item.error and not item.deleted]
    if not delivered:
        return {}
    if files is None:
        raise Fatal("There is no file store for the content that was found.")
    documents = _stored_versions(db, lease, [item.external_id for item in delivered])
    keys = {}
    for item in delivered:
        document, version = documents.get(item.external_id) or (ids.document_id(), None)
        if version and version == item.version and lease.source in CONNECTED_SOURCES:
            continue  # the stored file serves again
        keys[item.external_id] = (document, file_keys.document_key(lease.scope, document, number, file_keys.RAW_NAME))
    _schedule_deletion(db, lease, [key for _, key in keys.values()])
    return {
        item.external_id: _store_item(item, *keys[item.external_id], files)
        for item in delivered
        if item.external_id in keys
    }


def keep_files(connection: ThreadConnection, job_run_id: str, keys: Sequence[str | None]) -> None:
    """Remove files of recorded documents from garbage collection."""
    connection.execute(
        "delete from sweeps where kind = 'file' and file_key = any(%(keys)s) and exists ("
        "select from run_documents d where d.job_run_id = %(run)s and d.raw_key = file_key)",
        {"run": job_run_id, "keys": [key for key in keys if key]},
    )


def content_columns(
    raw: RawContent, key: str, size: int, digest: bytes, listing_properties: dict[str, Any]
) -> dict[str, Any]:
    """Return the columns of a run's document with stored content. `listing_properties`: properties from the listing."""
    properties = {**listing_properties, **raw.properties, **({FETCHED_VERSION: raw.version} if raw.version else {})}
    return {
        "raw_key": key,
        "raw_size": size,
        "raw_hash": digest,
        "name": raw.name,
        "media_type": raw.media_type,
        "title": str(properties.pop("title", "")),
        "properties": json.dumps(properties),
    }


def read_pieces(raw: RawContent, update_hash: Callable[[bytes], None]) -> Iterator[bytes]:
    """Yield the content in pieces and hash them."""
    with raw.path.open("rb") as file:
        while piece := file.read(READ_PIECE_BYTES):
            update_hash(piece)
            yield piece


def _store_item(item: SourceItem, document: str, key: str, files: FileStore) -> dict[str, Any]:
    raw, digest = item.content, hashlib.sha256()
    if raw is None:
        raise ValueError("no content")
    size = files.put(key, read_pieces(raw, digest.update))
    properties = {**item.properties, **({LISTED_VERSION: item.version} if item.version else {})}
    return {"document": document, **content_columns(raw, key, size, digest.digest(), properties)}


def _stored_versions(db: Database, lease: Lease, external_ids: list[str]) -> dict[str, tuple[str, str | None]]:
    """Return document id and listed version (None without a stored file) by external id."""
    documents = db.fetch(
        _Document,
        "select d.external_id, d.id, case when exists (select from run_documents e where e.document_id = d.id"
        " and e.raw_key = d.raw_key and e.raw_hash is not null) then d.properties ->> 'listedVersion' end as version"
        " from documents d join partitions p on p.id = d.partition_id"
        " where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s and d.source = %(source)s"
        " and d.external_id = any(%(ids)s) and d.deleted_at is null",
        {
            "namespace": lease.scope.namespace,
            "tenant": lease.scope.tenant,
            "source": lease.source,
            "ids": external_ids,
        },
    )
    return {document.external_id: (document.id, document.version) for document in documents}


class _Document(NamedTuple):
    external_id: str
    id: str
    version: str | None


def _schedule_deletion(db: Database, lease: Lease, keys: list[str]) -> None:
    # Schedules deletion in case the worker dies before the page is saved.
    db.execute(
        "insert into sweeps (partition_id, kind, file_key, due_at)"
        " select p.id, 'file', key, now() + interval '1 day' from partitions p, unnest(%(keys)s::text[]) key"
        " where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s",
        {"namespace": lease.scope.namespace, "tenant": lease.scope.tenant, "keys": keys},
    )
