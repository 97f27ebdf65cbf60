"""Fetch: find out whether the content has changed at all, and bring what has into the file store."""

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
from retrieval.ingestion.queries import activation, run_documents
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.ports import FileStore, Source
from retrieval.statuses import Stage

PARSER_VERSION = 8
"""Grows when parsing or chunking changes so much that an unchanged file deserves to be parsed again."""

THREADS = 8


def fetch_documents(
    db: Database,
    lease: Lease,
    window: Sequence[DocumentKey],
    files: FileStore,
    embedding: Mapping[str, Any],
    source: Source | None = None,
    *,
    goes_on: Callable[[], bool] = lambda: True,
) -> None:
    """Fetch the content of a window's documents.

    `embedding`: provider, model and dimensions, and the address of an external parser, if there is one. With the
    content they determine if a document has changed. `goes_on`: called before each download; documents not begun stay
    as they are.
    """
    later: Retryable | None = None
    if source is not None:
        try:
            accepted = run_documents.at_stage(db, lease, window, Stage.ACCEPTED)
            download.download_documents(db, lease, accepted, files, source, goes_on=goes_on)
        except Retryable as error:  # those that are there go on, whatever becomes of the others
            later = error
    waiting = run_documents.at_stage(db, lease, window, Stage.ACCEPTED)
    if source is not None:
        waiting = [item for item in waiting if item.raw_key is not None]
    texts = _texts(db, waiting)
    fingerprints = {item.key: fingerprint(item, _hash(item, texts), embedding) for item in waiting}
    unchanged = activation.finish_unchanged(db, lease, waiting, fingerprints)

    def store(item: Item) -> tuple[Item, dict[str, Any]]:
        fields: dict[str, Any] = {"fingerprint": fingerprints[item.key]}
        if (text := texts.get(item.key)) is not None:
            key = item.file_key(lease.scope, file_keys.RAW)
            fields |= {"raw_key": key, "raw_size": files.put(key, [text]), "raw_hash": _hash(item, texts)}
        return item, fields

    with ThreadPoolExecutor(THREADS, thread_name_prefix="fetch") as pool:
        fetched = list(pool.map(store, [item for item in waiting if item.key not in unchanged]))
    run_documents.advance_items(db, lease, fetched, Stage.FETCHED)
    if later is not None:
        raise later


def fingerprint(item: Item, raw_hash: bytes, embedding: Mapping[str, Any]) -> bytes:
    """Two runs with the same fingerprint would store the same chunks and vectors."""
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
    if item.page is not None:
        parts.append([item.page.include, item.page.exclude])
    return hashlib.sha256(json.dumps(parts).encode()).digest()


def _hash(item: Item, texts: Mapping[DocumentKey, bytes]) -> bytes:
    text = texts.get(item.key)
    return (item.raw_hash or b"") if text is None else hashlib.sha256(text).digest()


def _texts(db: Database, waiting: Sequence[Item]) -> dict[DocumentKey, bytes]:
    texts = db.fetch(
        _Text,
        "select job_run_id, document_id, content from inbox where job_run_id = any(%(runs)s)",
        {"runs": [item.key.job_run_id for item in waiting]},
    )
    return {DocumentKey(text.job_run_id, text.document_id): text.content.encode() for text in texts}


class _Text(NamedTuple):
    job_run_id: str
    document_id: str
    content: str
