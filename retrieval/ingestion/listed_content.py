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
# Property of a document: its version in the listing. A document with the same version is not fetched again.
LISTED_VERSION = "listedVersion"
# Property of a document: its version in the response to the fetch.
FETCHED_VERSION = "sourceVersion"


class _TargetFile(NamedTuple):
    document_id: str
    key: str


def store_content(
    db: Database, lease: Lease, run_number: int, items: Sequence[SourceItem], files: FileStore | None
) -> dict[str, dict[str, Any]]:
    """Store the content delivered with items; return the columns of `run_documents` by external id."""
    delivered = [item for item in items if item.content and not item.error and not item.deleted]
    if not delivered:
        return {}
    if files is None:
        raise Fatal("There is no file store for the content that was found.")
    stored_documents = _find_stored_documents(db, lease, [item.external_id for item in delivered])
    targets: dict[str, _TargetFile] = {}
    for item in delivered:
        stored = stored_documents.get(item.external_id)
        if (
            stored is not None
            and stored.listed_version
            and stored.listed_version == item.version
            and lease.source in CONNECTED_SOURCES
        ):
            continue  # its stored file is used again
        document_id = ids.document_id() if stored is None else stored.id
        key = file_keys.document_key(lease.scope, document_id, run_number, file_keys.RAW_NAME)
        targets[item.external_id] = _TargetFile(document_id, key)
    _schedule_deletion(db, lease, [target.key for target in targets.values()])
    return {
        item.external_id: _store_item(item, targets[item.external_id], files)
        for item in delivered
        if item.external_id in targets
    }


def keep_files(connection: ThreadConnection, job_run_id: str, keys: Sequence[str | None]) -> None:
    """Cancel the scheduled deletion of files of documents recorded in the job run."""
    connection.execute(
        "delete from sweeps where kind = 'file' and file_key = any(%(keys)s) and exists ("
        "select from run_documents d where d.job_run_id = %(run)s and d.raw_key = file_key)",
        {"run": job_run_id, "keys": [key for key in keys if key]},
    )


def content_columns(
    raw: RawContent, key: str, size: int, digest: bytes, listing_properties: dict[str, Any]
) -> dict[str, Any]:
    """Return the columns of `run_documents` for stored content, with the properties from the listing."""
    properties = {**listing_properties, **raw.properties}
    if raw.version:
        properties[FETCHED_VERSION] = raw.version
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
    """Yield the content in pieces, each after a call of `update_hash`."""
    with raw.path.open("rb") as file:
        while piece := file.read(READ_PIECE_BYTES):
            update_hash(piece)
            yield piece


def _store_item(item: SourceItem, target: _TargetFile, files: FileStore) -> dict[str, Any]:
    raw, digest = item.content, hashlib.sha256()
    if raw is None:
        raise ValueError("The item has no content.")
    size = files.put(target.key, read_pieces(raw, digest.update))
    columns = content_columns(raw, target.key, size, digest.digest(), listed_properties(item))
    return {"document": target.document_id, **columns}


def listed_properties(item: SourceItem) -> dict[str, Any]:
    """Return the properties of a listed item, including the version."""
    if not item.version:
        return dict(item.properties)
    return {**item.properties, LISTED_VERSION: item.version}


class _StoredDocument(NamedTuple):
    external_id: str
    id: str
    # None without a stored file.
    listed_version: str | None


def _find_stored_documents(db: Database, lease: Lease, external_ids: list[str]) -> dict[str, _StoredDocument]:
    """Return the stored documents of the batch's source by external id."""
    documents = db.fetch(
        _StoredDocument,
        "select d.external_id, d.id, case when exists (select from run_documents e where e.document_id = d.id and"
        " e.raw_key = d.raw_key and e.raw_hash is not null) then d.properties ->> 'listedVersion' end as listed_version"
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
    return {document.external_id: document for document in documents}


def _schedule_deletion(db: Database, lease: Lease, keys: list[str]) -> None:
    """Schedule the deletion of files to be stored."""
    # `keep_files` cancels it when the page is saved. If the worker dies before, the files are deleted.
    db.execute(
        "insert into sweeps (partition_id, kind, file_key, due_at)"
        " select p.id, 'file', key, now() + interval '1 day' from partitions p, unnest(%(keys)s::text[]) key"
        " where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s",
        {"namespace": lease.scope.namespace, "tenant": lease.scope.tenant, "keys": keys},
    )
