"""Fetch step: download documents, detect unchanged content and store the rest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePath
from typing import Any, NamedTuple

from retrieval.database.database import Database
from retrieval.documents import file_keys
from retrieval.errors import Retryable
from retrieval.ingestion import download
from retrieval.ingestion.items import Item
from retrieval.ingestion.queries import activation, page_aliases, run_documents
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.ports import FileStore, Source
from retrieval.statuses import Stage

# Increase it if parsing or chunking changes enough to parse unchanged files again.
PARSER_VERSION = 9

STORE_THREADS = 8


def fetch_documents(
    db: Database,
    lease: Lease,
    window: Sequence[DocumentKey],
    files: FileStore,
    embedding: Mapping[str, Any],
    source: Source | None = None,
    *,
    should_continue: Callable[[], bool] = lambda: True,
) -> None:
    """Fetch the content of a window's documents. `embedding`: provider, model, dimensions and parser address, part of
    the fingerprint."""
    retryable: Retryable | None = None
    if source is not None:
        try:
            accepted = run_documents.items_at_stage(db, lease, window, Stage.ACCEPTED)
            download.download_documents(db, lease, accepted, files, source, should_continue=should_continue)
        except Retryable as error:
            # Downloaded documents continue; the error is raised at the end.
            retryable = error
        if lease.source == "SITEMAP":
            with db.transaction() as connection:
                batches.guard_lease(connection, lease)
                page_aliases.merge_new_copies(connection, {key.job_run_id for key in window})
    items = run_documents.items_at_stage(db, lease, window, Stage.ACCEPTED)
    if source is not None:
        items = [item for item in items if item.raw_key is not None]
    texts = _inbox_texts(db, items)
    fingerprints = {item.key: fingerprint(item, _content_hash(item, texts), embedding) for item in items}
    unchanged = activation.finish_unchanged(db, lease, items, fingerprints)

    def store(item: Item) -> tuple[Item, dict[str, Any]]:
        fields: dict[str, Any] = {"fingerprint": fingerprints[item.key]}
        if (text := texts.get(item.key)) is not None:
            key = item.file_key(lease.scope, file_keys.RAW_NAME)
            fields |= {"raw_key": key, "raw_size": files.put(key, [text]), "raw_hash": _content_hash(item, texts)}
        return item, fields

    with ThreadPoolExecutor(STORE_THREADS, thread_name_prefix="fetch") as pool:
        fetched = list(pool.map(store, [item for item in items if item.key not in unchanged]))
    run_documents.advance_items(db, lease, fetched, Stage.FETCHED)
    if retryable is not None:
        raise retryable


def fingerprint(item: Item, raw_hash: bytes, embedding: Mapping[str, Any]) -> bytes:
    """Return the hash of content and settings; equal fingerprints produce equal chunks and vectors."""
    parts = [
        PARSER_VERSION,
        raw_hash.hex(),
        PurePath(item.name).suffix.lower(),
        item.chunk_size,
        item.chunk_overlap,
        item.ocr.value,
        dict(sorted(embedding.items())),
    ]
    if item.modified_at is not None:
        parts.append({"modifiedAt": item.modified_at})
    if item.scrape_options is not None:
        parts.append([item.scrape_options.include, item.scrape_options.exclude])
    return hashlib.sha256(json.dumps(parts).encode()).digest()


def _content_hash(item: Item, texts: Mapping[DocumentKey, bytes]) -> bytes:
    text = texts.get(item.key)
    return (item.raw_hash or b"") if text is None else hashlib.sha256(text).digest()


def _inbox_texts(db: Database, items: Sequence[Item]) -> dict[DocumentKey, bytes]:
    texts = db.fetch(
        _InboxText,
        "select job_run_id, document_id, content from inbox where job_run_id = any(%(runs)s)",
        {"runs": [item.key.job_run_id for item in items]},
    )
    return {DocumentKey(text.job_run_id, text.document_id): text.content.encode() for text in texts}


class _InboxText(NamedTuple):
    job_run_id: str
    document_id: str
    content: str
